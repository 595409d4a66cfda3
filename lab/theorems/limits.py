"""Where the theory ends: what a Transformer has besides the heat step and attention, with a number for how much it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from lab.attention import attention
from lab.commutator import order_swap
from lab.heat import dirichlet_energy, heat_step, heat_steps
from lab.theorems.theorem import size

ALPHA = 0.25


@dataclass(frozen=True)
class Limit:
    """A part of a Transformer that the theorems say nothing about: what it breaks, and how much on a random input."""

    part: str
    breaks: str
    measure: str
    value: float


def limits() -> list[Limit]:
    """What the theory does not reach, each with one number, measured on random inputs of 64 tokens × 32 dimensions."""
    random = torch.Generator().manual_seed(0)
    x, a = (torch.randn(64, 32, generator=random, dtype=torch.float64) for _ in range(2))
    q, k, v, w, u = (torch.randn(32, 32, generator=random, dtype=torch.float64) / 32**0.5 for _ in range(5))

    def heat(y: Tensor) -> Tensor:
        return heat_step(y, ALPHA)

    def norm(y: Tensor) -> Tensor:
        return layer_norm(y, (32,))

    def tokenwise(y: Tensor) -> Tensor:
        return y + (y @ w).relu() @ u

    def gap(one: Callable[[Tensor], Tensor], other: Callable[[Tensor], Tensor]) -> float:
        return size(one(x) - other(x)) / size(other(x))

    (p, _), (p_smoothed, _) = attention(x, q, k, v), attention(heat(x), q, k, v)
    parts = order_swap(p, p_smoothed, x @ v, heat)
    update, whole = (float(dirichlet_energy(y) / dirichlet_energy(x + a)) for y in (x + heat(a), heat(x + a)))
    return [
        Limit(
            "Softmax",
            "The bounds hold for a fixed P, but a smoothed input also changes where attention looks, which nothing here bounds.",
            "routing shift relative to the operator commutator",
            float(parts.routing_index / parts.operator_index),
        ),
        Limit(
            "Layer norm",
            "It rescales every token by its own length, so it does not commute with D, and the token mean behind it is not conserved.",
            "‖LN(DX) − D LN(X)‖ relative to ‖D LN(X)‖",
            gap(lambda y: norm(heat(y)), lambda y: heat(norm(y))),
        ),
        Limit(
            "Residual path",
            "Heat on a branch smooths only what the branch adds: however large α is, the roughness of h stays in h + Da.",
            f"energy left by h + Da, where D(h + a) leaves {whole:.0%}",
            update,
        ),
        Limit(
            "Repeated application",
            "Between two applications stands a block that is not linear, so N of them are not T = N steps of one.",
            "‖F(D F(DX)) − F(F(D²X))‖ relative to the latter, for a feed-forward F",
            gap(lambda y: tokenwise(heat(tokenwise(heat(y)))), lambda y: tokenwise(tokenwise(heat_steps(y, ALPHA, 2)))),
        ),
    ]
