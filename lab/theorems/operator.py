"""The theorems about one heat step as a matrix, ``D = I - α L`` on n tokens in a row, and about Dirichlet energy."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lab import heat
from lab.heads import Head
from lab.heat import dirichlet_energy, heat_step, heat_steps, neumann_laplacian
from lab.theorems.theorem import ROUNDING, Theorem, bounded, equality, off, size
from lab.theorems.worst_cases import cosines, eigenvalues, path_laplacian, representations

SIZES = (2, 3, 16, 33, 64)
STABLE = (0.0, 0.05, 0.25, 0.4, 0.5)


def operator_theorems(trained: Head | None = None) -> list[Theorem]:
    """All of them, in the order of the lab's notes."""
    xs = representations(trained)
    return [
        spectrum(),
        transfer_function(xs),
        non_expansive(xs),
        doubly_stochastic(),
        growth(),
        mass(xs),
        pooling(xs),
        energy_drop(xs),
        energy_bound(xs),
        pure_smoothing(),
        ringing(),
        roughness(xs),
        lipschitz(xs),
    ]


def spectrum() -> Theorem:
    """``L v_k = λ_k v_k`` for the DCT-II basis, with L built from the edges and λ_k written out, against the lab's own too."""
    found = []
    for n in SIZES:
        L, modes, values = path_laplacian(n), cosines(n), eigenvalues(n)
        own = off(neumann_laplacian(n), L), off(heat.eigenvalues(n), values)
        found.append((max(off(L @ modes, modes * values), off(modes.T @ modes, torch.eye(n)), *own), f"{n} tokens"))
    return equality("spectrum", "L has the eigenvalues λₖ = 4 sin²(πk / 2n), with the DCT-II cosines as modes.", found)


def transfer_function(xs: dict[str, Tensor]) -> Theorem:
    """``D^T x`` in the modes is ``(1 - α λ_k)^T x̂_k``."""
    found = []
    for name, x in xs.items():
        modes, values = cosines(len(x)), eigenvalues(len(x))
        for alpha in (0.05, 0.25, 0.45):
            for steps in (1, 7, 100):
                expected = modes @ ((1 - alpha * values[:, None]) ** steps * (modes.T @ x))
                error = size(heat_steps(x, alpha, steps) - expected) / size(x)  # what is left of x may be 0
                found.append((error, f"{name}, α = {alpha:g}, T = {steps}"))
    return equality("transfer_function", "T steps multiply mode k by (1 − α λₖ)ᵀ.", found)


def non_expansive(xs: dict[str, Tensor]) -> Theorem:
    """``‖Dx‖ ≤ ‖x‖``, with no help from the constant mode, which D keeps as it is."""
    centred = {name: x - x.mean(0) for name, x in xs.items() if name != "constant"}
    found = [
        (size(heat_step(x, alpha)) / size(x), f"{name}, α = {alpha:g}")
        for name, x in centred.items()
        for alpha in STABLE[1:]
    ]
    return bounded("non_expansive", "‖D‖₂ ≤ 1 for 0 ≤ α ≤ 1/2.", "‖X‖, for X of mean 0", found)


def doubly_stochastic() -> Theorem:
    """The matrix of D has no negative entry, and rows and columns that sum to 1."""
    found = []
    for n in SIZES:
        for alpha in STABLE:
            D = heat_step(torch.eye(n, dtype=torch.float64), alpha)
            sums = torch.cat([D.sum(0), D.sum(1)])
            found.append((max(off(sums, torch.ones(2 * n)), -float(D.min())), f"{n} tokens, α = {alpha:g}"))
    return equality("doubly_stochastic", "D is doubly stochastic for 0 ≤ α ≤ 1/2.", found)


def growth() -> Theorem:
    """Above 1/2 the highest mode grows once ``α > 2 / λ_{n-1}``, which tends to 1/2 for many tokens: the limit is sharp."""
    n, alpha, x = 1024, 0.51, cosines(1024)[:, -1:]
    worst = size(heat_step(x, alpha, allow_unstable=True)) / size(x)
    return Theorem(
        "growth",
        "Above α = 1/2 the highest mode can grow: the limit is sharp.",
        "growth in one step",
        "above 1",
        worst,
        f"highest cosine mode of {n} tokens, α = {alpha:g}",
        worst > 1,
    )


def mass(xs: dict[str, Tensor]) -> Theorem:
    """``1ᵀ D = 1ᵀ``: the mean over the tokens is kept, however many steps."""
    found = []
    for name, x in xs.items():
        for alpha, steps in ((0.25, 1), (0.5, 1), (0.45, 100)):
            error = float((heat_steps(x, alpha, steps).mean(0) - x.mean(0)).abs().max() / x.abs().max())
            found.append((error, f"{name}, α = {alpha:g}, T = {steps}"))
    return equality("mass", "1ᵀL = 0: the mean over the tokens is conserved.", found)


