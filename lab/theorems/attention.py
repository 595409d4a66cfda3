"""The theorems about heat and attention: ``[D, P] = DP - PD`` of a fixed row-stochastic P, and the order swap of one that looks."""

from __future__ import annotations

import torch
from torch import Tensor

from lab.attention import MATRICES, attention
from lab.commutator import commutator, infinity_bound, infinity_norm, order_swap, spectral_bound, spectral_norm
from lab.heads import Head
from lab.heat import heat_step
from lab.theorems.theorem import Theorem, bounded, equality, off, size
from lab.theorems.worst_cases import built, matrices, path_laplacian

ALPHA = 0.25
GENERIC = 0.01
"""A commutator whose norm is above this share of its bound is not zero by any rounding."""


def attention_theorems(trained: Head | None = None) -> list[Theorem]:
    """All of them."""
    ps = matrices(trained)
    return [identity(ps), spectral(ps), infinity(ps), commuting(), generic(), swap(trained)]


def identity(ps: dict[str, Tensor]) -> Theorem:
    """``DP - PD``, multiplied out, against ``α (PL - LP)`` with an independent L and against the lab's own."""
    found = []
    for name, p in ps.items():
        n = len(p)
        L, D = path_laplacian(n), heat_step(torch.eye(n, dtype=torch.float64), ALPHA)
        product = D @ p - p @ D
        errors = (float((product - other).abs().max()) for other in (ALPHA * (p @ L - L @ p), commutator(p, ALPHA)))
        found.append((max(errors), name))
    return equality("identity", "[D, P] = α (PL − LP).", found)


def spectral(ps: dict[str, Tensor]) -> Theorem:
    """``‖[D, P]‖₂ ≤ 4 α ‖P‖₂``."""
    found = [(float(spectral_norm(commutator(p, ALPHA)) / spectral_bound(p, ALPHA)), name) for name, p in ps.items()]
    statement = "‖[D, P]‖₂ ≤ 4 α ‖P‖₂, half of the naive bound."
    return bounded("spectral", statement, "4 α ‖P‖₂", found)


def infinity(ps: dict[str, Tensor]) -> Theorem:
    """``‖[D, P]‖_∞ ≤ 4 α`` for rows that sum to 1."""
    found = [(float(infinity_norm(commutator(p, ALPHA))) / infinity_bound(ALPHA), name) for name, p in ps.items()]
    statement = "‖[D, P]‖∞ ≤ 4 α for row-stochastic P; a random permutation attains it."
    return bounded("infinity", statement, "4 α", found)


def commuting() -> Theorem:
    """``[D, P] = 0`` for uniform P, for the identity, and for polynomials in L."""
    n = 48
    L = path_laplacian(n)
    eye = torch.eye(n, dtype=torch.float64)
    found = [(float(commutator(MATRICES[name].build(n), ALPHA).abs().max()), name) for name in ("uniform", "identity")]
    for seed in range(3):
        shares = torch.rand(4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        shares = shares / shares.sum()
        steps = (eye, eye - 0.2 * L, (eye - 0.3 * L) @ (eye - 0.1 * L), torch.linalg.inv(eye + 2 * L))
        polynomial = sum((a * step for a, step in zip(shares, steps, strict=True)), torch.zeros_like(L))
        found.append((float(commutator(polynomial, ALPHA).abs().max()), f"function of L number {seed + 1}"))
    statement = "[D, P] = 0 for uniform P, for P = I and for every function of L, such as a polynomial."
    return equality("commuting", statement, found)


def generic() -> Theorem:
    """… and not for a generic P: the smallest commutator of content-based attention, among a few draws."""
    draws = {f"content attention, draw {seed + 1}": MATRICES["content"].build(48, seed=seed) for seed in range(5)}
    sizes = ((float(infinity_norm(commutator(p, ALPHA))) / infinity_bound(ALPHA), name) for name, p in draws.items())
    worst, on = min(sizes)
    statement = "[D, P] is not 0 for a generic P."
    return Theorem("generic", statement, "smallest ratio to 4 α", "above 0", worst, on, worst > GENERIC)


def swap(trained: Head | None) -> Theorem:
    """``Attn(DX) - D Attn(X) = [P(DX) - P(X)] D X V + [P(X), D] X V``, the left side computed by itself."""

    def heat(x: Tensor) -> Tensor:
        return heat_step(x, ALPHA)

    found = []
    for name, x in built().items():
        random, d = torch.Generator().manual_seed(2), x.shape[1]
        q, k, v = (torch.randn(d, 8, generator=random, dtype=torch.float64) for _ in range(3))
        (p, out), (p_smoothed, out_smoothed) = attention(x, q, k, v), attention(heat(x), q, k, v)
        parts = order_swap(p, p_smoothed, x @ v, heat)
        error = size(out_smoothed - heat(out) - parts.routing - parts.operator) / size(out)
        found.append((error, name))
    if trained is not None:
        parts = order_swap(trained.p, trained.p_smoothed, trained.values, heat)
        left = trained.p_smoothed @ heat(trained.values) - heat(trained.p @ trained.values)
        found.append((off(parts.routing + parts.operator, left), "a trained head"))
    statement = (
        "Attn(DX) − D Attn(X) is a routing shift plus the operator commutator: [P(DX) − P(X)] DXV + [P(X), D] XV."
    )
    return equality("swap", statement, found)
