"""The heat step in numpy, through the cosine modes: what the pages draw, without loading torch.

With λ_k = 4 sin²(πk / 2n) and x̂ the orthonormal DCT-II of x along the tokens, T steps multiply mode k by
``(1 - α λ_k)^T`` and the Dirichlet energy after them is ``½ Σ_k λ_k (1 - α λ_k)^{2T} ‖x̂_k‖²`` (arXiv 2510.03272). Any α ≥ 0 is
taken here, the unstable ones above 1/2 too. The tests hold every function to :mod:`lab.heat`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, idct

Array = NDArray[np.float64]

STEP_LADDER = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100)
"""The numbers of steps that are drawn when smoothing is played: every early one, then ever fewer."""


def eigenvalues(n: int) -> Array:
    """λ_k of the Neumann Laplacian of n tokens, (n,), rising from 0 to below 4."""
    return np.asarray(4 * np.sin(np.pi * np.arange(n) / (2 * n)) ** 2)


def factors(n: int, alpha: float, steps: int = 1) -> Array:
    """The transfer function ``(1 - α λ_k)^steps``, (n,)."""
    return np.asarray((1 - alpha * eigenvalues(n)) ** steps)


def spectrum(x: Array) -> Array:
    """The cosine modes x̂ of ``x (tokens, dim)``, same shape, slowest mode first."""
    return np.asarray(dct(x, axis=0, norm="ortho"))


def amplitude(modes: Array) -> Array:
    """Root mean square over the dimensions of each mode, (tokens,)."""
    return np.asarray(np.sqrt(np.mean(modes**2, axis=1)))


def smoothed(x: Array, alpha: float, steps: Sequence[int]) -> Array:
    """``D^T x`` for every T in ``steps``: ``(len(steps), tokens, dim)``."""
    one = factors(len(x), alpha)[:, None]
    modes = spectrum(x)
    return np.stack([x if t == 0 else np.asarray(idct(modes * one**t, axis=0, norm="ortho")) for t in steps])


def exact_energy(x: Array, alpha: float, steps: Sequence[int]) -> Array:
    """Dirichlet energy after every T in ``steps`` from the modes, (len(steps),)."""
    weight = 0.5 * eigenvalues(len(x)) * np.sum(spectrum(x) ** 2, axis=1)
    square = factors(len(x), alpha) ** 2
    return np.array([np.sum(weight * square**t) for t in steps])


def measured_energy(x: Array, alpha: float, steps: Sequence[int]) -> Array:
    """The same, measured: the steps are taken one by one with the stencil and ``½ Σ ‖x_{i+1} - x_i‖²`` is summed."""
    wanted, found = set(steps), {}
    for t in range(max(steps) + 1):
        edges = np.diff(x, axis=0)
        if t in wanted:
            found[t] = 0.5 * float(np.sum(edges**2))
        flow = np.zeros_like(x)
        flow[:-1] += edges
        flow[1:] -= edges
        x = x + alpha * flow
    return np.array([found[t] for t in steps])
