"""The study that ships with the lab: which runs it has, how it is written, how it is checked by training again."""

from __future__ import annotations

import math
import random
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.config import RunConfig
from lab.positions import Position
from lab.results import RunResult
from lab.study import Study
from lab.tasks.recipes import recipe

SEEDS = tuple(range(5))
MORE_SEEDS = tuple(range(10))
GRID = (0.0625, 0.125, 0.375, 0.5)
"""Beside 1/4, which every study has: two steps that only smooth, one that rings, and the last that is stable."""


def _base(task: str, **changes: Any) -> RunConfig:
    return recipe(task, position=Position.AFTER_EMBEDDING, **changes)


def studies() -> tuple[Study, ...]:
    """The studies that make it up, the quickest task first."""
    return (
        Study(_base("digits"), seeds=MORE_SEEDS, permuted=True),
        Study(_base("digits"), alphas=GRID, seeds=SEEDS),
        Study(_base("digits"), seeds=MORE_SEEDS, matched=True),
        Study(_base("digits", strides=(1, 2, 4)), seeds=MORE_SEEDS),
        Study(_base("digits", learnable=True), seeds=SEEDS),
        Study(_base("listops"), seeds=SEEDS, permuted=True),
        Study(
            _base("listops", strides=(1, 2, 4)),
            positions=(Position.BASELINE, Position.AFTER_EMBEDDING),
            seeds=SEEDS,
        ),
        Study(_base("text"), seeds=SEEDS, permuted=True),
        Study(_base("pathfinder"), seeds=SEEDS, permuted=True),
    )


def commit_of(folder: Path) -> str:
    """The commit that a checkout is at, with ``+`` where files differ from it; ``unknown`` outside one."""
    try:
        head, changed = (
            subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603, S607
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


# -- checking -----------------------------------------------------------------------------------------------------

SAME_MACHINE = ("torch", "device", "capability", "threads", "arms")
"""What the provenance of two runs must share for their bits to be equal."""

LARGEST_START = 1e-3
"""Relative drift of the untrained model's energies on other hardware: nothing has been trained yet, only rounding differs."""

LARGEST_DRIFT = 0.06
"""Drift of the accuracy on other hardware. Rounding grows with every step, so this is a bound on two trainings that start alike."""


@dataclass(frozen=True)
class Drift:
    """How far a run that was trained again is from the one that was shipped.

    ``start`` is the largest relative difference of the energies and norms before training, ``accuracy`` that of the accuracy after it, in
    absolute value; ``exact`` says that the machine is of the same kind, where both must be 0.
    """

    config: RunConfig
    start: float
    accuracy: float
    exact: bool

    @property
    def agrees(self) -> bool:
        """Whether both are within their tolerance."""
        if self.exact:
            return self.start == 0 and self.accuracy == 0
        return self.start <= LARGEST_START and self.accuracy <= LARGEST_DRIFT


def drift(shipped: RunResult, again: RunResult) -> Drift:
    """Compare two results of one config. Raises ValueError if they are of two."""
    if shipped.config != again.config:
        raise ValueError("the two results are of different runs")
    before = (*shipped.initial.energy, *shipped.initial.power)
    now = (*again.initial.energy, *again.initial.power)
    start = max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(before, now, strict=True))
    exact = all(shipped.provenance.get(name) == again.provenance.get(name) for name in SAME_MACHINE)
    return Drift(shipped.config, start, abs(shipped.accuracy - again.accuracy), exact)


def sample(results: Sequence[RunResult], count: int, seed: int) -> list[RunResult]:
    """``count`` different results at random, or all if there are no more."""
    return random.Random(seed).sample(list(results), min(count, len(results)))


def verify(results: Sequence[RunResult], count: int, seed: int, train: Callable[[RunConfig], RunResult]) -> list[Drift]:
    """Train a random sample of results again with ``train``, and say how far each is off. Raises ValueError without results."""
    if not results:
        raise ValueError("there are no results to check")
    return [drift(shipped, train(shipped.config)) for shipped in sample(results, count, seed)]


def train_here(config: RunConfig) -> RunResult:
    """Train one run in this process, past the store. Raises :class:`lab.training.TrainingError`."""
    from lab.training import Trained, train_pack

    trained = train_pack([config])[0]
    if not isinstance(trained, Trained):
        raise trained or RuntimeError("the run was stopped")
    return trained.result


def largest(drifts: Sequence[Drift]) -> tuple[float, float]:
    """The largest drift of the start and of the accuracy."""
    return max((d.start for d in drifts), default=math.nan), max((d.accuracy for d in drifts), default=math.nan)
