"""Token sequences that try a heat step: random and adversarial ones, in float64, and D written out independently."""

from collections.abc import Sequence

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

KINDS = ("random", "constant", "highest mode", "spike", "step", "outlier")
ALPHAS = st.sampled_from([0.0, 0.25, 0.5]) | st.floats(0, 0.5)


def tokens(n: int, dim: int, kind: str, scale: float, seed: int) -> Tensor:
    random = np.random.default_rng(seed)
    x = {
        "random": lambda: random.standard_normal((n, dim)),
        "constant": lambda: np.ones((n, 1)) * random.standard_normal(dim),
        "highest mode": lambda: np.cos(np.pi * (n - 1) * (np.arange(n) + 0.5) / n)[:, None] * np.ones(dim),
        "spike": lambda: np.eye(n)[:, [random.integers(n)]] * np.ones(dim),
        "step": lambda: (np.arange(n) < random.integers(n + 1))[:, None] * np.ones(dim),
        "outlier": lambda: random.standard_normal((n, dim)) + 1e6 * np.eye(n)[:, [0]],
    }[kind]()
    return torch.from_numpy(scale * x)


@st.composite
def sequences(draw, max_tokens: int = 24) -> Tensor:
    n = draw(st.sampled_from([1, 2, 3]) | st.integers(1, max_tokens))
    kind, scale = draw(st.sampled_from(KINDS)), draw(st.sampled_from([1.0, 1e-30, 1e30, 1e3]))
    return tokens(n, draw(st.integers(1, 4)), kind, scale, draw(st.integers(0, 10**6)))


def laplacian_by_padding(n: int, stride: int) -> np.ndarray:
    """L_s from its definition, by numpy's symmetric padding of the identity."""
    eye = np.eye(n)
    padded = np.pad(eye, ((stride, stride), (0, 0)), mode="symmetric")
    return 2 * eye - padded[:n] - padded[2 * stride :]


def heat_matrix(n: int, alpha: float, strides: Sequence[int] = (1,)) -> Tensor:
    return torch.from_numpy(np.eye(n) - sum(alpha / len(strides) * laplacian_by_padding(n, s) for s in strides))


def size(x: Tensor) -> float:
    """The largest magnitude, against which rounding is judged; 1e-300 for zero, so that a division is defined."""
    return max(float(x.abs().max()), 1e-300)
