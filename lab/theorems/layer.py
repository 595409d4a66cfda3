"""The theorems about the heat layer as a part of a model: its gradient, a learned α, several strides, padding, the permuted control."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lab.heads import Head
from lab.heat import HeatLayer, heat_step, heat_steps, neumann_laplacian
from lab.theorems.theorem import Theorem, bounded, equality, off, size
from lab.theorems.worst_cases import cosines, eigenvalues, representations

SIZES = (2, 3, 16, 33, 64)


def layer_theorems(trained: Head | None = None) -> list[Theorem]:
    """All of them."""
    xs = representations(trained)
    return [adjoint(xs), learnable(), shared_basis(), multi_scale(xs), padding(xs), permuted_spectrum()]


def adjoint(xs: dict[str, Tensor]) -> Theorem:
    """The gradient of ``⟨D^T x, g⟩`` by automatic differentiation is ``D^T g``, and ``⟨Dx, g⟩ = ⟨x, Dg⟩``."""
    found = []
    for name, x in xs.items():
        g = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        for steps, strides in ((1, (1,)), (20, (1,)), (3, (1, 2, 4))):
            start = x.clone().requires_grad_()
            out = heat_steps(start, 0.3, steps, strides=strides)
            (gradient,) = torch.autograd.grad((out * g).sum(), start)
            smoothed = heat_steps(g, 0.3, steps, strides=strides)
            symmetric = abs(float((out.detach() * g).sum() - (x * smoothed).sum())) / (size(x) * size(g))
            found.append((max(off(gradient, smoothed), symmetric), f"{name}, T = {steps}, strides {strides}"))
    return equality("adjoint", "D is symmetric: the gradient through a step is the step of the gradient.", found)


def learnable() -> Theorem:
    """``α = ½ (1 - ε) σ(θ)`` stays below 1/2, be θ what it may; several strides share it."""
    found = []
    for theta in (-1e30, -100.0, 0.0, 100.0, 1e30):
        for strides in ((1,), (1, 2, 4)):
            layer = HeatLayer(0.25, learnable=True, strides=strides)
            with torch.no_grad():
                for parameter in layer.parameters():
                    parameter.fill_(theta)
                total = float(torch.stack([torch.as_tensor(a).double() for a in layer.alphas]).sum())
            found.append((total / 0.5 if total >= 0 else math.inf, f"θ = {theta:g}, strides {strides}"))
    worst, on = max(found)
    statement = "A learned α = ½ (1 − ε) σ(θ) stays stable for every θ."
    return Theorem("learnable", statement, "largest ratio to the bound", "below 1/2", worst, on, worst < 1)


def shared_basis() -> Theorem:
    """Every ``L_s`` is symmetric, has the cosines as modes with ``4 sin²(πks / 2n)``, and so all of them commute."""
    found = []
    for n in SIZES:
        modes = cosines(n)
        every = {s: neumann_laplacian(n, s) for s in (1, 2, 4, 8)}
        for s, L in every.items():
            diagonal = float((L @ modes - modes * eigenvalues(n, s)).abs().max())  # of n tokens, L of stride 2n is 0
            commute = max(float((L @ other - other @ L).abs().max()) for other in every.values())
            found.append((max(diagonal, commute, float((L - L.T).abs().max())), f"{n} tokens, stride {s}"))
    statement = "Multi-scale: all Lₛ are symmetric, commute and share the cosines, with eigenvalues 4 sin²(πks / 2n)."
    return equality("shared_basis", statement, found)


def multi_scale(xs: dict[str, Tensor]) -> Theorem:
    """``‖Dx‖ ≤ ‖x‖`` for ``D = I - Σ_s α_s L_s`` with ``Σ α_s < 1/2``, whatever the shares."""
    shares = ((0.499, 0.0, 0.0), (0.0, 0.499, 0.0), (0.0, 0.0, 0.499), (0.2, 0.1, 0.1))
    found = [
        (size(heat_step(x, alphas, strides=(1, 2, 4))) / size(x), f"{name}, α = {alphas}")
        for name, x in xs.items()
        if name != "constant"
        for alphas in shares
    ]
    return bounded("multi_scale", "Multi-scale: ‖D‖₂ ≤ 1 for Σ αₛ < 1/2.", "‖X‖", found)


def padding(xs: dict[str, Tensor]) -> Theorem:
    """Real tokens come out as if there were no padding, whatever stands in it."""
    found = []
    for name, x in xs.items():
        real = len(x) * 2 // 3
        alone = heat_steps(x[:real], 0.4, 5)
        mask = torch.arange(len(x)) < real
        for filling in (1e30, math.inf, math.nan):
            padded = torch.where(mask[:, None], x, torch.tensor(filling, dtype=torch.float64))
            out = heat_steps(padded, 0.4, 5, mask=mask)[:real]
            found.append((off(out, alone), f"{name}, padding of {filling:g}"))
    return equality("padding", "Padding never leaks into a real token.", found)


def permuted_spectrum() -> Theorem:
    """The permuted control ``PᵀDP`` has the spectrum of D: as strong a smoothing, between random tokens."""
    found = []
    for n in SIZES:
        order = torch.randperm(n, generator=torch.Generator().manual_seed(n))
        D = heat_step(torch.eye(n, dtype=torch.float64), 0.3, permutation=order)
        expected = (1 - 0.3 * eigenvalues(n)).sort().values
        found.append((off(torch.linalg.eigvalsh(D), expected), f"{n} tokens"))
    return equality("permuted_spectrum", "The permuted control PᵀDP has the same spectrum as D.", found)
