"""Everything that a training step changes, as copies: parameters, the optimiser's state, the random streams of dropout."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from lab.model import PackTransformer


def snapshot(model: PackTransformer, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Copies by name, on the device of what they are copies of; the state of a random stream is always bytes on the CPU."""
    kept: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        kept[f"parameter.{name}"] = parameter.detach().clone()
        for key, value in optimiser.state.get(parameter, {}).items():
            kept[f"optimiser.{name}.{key}"] = value.clone()
    if model.config.dropout > 0:
        for arm, stream in enumerate(model.dropout_streams()):
            kept[f"dropout.{arm}"] = stream.get_state()
    return kept


@torch.no_grad()
def restore(model: PackTransformer, optimiser: torch.optim.Optimizer, kept: Mapping[str, Tensor]) -> None:
    """Make model and optimiser what they were when :func:`snapshot` was called. Tensors that are there are written into, not replaced.

    Raises KeyError or RuntimeError for the snapshot of a model of other names or shapes.
    """
    for name, parameter in model.named_parameters():
        parameter.copy_(kept[f"parameter.{name}"])
        state, prefix = optimiser.state[parameter], f"optimiser.{name}."
        saved = {key.removeprefix(prefix): value for key, value in kept.items() if key.startswith(prefix)}
        for key in {**state, **saved}:
            if key not in state:
                state[key] = saved[key].to(parameter.device, copy=True)
            elif key in saved:
                state[key].copy_(saved[key])
            else:
                state[key].zero_()  # a snapshot from before the first step: Adam's counts and moments begin at 0
    if model.config.dropout > 0:
        for arm, stream in enumerate(model.dropout_streams()):
            stream.set_state(kept[f"dropout.{arm}"])
