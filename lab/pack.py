"""One pack in training: the loop over steps, what each arm shows, where it goes on after an interruption."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import lab
from lab import checkpoints
from lab.batches import DeviceSplit, batch_order
from lab.checkpoints import Checkpoint, CheckpointFile
from lab.config import RunConfig
from lab.graphs import Step, obstacle
from lab.measures import depth_profile
from lab.model import PackTransformer
from lab.results import CurvePoint, DepthProfile, Progress, RunResult
from lab.snapshots import restore, snapshot
from lab.steps import autocast, clip_each_arm, learning_rate, make_optimiser, per_arm_loss, set_learning_rate
from lab.tasks import TaskData

EVAL_TOKENS = {"cpu": 4096, "cuda": 262144}
"""Tokens in one batch of an evaluation: small enough for a core's cache, large enough to fill a GPU."""

REPORT_SECONDS = 0.25
"""Least time between two progress reports that carry no new point of the learning curve."""


class TrainingError(RuntimeError):
    """A run whose loss, or whose trained model, is no longer made of finite numbers, or which does not fit in memory.

    ``step`` is the step by which its loss was seen not to be finite, None if it was something else.
    """

    def __init__(self, message: str, step: int | None = None) -> None:
        super().__init__(message)
        self.step = step


@dataclass(frozen=True)
class Trained:
    """A finished run: its result, and its parameters by name."""

    result: RunResult
    arrays: dict[str, NDArray[np.float32]]


class StaleCheckpointError(RuntimeError):
    """A sound checkpoint that another version of this code has written: its pack cannot be used, and has to begin anew."""


