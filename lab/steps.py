"""What one step of training is made of: the learning rate, each arm's loss and clipped gradient, the optimiser, the precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lab.config import RunConfig
from lab.model import PackTransformer
from lab.placement import arm_first


def learning_rate(config: RunConfig, step: int) -> float:
    """Linear warm-up over ``warmup`` steps, then half a cosine down to a tenth. ``step`` counts from 1."""
    peak = config.learning_rate
    if step <= config.warmup:
        return peak * step / config.warmup
    done = (step - config.warmup) / max(1, config.steps - config.warmup)
    return peak * (0.1 + 0.45 * (1 + float(np.cos(np.pi * done))))


def per_arm_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy of each arm, ``(arms,)``, from logits ``(arms, batch, classes)``, in float32."""
    losses = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="none")
    return losses.view(labels.shape).mean(1)


def clip_each_arm(model: nn.Module, most: float) -> None:
    """Scale each arm's gradient to norm ``most`` at most, on its own."""
    grads = [arm_first(p.grad) for p in model.parameters() if p.grad is not None]
    norms = [torch.linalg.vector_norm(g.flatten(1), dim=1) for g in grads]
    norm = torch.linalg.vector_norm(torch.stack(norms), dim=0)
    scale = (most / (norm + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(scale.view(-1, *[1] * (grad.ndim - 1)))


def make_optimiser(model: PackTransformer, config: RunConfig, *, capturable: bool) -> torch.optim.AdamW:
    """AdamW with weight decay on the decayed parameters; ``capturable``: for a step that becomes a CUDA graph, see :mod:`lab.graphs`."""
    free = [p for p in model.parameters() if p is not model.decayed]
    groups = [{"params": [model.decayed], "weight_decay": config.weight_decay}, {"params": free, "weight_decay": 0.0}]
    # A graph reads its learning rate from memory: a number would be recorded as it was at the first step.
    rate = torch.tensor(config.learning_rate, device=model.decayed.device) if capturable else config.learning_rate
    return torch.optim.AdamW(groups, lr=rate, fused=True, capturable=capturable)


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The rate of the next step."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def autocast(config: RunConfig, device: torch.device) -> AbstractContextManager[object]:
    """The precision that the config asks for; parameters, gradients and the optimiser's state are float32 in either."""
    if config.precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
