"""What a model does to its representations: Dirichlet energy through the depth, and the order swap in every layer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lab.batches import DeviceSplit
from lab.commutator import order_swap
from lab.config import RunConfig
from lab.heat import dirichlet_energy, heat_step
from lab.model import PackTransformer, fold_towers, model_of, real_tokens
from lab.results import SWAP_ALPHA, DepthProfile, OrderSwap

MEASURED_EXAMPLES = 64
"""Held-out examples that energy and order swap are averaged over."""

MEASURED_ENTRIES = 2**24
"""Most entries of attention matrices in them: they are formed whole here, so long sequences take fewer examples."""


@torch.inference_mode()
def depth_profile(model: PackTransformer, split: DeviceSplit) -> list[DepthProfile]:
    """The profile of every arm, on the first held-out examples."""
    model.eval()
    n = split.tokens.shape[-1]
    rows = MEASURED_ENTRIES // (n * n * model.config.heads * model.arms)
    index = torch.arange(max(1, min(MEASURED_EXAMPLES, len(split), rows)), device=split.labels.device)
    tokens, lengths, _ = split.batch(index.expand(model.arms, -1))
    folded, real, _ = fold_towers(tokens, lengths)
    mask = real_tokens(folded, real)
    count: Tensor | int = folded.shape[-1] if real is None else real
    energy: list[Tensor] = []
    power: list[Tensor] = []
    swaps: list[list[OrderSwap]] = []

    def hook(name: str, layer: int, x: Tensor) -> None:
        x = x.float()
        if name == "hidden":
            energy.append((dirichlet_energy(x, mask) / count).mean(1))
            power.append((_square(x, mask) / count).mean(1))
        else:
            swaps.append(_order_swaps(model, layer, x, mask))

    model(tokens, lengths, hook=hook)
    return [
        DepthProfile(
            energy=tuple(e[arm].item() for e in energy),
            power=tuple(p[arm].item() for p in power),
            swap=tuple(layer[arm] for layer in swaps),
        )
        for arm in range(model.arms)
    ]


def attention_of(
    config: RunConfig, arrays: Mapping[str, NDArray[np.float32]], tokens: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Attention matrices ``(layers, heads, n, n)`` of a trained run on one input ``tokens (n,)``, in float64."""
    model = model_of(config, arrays).double()
    found: list[Tensor] = []

    def hook(name: str, layer: int, x: Tensor) -> None:
        if name == "attention_input":
            found.append(model.attention_parts(layer, x, None)[0][0, 0])

    with torch.inference_mode():
        model(torch.from_numpy(tokens.astype(np.int64))[None, None], hook=hook)
    return torch.stack(found).numpy()


def hidden_of(
    config: RunConfig, arrays: Mapping[str, NDArray[np.float32]], tokens: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Representations ``(layers + 1, n, width)`` of one input, after the embedding and after every block, in float64."""
    model = model_of(config, arrays).double()
    found: list[Tensor] = []

    def hook(name: str, _: int, x: Tensor) -> None:
        if name == "hidden":
            found.append(x[0, 0])

    with torch.inference_mode():
        model(torch.from_numpy(tokens.astype(np.int64))[None, None], hook=hook)
    return torch.stack(found).numpy()


def _order_swaps(model: PackTransformer, layer: int, x: Tensor, mask: Tensor | None) -> list[OrderSwap]:
    """The order swap of one layer in every arm, heads summed through the output projection.

    D acts along the tokens and leaves constants alone, so it commutes with the value and output projections and their biases: the two parts
    are those of a single head, summed over heads.
    """
    heads_mask = None if mask is None else mask[:, :, None]
    p_x, values = model.attention_parts(layer, x, mask)
    p_dx, _ = model.attention_parts(layer, heat_step(x, SWAP_ALPHA, mask=mask), mask)
    swap = order_swap(p_x, p_dx, values, lambda v: heat_step(v, SWAP_ALPHA, mask=heads_mask))
    parts = (swap.swap, swap.routing, swap.operator, p_x @ values)
    chi, routing, operator, size = (_square(part.sum(2), mask).sum(1).sqrt() for part in parts)
    scale = size.clamp_min(torch.finfo(size.dtype).tiny)
    return [OrderSwap(*(float(v[arm] / scale[arm]) for v in (chi, routing, operator))) for arm in range(model.arms)]


def _square(x: Tensor, mask: Tensor | None) -> Tensor:
    """Squared norm of each sequence over its real tokens: ``(…, n, width)`` to ``(…)``."""
    square = x.square().sum(-1)
    return (square if mask is None else square.masked_fill(~mask, 0.0)).sum(-1)