def pooling(xs: dict[str, Tensor]) -> Theorem:
    """Mean pooling over the real tokens of a padded sequence is the same with and without the heat step right before it."""
    found = []
    for name, x in xs.items():
        mask = torch.arange(len(x)) < max(2, len(x) * 2 // 3)
        pooled, plain = heat_step(x, 0.4, mask=mask)[mask].mean(0), x[mask].mean(0)
        found.append((float((pooled - plain).abs().max() / x.abs().max()), f"{name}, a third of it padding"))
    return equality("pooling", "Heat right before mean pooling changes nothing.", found)


def energy_drop(xs: dict[str, Tensor]) -> Theorem:
    """``E(X) - E(DX) = ½ Σ_k α λ_k² (2 - α λ_k) ‖x̂_k‖²``, with ``E(X) = ½ tr(XᵀLX)`` from the matrix."""
    found = []
    for name, x in xs.items():
        modes, values, L = cosines(len(x)), eigenvalues(len(x)), path_laplacian(len(x))
        power, before = (modes.T @ x).square().sum(1), dirichlet_energy(x)
        scale = float(before) or 1.0
        found.append((abs(float(before - 0.5 * (x * (L @ x)).sum())) / scale, f"{name}, before the step"))
        for alpha in STABLE[1:]:
            drop = before - dirichlet_energy(heat_step(x, alpha))
            expected = 0.5 * (alpha * values**2 * (2 - alpha * values) * power).sum()
            found.append((abs(float(drop - expected)) / scale, f"{name}, α = {alpha:g}"))
    return equality("energy_drop", "E(X) − E(DX) = ½ Σₖ α λₖ² (2 − α λₖ) ‖x̂ₖ‖².", found)


def energy_bound(xs: dict[str, Tensor]) -> Theorem:
    """``α (1 - 2α) ‖LX‖_F² ≤ E(X) - E(DX)``."""
    found = []
    for name, x in _rough(xs).items():
        for alpha in (0.05, 0.25, 0.4):
            drop = float(dirichlet_energy(x) - dirichlet_energy(heat_step(x, alpha)))
            least = alpha * (1 - 2 * alpha) * size(path_laplacian(len(x)) @ x) ** 2
            found.append((least / drop, f"{name}, α = {alpha:g}"))
    statement = "The energy falls by at least α (1 − 2α) ‖LX‖², so it falls strictly for 0 < α < 1/2."
    return bounded("energy_bound", statement, "the drop itself", found)


def pure_smoothing() -> Theorem:
    """For ``α ≤ 1/4`` no factor is negative; at 1/4 that of the highest mode is ``sin²(π / 2n)``, which tends to 0."""
    found = [
        (float(_factors(64, alpha).min()), f"highest cosine mode of 64 tokens, α = {alpha:g}")
        for alpha in (0.05, 0.15, 0.25)
    ]
    worst, on = min(found)
    dies = abs(worst - math.sin(math.pi / 128) ** 2) < ROUNDING
    statement = "α ≤ 1/4 only smooths: no mode changes its sign. At 1/4 the highest mode dies."
    return Theorem(
        "pure_smoothing", statement, "smallest factor of a mode", "at least 0", worst, on, worst >= 0 and dies
    )


def ringing() -> Theorem:
    """For ``1/4 < α < 1/2`` the highest mode is multiplied by a negative factor above -1."""
    found = [
        (float(_factors(64, alpha)[-1]), f"highest cosine mode of 64 tokens, α = {alpha:g}")
        for alpha in (0.26, 0.3, 0.4, 0.49)
    ]
    holds = all(-1 < factor < 0 for factor, _ in found)
    statement = "1/4 < α < 1/2 rings: the highest mode changes its sign at every step, and shrinks."
    worst, on = min(found)
    return Theorem("ringing", statement, "lowest factor of the highest mode", "between −1 and 0", worst, on, holds)


def _factors(n: int, alpha: float) -> Tensor:
    """What the lab's step makes of every mode, ``v_kᵀ D v_k``, (n,)."""
    modes = cosines(n)
    return (modes * heat_step(modes, alpha)).sum(0)


def _rough(xs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those with an energy to speak of: of the others, both sides of a bound are 0."""
    return {name: x for name, x in xs.items() if float(dirichlet_energy(x)) > 1e-20 * size(x) ** 2}


def roughness(xs: dict[str, Tensor]) -> Theorem:
    """``‖DX - X‖_F ≤ 2α √(2 E(X))``."""
    found = [
        (size(heat_step(x, alpha) - x) / _step_bound(x, alpha), f"{name}, α = {alpha:g}")
        for name, x in _rough(xs).items()
        for alpha in (0.05, 0.25, 0.5)
    ]
    statement = "A step moves X by at most 2α √(2 E(X)): smooth inputs hardly notice it."
    return bounded("roughness", statement, "2α √(2 E(X))", found)


def lipschitz(xs: dict[str, Tensor]) -> Theorem:
    """``‖F(DX) - F(X)‖ ≤ Lip(F) 2α √(2 E(X))`` for ``F(X) = relu(X W)``, whose constant is at most ``‖W‖₂``."""
    found = []
    for name, x in _rough(xs).items():
        random = torch.Generator().manual_seed(x.shape[-1])
        W = torch.randn(x.shape[-1], 16, generator=random, dtype=torch.float64)
        moved = size((heat_step(x, 0.25) @ W).relu() - (x @ W).relu())
        found.append((moved / (float(torch.linalg.matrix_norm(W, 2)) * _step_bound(x, 0.25)), name))
    statement = "What a step changes behind any map F is at most Lip(F) · 2α √(2 E(X)); here F is a random ReLU layer."
    return bounded("lipschitz", statement, "Lip(F) · 2α √(2 E(X))", found)


def _step_bound(x: Tensor, alpha: float) -> float:
    return 2 * alpha * math.sqrt(2 * float(dirichlet_energy(x)))
