"""One attention head on one input, before and after the heat step: what page 3 takes apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lab.attention import MATRICES
from lab.commutator import (
    commutator,
    infinity_bound,
    infinity_norm,
    order_swap,
    spectral_bound,
    spectral_norm,
)
from lab.config import RunConfig
from lab.heat import heat_step
from lab.model import model_of

CONTENT_DIM = 8


@dataclass(frozen=True)
class Head:
    """Attention ``P(X)`` and ``P(DX)``, each (n, n), and the values ``X V`` (n, d), all float64."""

    p: Tensor
    p_smoothed: Tensor
    values: Tensor


@dataclass(frozen=True)
class Disagreement:
    """How far a head and the heat step are from commuting: matrices as numpy, norms beside their bounds, the swap's parts."""

    attention: NDArray[np.float64]
    commutator: NDArray[np.float64]
    norms: dict[str, tuple[float, float]]
    chi: float
    routing: float
    operator: float


def built_in(name: str, tokens: int, alpha: float, *, width: float, seed: int) -> Head:
    """A built-in attention matrix with random values; only ``content`` looks elsewhere once its input is smoothed."""
    p = MATRICES[name].build(tokens, width=width, seed=seed)
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, CONTENT_DIM, generator=random, dtype=torch.float64)
    if name != "content":
        return Head(p, p, x)
    w = torch.randn(CONTENT_DIM, CONTENT_DIM, generator=random, dtype=torch.float64) / CONTENT_DIM**0.5
    smooth = heat_step(x, alpha, allow_unstable=True)
    return Head(p, torch.softmax(smooth @ w @ smooth.T, -1), x)


@torch.inference_mode()
def of_run(
    config: RunConfig,
    arrays: Mapping[str, NDArray[np.float32]],
    tokens: NDArray[np.integer] | NDArray[np.floating],
    alpha: float,
    *,
    layer: int,
    head: int,
) -> Head:
    """A head of a trained run on one input ``tokens (n,)``; layer and head count from 0."""
    model = model_of(config, arrays).double()
    given = torch.from_numpy(tokens.astype(np.float64 if tokens.dtype.kind == "f" else np.int64))
    inputs: list[Tensor] = []

    def hook(name: str, _layer: int, x: Tensor) -> None:
        if name == "attention_input":
            inputs.append(x)

    model(given[None, None], hook=hook)
    x = inputs[layer]
    p, values = model.attention_parts(layer, x, None)
    p_smoothed, _ = model.attention_parts(layer, heat_step(x, alpha, allow_unstable=True), None)
    return Head(p[0, 0, head], p_smoothed[0, 0, head], values[0, 0, head])


def disagreement(head: Head, alpha: float) -> Disagreement:
    """``[D, P]``, its norms and bounds, and the order swap split in two."""
    # The commutator is linear in α, so the unstable demonstration above 1/2 is a multiple of the one at 1/2.
    inside = min(alpha, 0.5)
    scale = alpha / inside if inside else 1.0
    bracket = scale * commutator(head.p, inside)
    swap = order_swap(head.p, head.p_smoothed, head.values, lambda v: heat_step(v, alpha, allow_unstable=True))
    return Disagreement(
        attention=head.p.numpy(),
        commutator=bracket.numpy(),
        norms={
            "2-norm": (float(spectral_norm(bracket)), float(scale * spectral_bound(head.p, inside))),
            "∞-norm": (float(infinity_norm(bracket)), scale * infinity_bound(inside)),
        },
        chi=float(swap.chi),
        routing=float(swap.routing_index),
        operator=float(swap.operator_index),
    )
