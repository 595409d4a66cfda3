"""More than the end point: what learning curves say of two arms. Is a gain a better end, or only a faster start?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lab.arms import SIGNIFICANT, Arm, paired
from lab.results import RunResult
from lab.statistics import PairedDifference, paired_difference


@dataclass(frozen=True)
class CurveDifference:
    """The paired difference of two arms' held-out accuracy at one step of the training."""

    step: int
    difference: PairedDifference


def area(result: RunResult) -> float:
    """Mean height of the learning curve, ``∫ accuracy d(step) / (last - first step)``, by the trapezoid rule; between 0 and 1.

    It is the accuracy averaged over the training, so two arms with one end and different starts differ in it.
    """
    steps = [point.step for point in result.curve]
    heights = [point.accuracy for point in result.curve]
    if len(steps) < 2:
        return heights[-1]
    return float(np.trapezoid(heights, steps) / (steps[-1] - steps[0]))


def steps_to(result: RunResult, accuracy: float) -> int | None:
    """The first measured step at which held-out accuracy is at least ``accuracy``; None if it is never."""
    return next((point.step for point in result.curve if point.accuracy >= accuracy), None)


def curve_difference(arm: Arm) -> list[CurveDifference]:
    """The difference to the baseline at every step that all pairs have measured, each with its own (pointwise) interval."""
    base = {r.config.seed: _heights(r) for r in arm.base}
    pairs = [(_heights(r), base[r.config.seed]) for r in arm.results if r.config.seed in base]
    if not pairs:
        return []
    shared = set.intersection(*({*a} & {*b} for a, b in pairs))
    return [CurveDifference(step, paired_difference([a[step] - b[step] for a, b in pairs])) for step in sorted(shared)]


def area_difference(arm: Arm) -> PairedDifference | None:
    """The paired difference of the curves' mean heights; None without pairs."""
    return paired(_by_seed(arm.results), _by_seed(arm.base), area)


def steps_difference(arm: Arm, accuracy: float) -> PairedDifference | None:
    """By how many steps later (or, negative, earlier) the arm reaches ``accuracy`` than the baseline, over the seeds where both do."""
    return paired(_by_seed(arm.results), _by_seed(arm.base), lambda r: steps_to(r, accuracy))


def only_a_faster_start(arm: Arm) -> str:
    """In words, whether a gain is there at the end of the training too; a gain that does not outlive Holm's correction is none yet."""
    points = curve_difference(arm)
    if not points or points[-1].difference.n < 2:
        return "at least two seeds are needed"
    best = max(points, key=lambda point: point.difference.mean)
    end = points[-1].difference
    if math.isnan(end.low):
        return f"{end.verdict} at the end of the training"
    if end.low > 0 and arm.p >= SIGNIFICANT:
        return f"ahead at the end by its own interval, but not once corrected for {arm.looks} looks"
    if end.low > 0:
        return "the gain is there at the end of the training"
    if end.high < 0:
        early = f"ahead at step {best.step}, but " if best.difference.low > 0 else ""
        return f"{early}below the baseline at the end"
    if best.difference.low > 0 and end.mean < best.difference.mean:
        return f"ahead at step {best.step}, not distinguishable at the end: no more than a faster start can be shown"
    return "no gain that can be told from 0, early or late"


def _heights(result: RunResult) -> dict[int, float]:
    return {point.step: point.accuracy for point in result.curve}


def _by_seed(results: Iterable[RunResult]) -> dict[int, RunResult]:
    return {result.config.seed: result for result in results}
