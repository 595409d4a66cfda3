"""A single attention head, and attention matrices to try the heat step against.

Every matrix is (n, n) with rows that sum to 1: row i says how token i weighs the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.errors import LabError
from lab.heat_checks import check_tokens


def attention(x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor) -> tuple[Tensor, Tensor]:
    """One head: P = softmax(X W_Q (X W_K)ᵀ / √k) and its output P X W_V.

    x is (..., n, d), wq and wk (d, k), wv (d, v); P is (..., n, n) and the output (..., n, v), in the type of x.
    """
    scores = (x @ wq) @ (x @ wk).mT / wq.shape[-1] ** 0.5
    p = torch.softmax(scores, -1)
    return p, p @ (x @ wv)


@dataclass(frozen=True)
class AttentionMatrix:
    """A named attention matrix, with a sentence for people."""

    label: str
    explanation: str
    _build: Callable[[int, float, torch.Generator], Tensor]

    def build(self, n: int, *, width: float = 2.0, seed: int = 0) -> Tensor:
        """The matrix of n tokens, (n, n) float64, rows summing to 1; the same seed gives the same matrix.

        ``width`` is in tokens and matters to the local one only. Raises :class:`LabError` unless n ≥ 1 and width > 0.
        """
        check_tokens(n)
        if not width > 0:
            raise LabError(f"width is {width}; it must be above 0.", "width")
        return self._build(n, width, torch.Generator().manual_seed(seed))


def _uniform(n: int, _width: float, _random: torch.Generator) -> Tensor:
    return torch.full((n, n), 1 / n, dtype=torch.float64)


def _identity(n: int, _width: float, _random: torch.Generator) -> Tensor:
    return torch.eye(n, dtype=torch.float64)


def _local(n: int, width: float, _random: torch.Generator) -> Tensor:
    i = torch.arange(n, dtype=torch.float64)
    return torch.softmax(-0.5 * ((i[:, None] - i) / width) ** 2, -1)


def _shift(n: int, _width: float, _random: torch.Generator) -> Tensor:
    return torch.eye(n, dtype=torch.float64)[(torch.arange(n) - 1).clamp(min=0)]


def _permutation(n: int, _width: float, random: torch.Generator) -> Tensor:
    return torch.eye(n, dtype=torch.float64)[torch.randperm(n, generator=random)]


def _content(n: int, _width: float, random: torch.Generator) -> Tensor:
    x = torch.randn(n, 8, generator=random, dtype=torch.float64)
    w = torch.randn(8, 8, generator=random, dtype=torch.float64) / 8**0.5
    return torch.softmax(x @ w @ x.T, -1)


MATRICES: dict[str, AttentionMatrix] = {
    "uniform": AttentionMatrix(
        "uniform",
        "Every token takes the plain average of all tokens. Heat keeps that average, so they commute.",
        _uniform,
    ),
    "identity": AttentionMatrix(
        "identity", "Every token looks at itself only, so attention does nothing and commutes with heat.", _identity
    ),
    "local": AttentionMatrix(
        "local",
        "Every token looks at its neighbours with Gaussian weights: almost heat itself, but for the ends.",
        _local,
    ),
    "shift": AttentionMatrix(
        "previous token",
        "Every token copies the one before it, and the first itself: it commutes with heat, but for the ends.",
        _shift,
    ),
    "permutation": AttentionMatrix(
        "random permutation",
        "Every token copies some other token at random: neighbours are torn apart, as far from commuting as can be.",
        _permutation,
    ),
    "content": AttentionMatrix(
        "content",
        "Every token looks where the content fits, softmax(X W Xᵀ) of random tokens X, whatever the distance.",
        _content,
    ),
}
"""The built-in matrices by name, from the most orderly to the least."""
