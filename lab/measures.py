"""What a model does to its representations: Dirichlet energy through the depth, and the order swap in every layer."""

from __future__ import annotations

import torch
from torch import Tensor

from lab.batches import DeviceSplit
from lab.commutator import order_swap
from lab.heat import dirichlet_energy, heat_step
from lab.model import PackTransformer, fold_towers, real_tokens
from lab.results import SWAP_ALPHA, DepthProfile, OrderSwap

MEASURED_EXAMPLES = 64
"""Held-out examples that energy is averaged over, fewer where they have more than MEASURED_TOKENS tokens together."""

MEASURED_TOKENS = 2**16
MEASURED_ENTRIES = 2**24
"""Entries of attention matrices that the order swap is measured on: they are formed whole, so long sequences take fewer examples."""

MOST_ENTRIES = 2**26
"""An attention layer with more entries for a single example is not taken apart: several such matrices would not fit in memory."""


@torch.inference_mode()
def depth_profile(model: PackTransformer, split: DeviceSplit) -> list[DepthProfile]:
    """The profile of every arm, on the first held-out examples: the same ones whatever the size of the pack."""
    model.eval()
    n, heads, arms = split.tokens.shape[-1], model.config.heads, model.arms
    entries = n * n * heads
    examples = max(1, min(MEASURED_EXAMPLES, len(split), MEASURED_TOKENS // n))
    swapped = max(1, min(examples, MEASURED_ENTRIES // entries)) if entries <= MOST_ENTRIES else 0
    at_once = max(1, min(examples, MEASURED_ENTRIES // (entries * arms)))
    gathered = _Gathered(model, swapped)
    for start in range(0, examples, at_once):
        rows = torch.arange(start, min(examples, start + at_once), device=split.labels.device)
        gathered.add(*split.batch(rows.expand(arms, -1))[:2], start)
    return [gathered.profile(arm) for arm in range(arms)]


class _Gathered:
    """Sums over examples, ``(arms,)`` each, from which the profiles are made."""

    def __init__(self, model: PackTransformer, swapped: int) -> None:
        self.model, self.swapped = model, swapped
        self.examples = 0
        self.energy: dict[int, Tensor] = {}
        self.power: dict[int, Tensor] = {}
        self.squares: dict[int, Tensor] = {}

    def add(self, tokens: Tensor, lengths: Tensor | None, start: int) -> None:
        """Some examples more, of which the first is number ``start``."""
        folded, real, _ = fold_towers(tokens, lengths)
        mask = real_tokens(folded, real)
        count: Tensor | int = folded.shape[-1] if real is None else real
        self.examples += folded.shape[1]

        def hook(name: str, layer: int, x: Tensor) -> None:
            x = x.float()
            if name == "hidden":
                _add(self.energy, layer, (dirichlet_energy(x, mask) / count).sum(1))
                _add(self.power, layer, (_square(x, mask) / count).sum(1))
            elif start < self.swapped:
                _add(self.squares, layer, _swap_squares(self.model, layer, x, mask))

        self.model(tokens, lengths, hook=hook)

    def profile(self, arm: int) -> DepthProfile:
        """What the sums say of one arm."""
        swaps = []
        for squares in self.squares.values():
            chi, routing, operator, size = squares[:, arm].sqrt().tolist()
            scale = max(size, torch.finfo(squares.dtype).tiny)
            swaps.append(OrderSwap(chi / scale, routing / scale, operator / scale))
        return DepthProfile(
            energy=tuple(e[arm].item() / self.examples for e in self.energy.values()),
            power=tuple(p[arm].item() / self.examples for p in self.power.values()),
            swap=tuple(swaps),
        )


def _add(sums: dict[int, Tensor], layer: int, more: Tensor) -> None:
    sums[layer] = sums[layer] + more if layer in sums else more


def _swap_squares(model: PackTransformer, layer: int, x: Tensor, mask: Tensor | None) -> Tensor:
    """Squared norms of the order swap, its two parts and ``Attn(X)`` in every arm, ``(4, arms)``, heads summed.

    D acts along the tokens and leaves constants alone, so it commutes with the value and output projections and their biases: the two parts
    are those of a single head, summed over heads.
    """
    heads_mask = None if mask is None else mask[:, :, None]
    p_x, values = model.attention_parts(layer, x, mask)
    p_dx, _ = model.attention_parts(layer, heat_step(x, SWAP_ALPHA, mask=mask), mask)
    swap = order_swap(p_x, p_dx, values, lambda v: heat_step(v, SWAP_ALPHA, mask=heads_mask))
    parts = (swap.swap, swap.routing, swap.operator, p_x @ values)
    return torch.stack([_square(part.sum(2), mask).sum(1) for part in parts])


def _square(x: Tensor, mask: Tensor | None) -> Tensor:
    """Squared norm of each sequence over its real tokens: ``(…, n, width)`` to ``(…)``."""
    square = x.square().sum(-1)
    return (square if mask is None else square.masked_fill(~mask, 0.0)).sum(-1)