class Pack:
    """The state of one training: the model, the optimiser, and what each arm has shown so far."""

    def __init__(
        self,
        configs: Sequence[RunConfig],
        data: TaskData,
        device: torch.device,
        on_progress: Callable[[Progress], None],
        should_stop: Callable[[str], bool],
        file: CheckpointFile | None = None,
    ) -> None:
        self.configs, self.config, self.data, self.device = tuple(configs), configs[0], data, device
        self.on_progress, self.should_stop, self.file = on_progress, should_stop, file
        self.model = PackTransformer(configs, data.vocabulary, data.length, data.classes, data.towers).to(device)
        self.train_split = DeviceSplit(data.train, device)
        self.test_split = DeviceSplit(data.test, device)
        against = obstacle(device, self.train_split.ragged)
        self.optimiser = make_optimiser(self.model, self.config, capturable=not against)
        self.step = Step(self.model, self.optimiser, against)
        self.done = self.resumed = 0
        self.initial: list[DepthProfile] = []
        self.since_point = torch.zeros(len(configs), device=device)
        self.curves: list[list[CurvePoint]] = [[] for _ in configs]
        self.stopped = [False] * len(configs)
        self.failed: list[int | None] = [None] * len(configs)
        self.started = self.saved = time.perf_counter()
        self.reported = 0.0

    def train(self) -> list[Trained | TrainingError | None]:
        """Train to the end, or until every run has been stopped or has failed: what became of each.

        Raises :class:`StaleCheckpointError` before the first step where the checkpoint does not fit.
        """
        config, arms = self.config, len(self.configs)
        if not self._resume():
            self.initial = depth_profile(self.model, self.test_split)
        # The order of batches is a function of the seed, so a resumed run leaves out those that it has seen.
        orders = [islice(batch_order(len(self.train_split), arm), self.done, None) for arm in self.configs]
        for step in range(self.done + 1, config.steps + 1):
            if self._all_over():
                break
            index = torch.from_numpy(np.stack([next(order) for order in orders])).to(self.device)
            self.since_point += self._step(step, *self.train_split.batch(index))
            self.done = step
            if step % config.eval_every == 0 or step == config.steps:
                steps_since = (step - 1) % config.eval_every + 1
                self._measure(step, (self.since_point / steps_since).tolist())
                self.since_point.zero_()
            elif time.perf_counter() - self.reported > REPORT_SECONDS:
                self._report(step)
            if self.file is not None and time.perf_counter() - self.saved >= checkpoints.SECONDS:
                self._save(self.file)
        if all(step is not None for step in self.failed):
            return [self._failure(arm) for arm in range(arms)]
        final = depth_profile(self.model, self.test_split)
        seconds = time.perf_counter() - self.started
        return [
            self._failure(arm) or (None if self.stopped[arm] else self._trained(arm, final[arm], seconds))
            for arm in range(arms)
        ]

    @property
    def finished(self) -> bool:
        """Whether nothing is left to go on with: all steps are done, or every run has failed."""
        return self.done == self.config.steps or not any(self.stopped)

    def _save(self, file: CheckpointFile) -> None:
        """Write down where the pack stands; it may be killed in the next moment."""
        arrays = {name: tensor.cpu().numpy() for name, tensor in snapshot(self.model, self.optimiser).items()}
        record = {
            "step": self.done,
            "resumed": self.resumed,
            "seconds": time.perf_counter() - self.started,
            "initial": [asdict(profile) for profile in self.initial],
            "curves": [[astuple(point) for point in curve] for curve in self.curves],
            "stopped": self.stopped,
            "failed": self.failed,
        }
        file.write(Checkpoint({**arrays, "since_point": self.since_point.cpu().numpy()}, record))
        self.saved = time.perf_counter()

    def _resume(self) -> bool:
        """Go on where a checkpoint left off, if there is one; its points are told as if they had just been measured."""
        checkpoint = self.file.read() if self.file is not None else None
        if checkpoint is None:
            return False
        record = checkpoint.record
        try:
            tensors = {name: torch.tensor(array) for name, array in checkpoint.arrays.items()}
            self.since_point.copy_(tensors.pop("since_point"))
            restore(self.model, self.optimiser, tensors)
            self.done, self.resumed = record["step"], record["resumed"] + 1
            self.started -= record["seconds"]
            self.initial = [DepthProfile.from_record(profile) for profile in record["initial"]]
            self.curves = [[CurvePoint(*point) for point in curve] for curve in record["curves"]]
            self.stopped, self.failed = record["stopped"], record["failed"]
        except (KeyError, RuntimeError, TypeError, ValueError) as error:  # half of it may have been taken over
            raise StaleCheckpointError(f"The checkpoint does not fit this model: {error}") from None
        for arm, config in enumerate(self.configs):
            for point in self.curves[arm] if self._trains(arm) else ():
                spent = record["seconds"] * point.step / self.done
                self.on_progress(Progress(config.key, point.step, config.steps, spent, point))
        return True

    def _failure(self, arm: int) -> TrainingError | None:
        step = self.failed[arm]
        if step is None:
            return None
        return TrainingError(
            f"The loss was no longer a finite number by step {step}; a smaller learning rate may help.", step
        )

    def _trained(self, arm: int, final: DepthProfile, seconds: float) -> Trained | TrainingError:
        initial, arrays, alphas = self.initial[arm], self.model.arrays(arm), self.model.placement.alphas(arm)
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
            provenance={
                **provenance(self.device, len(self.configs), self.data.digest),
                **({"graph": self.step.note} if self.device.type == "cuda" else {}),
                **({"resumed": str(self.resumed)} if self.resumed else {}),
            },
        )
        return Trained(result, arrays)

    def _step(self, step: int, tokens: Tensor, lengths: Tensor | None, labels: Tensor) -> Tensor:
        """One step of the optimiser; the loss of each arm, ``(arms,)``."""
        set_learning_rate(self.optimiser, learning_rate(self.config, step))
        self.model.train()
        return self.step(self._update, tokens, lengths, labels)

    def _update(self, tokens: Tensor, lengths: Tensor | None, labels: Tensor) -> Tensor:
        with autocast(self.config, self.device):
            logits = self.model(tokens, lengths)
        losses = per_arm_loss(logits, labels)
        self.optimiser.zero_grad()
        # The sum, not the mean: an arm's gradient must not depend on how many others are in the pack.
        losses.sum().backward()
        clip_each_arm(self.model, self.config.clip)
        self.optimiser.step()
        return losses.detach()

    def _measure(self, step: int, losses: list[float]) -> None:
        accuracies = accuracy(self.model, self.test_split)
        for arm, (loss, correct) in enumerate(zip(losses, accuracies, strict=True)):
            if self._trains(arm):
                if not np.isfinite(loss):
                    self.failed[arm] = step
                else:
                    self.curves[arm].append(CurvePoint(step, loss, correct))
        self._report(step, measured=True)

    def _report(self, step: int, measured: bool = False) -> None:
        self.reported = time.perf_counter()
        for arm, config in enumerate(self.configs):
            if self._trains(arm):
                point = self.curves[arm][-1] if measured else None
                self.on_progress(Progress(config.key, step, config.steps, self.reported - self.started, point))

    def _trains(self, arm: int) -> bool:
        return self.failed[arm] is None and not self.stopped[arm]

    def _all_over(self) -> bool:
        for arm, config in enumerate(self.configs):
            self.stopped[arm] = self.stopped[arm] or self.should_stop(config.key)
        return not any(self._trains(arm) for arm in range(len(self.configs)))


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
        with autocast(model.config, device):
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
