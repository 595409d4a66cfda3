"""Results of the starter study as they might be, in a world that a test chooses."""

from __future__ import annotations

from collections.abc import Callable

from made_results import result

from lab.config import RunConfig
from lab.positions import Position
from lab.results import RunResult
from lab.starter_study import studies


def every_run() -> list[RunConfig]:
    return list(dict.fromkeys(config for study in studies() for config in study.configs()))


def made(
    gain: Callable[[RunConfig], float],
    only: Callable[[RunConfig], bool] = lambda config: True,
    chi: Callable[[RunConfig], float | None] = lambda config: 0.3,
) -> dict[str, RunResult]:
    """Results of the planned runs: a baseline that differs from seed to seed, plus ``gain(config)``, and a little of every run's own."""
    found = {}
    for config in filter(only, every_run()):
        start = 0.5 + 0.05 * (config.seed % 4)
        more = 0.0 if config.position is Position.BASELINE else gain(config)
        own = 0.004 * (int(config.key[:6], 16) / 16**6 - 0.5)
        found[config.key] = result(config, start + more + own, chi(config))
    return found


def gains(config: RunConfig) -> float:
    """A world in which the paper is right, two parts of three are locality, several strides add and learning costs."""
    gain = {Position.AFTER_EMBEDDING: 0.04, Position.AFTER_ATTENTION: -0.03}.get(config.position, 0.01)
    gain = gain / 3 if config.permuted else gain
    return gain + (0.02 if config.strides != (1,) else 0.0) - (0.02 if config.learnable else 0.0)
