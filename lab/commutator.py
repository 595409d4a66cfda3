"""How far the heat step and attention are from commuting.

With the heat step D = I - α L and an attention matrix P (rows sum to 1), the linear part is [D, P] = DP - PD
= α (PL - LP). Attention also depends on its input, P = P(X), so the true swap of the order is

    Attn(DX) - D Attn(X) = [P(DX) - P(X)] D X V + [P(X), D] X V,

a routing shift (attention looks elsewhere) plus the operator commutator. This split and its indices are this
project's own reading of the "double mixing" in arXiv 2510.03272.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lab.heat_checks import check_tokens, step_sizes


def commutator(p: Tensor, alpha: float) -> Tensor:
    """[D, P] = DP - PD = α (PL - LP) for P (..., n, n); L acts by differences, so no product of matrices is formed.

    Raises :class:`lab.errors.LabError` unless 0 ≤ α ≤ 1/2.
    """
    (a,) = step_sizes(alpha, 1)
    check_tokens(p.shape[-1])
    return a * (_laplacian(p.mT).mT - _laplacian(p))  # L is symmetric: PL = (L Pᵀ)ᵀ


def _laplacian(x: Tensor) -> Tensor:
    """L x on the second last axis: what flows out of each token minus what flows in."""
    flux = x[..., 1:, :] - x[..., :-1, :]
    zero = torch.zeros_like(x[..., :1, :])
    return torch.cat([zero, flux], -2) - torch.cat([flux, zero], -2)


def spectral_norm(matrix: Tensor) -> Tensor:
    """‖A‖₂, the largest singular value, of (..., n, m): the most it can stretch a vector's Euclidean length."""
    return torch.linalg.matrix_norm(matrix, 2)


def infinity_norm(matrix: Tensor) -> Tensor:
    """‖A‖_∞, the largest row sum of absolute values, of (..., n, m): the most it can raise a vector's largest entry."""
    return torch.linalg.matrix_norm(matrix, torch.inf)


def spectral_bound(p: Tensor, alpha: float) -> Tensor:
    """4 α ‖P‖₂ ≥ ‖[D, P]‖₂. L - 2I has norm at most 2 and the same commutator, so this is half the naive 8 α ‖P‖₂."""
    return 4 * alpha * spectral_norm(p)


def infinity_bound(alpha: float) -> float:
    """4 α ≥ ‖[D, P]‖_∞ for every row-stochastic P. Most permutations of many tokens attain it."""
    return 4 * alpha


@dataclass(frozen=True)
class OrderSwap:
    """Attn(DX) - D Attn(X) and its two parts, each (..., n, d); swap = routing + operator up to rounding.

    The indices are Frobenius norms over the last two axes relative to ‖Attn(X)‖_F, shape (...), and pure numbers.
    They are NaN where Attn(X) and its parts are 0.
    """

    swap: Tensor
    routing: Tensor
    operator: Tensor
    size: Tensor  # ‖Attn(X)‖_F

    @property
    def chi(self) -> Tensor:
        """χ = ‖Attn(DX) - D Attn(X)‖_F / ‖Attn(X)‖_F."""
        return _frobenius(self.swap) / self.size

    @property
    def routing_index(self) -> Tensor:
        """‖[P(DX) - P(X)] D X V‖_F / ‖Attn(X)‖_F: how much attention looks elsewhere."""
        return _frobenius(self.routing) / self.size

    @property
    def operator_index(self) -> Tensor:
        """‖[P(X), D] X V‖_F / ‖Attn(X)‖_F: how much fixed attention and heat disturb each other."""
        return _frobenius(self.operator) / self.size


def order_swap(p_x: Tensor, p_dx: Tensor, values: Tensor, heat: Callable[[Tensor], Tensor]) -> OrderSwap:
    """What it changes to apply the heat step before instead of after attention.

    ``p_x`` and ``p_dx`` (..., n, n) are the attention matrices P(X) and P(DX), ``values`` (..., n, d) is X V, and
    ``heat`` applies D along the token axis. D acts along the tokens and V along the features, so (DX) V = D (XV); a
    bias of V changes nothing, as D leaves constants alone. Works for one head as for (arms, batch, heads, n, n) with
    padding, as long as padded keys have weight 0 and ``heat`` knows the mask.
    """
    attended = p_x @ values
    smoothed = heat(values)
    after = heat(attended)
    return OrderSwap(
        swap=p_dx @ smoothed - after,
        routing=(p_dx - p_x) @ smoothed,
        operator=p_x @ smoothed - after,
        size=_frobenius(attended),
    )


def _frobenius(x: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(x, "fro")
