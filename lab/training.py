"""Training: a pack of configs in, one result for each out."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

import lab
from lab.batches import DeviceSplit, batch_order
from lab.config import RunConfig
from lab.measures import depth_profile
from lab.model import PackTransformer
from lab.placement import arm_first
from lab.results import CurvePoint, DepthProfile, Progress, RunResult
from lab.tasks import TaskData, get_task

EVAL_TOKENS = {"cpu": 4096, "cuda": 262144}
"""Tokens in one batch of an evaluation: small enough for a core's cache, large enough to fill a GPU."""

REPORT_SECONDS = 0.25
"""Least time between two progress reports that carry no new point of the learning curve."""


class TrainingError(RuntimeError):
    """A run whose loss, or whose trained model, is no longer made of finite numbers."""


@dataclass(frozen=True)
class Trained:
    """A finished run: its result, and its parameters by name."""

    result: RunResult
    arrays: dict[str, NDArray[np.float32]]


def default_device() -> str:
    """``cuda`` if there is a GPU, else ``cpu``."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def train_pack(
    configs: Sequence[RunConfig],
    *,
    device: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[str], bool] | None = None,
) -> list[Trained | TrainingError | None]:
    """Train configs that differ only in position, α, controls and seed, together.

    ``on_progress`` hears of every measured point and otherwise about four times a second; ``should_stop(key)`` is asked before every
    step, and a run that it stops comes back as None. A run whose numbers are no longer finite comes back as the
    :class:`TrainingError` that says so, and does not disturb the others; the error is raised where no run is left to train.
    """
    where = torch.device(device or default_device())
    data = get_task(configs[0].task).load(configs[0].size)
    run = _Pack(configs, data, where, on_progress or (lambda _: None), should_stop or (lambda _: False))
    return run.train()


class _Pack:
    """The state of one training: the model, the optimiser, and what each arm has shown so far."""

    def __init__(
        self,
        configs: Sequence[RunConfig],
        data: TaskData,
        device: torch.device,
        on_progress: Callable[[Progress], None],
        should_stop: Callable[[str], bool],
    ) -> None:
        self.configs, self.config, self.data, self.device = tuple(configs), configs[0], data, device
        self.on_progress, self.should_stop = on_progress, should_stop
        self.model = PackTransformer(configs, data.vocabulary, data.length, data.classes, data.towers).to(device)
        self.train_split = DeviceSplit(data.train, device)
        self.test_split = DeviceSplit(data.test, device)
        self.optimiser = _optimiser(self.model, self.config)
        self.curves: list[list[CurvePoint]] = [[] for _ in configs]
        self.stopped = [False] * len(configs)
        self.failed: list[int | None] = [None] * len(configs)
        self.started = time.perf_counter()
        self.reported = 0.0

    def train(self) -> list[Trained | TrainingError | None]:
        config, arms = self.config, len(self.configs)
        initial = depth_profile(self.model, self.test_split)
        orders = [batch_order(len(self.train_split), arm) for arm in self.configs]
        since_point = torch.zeros(arms, device=self.device)
        for step in range(1, config.steps + 1):
            if self._all_over():
                break
            index = torch.from_numpy(np.stack([next(order) for order in orders])).to(self.device)
            since_point += self._step(step, *self.train_split.batch(index))
            if step % config.eval_every == 0 or step == config.steps:
                steps_since = (step - 1) % config.eval_every + 1
                self._measure(step, (since_point / steps_since).tolist())
                since_point.zero_()
            elif time.perf_counter() - self.reported > REPORT_SECONDS:
                self._report(step)
        failures = [self._failure(arm) for arm in range(arms)]
        if failures[0] is not None and None not in failures:
            raise failures[0]
        final = depth_profile(self.model, self.test_split)
        seconds = time.perf_counter() - self.started
        return [
            failures[arm] or (None if self.stopped[arm] else self._trained(arm, initial[arm], final[arm], seconds))
            for arm in range(arms)
        ]

    def _failure(self, arm: int) -> TrainingError | None:
        step = self.failed[arm]
        if step is None:
            return None
        return TrainingError(
            f"The loss was no longer a finite number by step {step}; a smaller learning rate may help."
        )

    def _trained(self, arm: int, initial: DepthProfile, final: DepthProfile, seconds: float) -> Trained | TrainingError:
        arrays, alphas = self.model.arrays(arm), self.model.placement.alphas(arm)
        swap = [(layer.chi, layer.routing, layer.operator) for layer in (*initial.swap, *final.swap)]
        curve = [(point.loss, point.accuracy) for point in self.curves[arm]]
        profile = (*initial.energy, *initial.power, *final.energy, *final.power)
        numbers = [*arrays.values(), *map(np.array, (alphas, swap, curve, profile))]
        if not all(np.isfinite(array).all() for array in numbers):
            return TrainingError(
                "The trained model's weights or measures are not finite numbers; a smaller learning rate may help."
            )
        result = RunResult(
            config=self.configs[arm],
            accuracy=self.curves[arm][-1].accuracy,
            chance=self.data.chance,
            curve=tuple(self.curves[arm]),
            initial=initial,
            final=final,
            alphas=alphas,
            parameters=self.model.parameter_count(arm),
            n_test=len(self.test_split),
            seconds=seconds,
            provenance=provenance(self.device, len(self.configs), self.data.digest),
        )
        return Trained(result, arrays)

    def _step(self, step: int, tokens: Tensor, lengths: Tensor | None, labels: Tensor) -> Tensor:
        """One step of the optimiser; the loss of each arm, ``(arms,)``."""
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.config, step)
        self.model.train()
        with _autocast(self.config, self.device):
            logits = self.model(tokens, lengths)
        losses = per_arm_loss(logits, labels)
        self.optimiser.zero_grad()
        # The sum, not the mean: an arm's gradient must not depend on how many others are in the pack.
        losses.sum().backward()
        self._clip()
        self.optimiser.step()
        return losses.detach()

    def _clip(self) -> None:
        """Scale each arm's gradient to norm ``clip`` at most, on its own."""
        grads = [arm_first(p.grad) for p in self.model.parameters() if p.grad is not None]
        norms = [torch.linalg.vector_norm(g.flatten(1), dim=1) for g in grads]
        norm = torch.linalg.vector_norm(torch.stack(norms), dim=0)
        scale = (self.config.clip / (norm + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(scale.view(-1, *[1] * (grad.ndim - 1)))

    def _measure(self, step: int, losses: list[float]) -> None:
        accuracies = accuracy(self.model, self.test_split)
        for arm, (loss, correct) in enumerate(zip(losses, accuracies, strict=True)):
            if self.failed[arm] is None and not self.stopped[arm]:
                if not np.isfinite(loss):
                    self.failed[arm] = step
                else:
                    self.curves[arm].append(CurvePoint(step, loss, correct))
        self._report(step, measured=True)

    def _report(self, step: int, measured: bool = False) -> None:
        self.reported = time.perf_counter()
        for arm, config in enumerate(self.configs):
            if not self.stopped[arm] and self.failed[arm] is None:
                point = self.curves[arm][-1] if measured else None
                self.on_progress(Progress(config.key, step, config.steps, self.reported - self.started, point))

    def _all_over(self) -> bool:
        for arm, config in enumerate(self.configs):
            self.stopped[arm] = self.stopped[arm] or self.should_stop(config.key)
        return all(stop or failure is not None for stop, failure in zip(self.stopped, self.failed, strict=True))


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


@torch.inference_mode()
def accuracy(model: PackTransformer, split: DeviceSplit) -> list[float]:
    """Share of right answers of every arm on a whole split."""
    model.eval()
    device = split.labels.device
    rows = max(1, EVAL_TOKENS[device.type] // (split.tokens.shape[-1] * model.arms))
    right = torch.zeros(model.arms, dtype=torch.int64, device=device)
    for start in range(0, len(split), rows):
        index = torch.arange(start, min(start + rows, len(split)), device=device).expand(model.arms, -1)
        tokens, lengths, labels = split.batch(index)
        with _autocast(model.config, device):
            logits = model(tokens, lengths)
        right += (logits.argmax(-1) == labels).sum(1)
    return [count / len(split) for count in right.tolist()]


def provenance(device: torch.device, arms: int = 1, data: str = "") -> dict[str, str]:
    """What the bits of a result depend on beside its config; ``data`` is the digest of the reader's own files."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "lab": lab.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": device.type,
        "device_name": name,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "arms": str(arms),
        "system": platform.system(),
        **({"data": data} if data else {}),
    }


def _optimiser(model: PackTransformer, config: RunConfig) -> torch.optim.AdamW:
    free = [p for p in model.parameters() if p is not model.decayed]
    groups = [{"params": [model.decayed], "weight_decay": config.weight_decay}, {"params": free, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)


def _autocast(config: RunConfig, device: torch.device) -> AbstractContextManager[object]:
    if config.precision == "bfloat16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
