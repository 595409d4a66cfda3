"""What the numbers of a study say: paired differences to the baseline, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab.config import RunConfig
from lab.positions import Position
from lab.results import RunResult

CONFIDENCE = 0.95


@dataclass(frozen=True)
class PairedDifference:
    """Mean of paired differences with its two-sided t interval, ``mean ± t_{n-1} s / √n``.

    ``low`` and ``high`` are NaN where there is no interval: for fewer than two pairs, and where all differences are equal, which
    says that accuracy is counted in steps, not that nothing varies.
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def verdict(self) -> str:
        """In plain words, e.g. ``not distinguishable from 0 at n = 3``."""
        if self.n < 2:
            return f"no interval at n = {self.n}: it takes at least 2 seeds"
        if math.isnan(self.low):
            return f"no interval: all {self.n} differences are equal"
        if self.low <= 0 <= self.high:
            return f"not distinguishable from 0 at n = {self.n}"
        return f"{'above' if self.mean > 0 else 'below'} 0 at n = {self.n}"


def paired_difference(differences: Sequence[float], confidence: float = CONFIDENCE) -> PairedDifference:
    """The paired t interval of ``differences``, one per seed (scipy's). Raises ValueError if there are none."""
    import numpy as np
    from scipy import stats

    n = len(differences)
    if n == 0:
        raise ValueError("a paired difference needs at least one pair")
    mean = float(np.mean(differences))
    if n == 1:
        return PairedDifference(mean, math.nan, math.nan, 1)
    if np.ptp(differences) < 1e-12:
        return PairedDifference(mean, math.nan, math.nan, n)
    interval = stats.ttest_1samp(differences, 0.0).confidence_interval(confidence)
    return PairedDifference(mean, float(interval.low), float(interval.high), n)


@dataclass(frozen=True)
class Arm:
    """All the seeds of one arm, beside the same seeds of the baseline."""

    config: RunConfig
    results: tuple[RunResult, ...]
    difference: PairedDifference | None

    @property
    def mean(self) -> float:
        """Mean held-out accuracy over the seeds there are."""
        return math.fsum(r.accuracy for r in self.results) / len(self.results)


def arms(results: Iterable[RunResult]) -> list[Arm]:
    """Group results into arms, in the order of the positions; each is paired with the baseline seed by seed.

    An arm's baseline is the run that agrees with it in everything but the heat layer. Seeds without a baseline count in the arm's mean
    and points, not in its difference.
    """
    groups: dict[RunConfig, dict[int, RunResult]] = {}
    for result in results:
        groups.setdefault(result.config.with_(seed=0), {})[result.config.seed] = result
    found = []
    for config, by_seed in groups.items():
        baseline = groups.get(config.with_(position=Position.BASELINE), {})
        pairs = sorted(by_seed.keys() & baseline.keys())
        difference = None
        if config.position is not Position.BASELINE and pairs:
            difference = paired_difference([by_seed[s].accuracy - baseline[s].accuracy for s in pairs])
        found.append(Arm(config, tuple(by_seed[s] for s in sorted(by_seed)), difference))
    order = list(Position)
    return sorted(found, key=lambda arm: (order.index(arm.config.position), arm.config.permuted, arm.config.alpha))
