"""The claims that compare two arms, put to the results."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from lab import learning
from lab.arms import Arm, arms, paired
from lab.claims.claim import Case, Claim, decided
from lab.claims.comparisons import Comparison
from lab.claims.runs import Planned, Results, by_seed
from lab.config import RunConfig
from lab.positions import Position
from lab.statistics import holm
from lab.tasks import get_task


def compared(comparison: Comparison, planned: Planned, results: Results) -> Claim:
    """A claim with a case for every pair of arms it speaks of, corrected for how many there are."""
    cases, found, runs = [], [], []
    for config, seeds in planned.items():
        other = comparison.partner(config) if config.position is not Position.BASELINE else None
        if other is None or other not in planned:
            continue
        mine, theirs = by_seed(config, seeds, results), by_seed(other, planned[other], results)
        case = Case(config.task, _what(config, comparison.by), config, len({*seeds} & {*planned[other]}))
        cases.append(case)
        found.append(paired(mine, theirs, lambda r: r.accuracy))
        runs.append([*mine.values(), *theirs.values()])
    if comparison.by == "alpha":
        grids = Counter(case.task for case in cases)  # of a task at one α there is nothing to say
        kept = [i for i, case in enumerate(cases) if grids[case.task] > 1]
        kept.sort(key=lambda i: cases[i].config.alpha)
        cases, found = [cases[i] for i in kept], [found[i] for i in kept]
    ps = holm([math.nan if d is None else d.p for d in found])
    judged = [
        case if d is None else decided(case, d, p, comparison.sign) for case, d, p in zip(cases, found, ps, strict=True)
    ]
    if comparison.name == "end":
        looks = sum(d is not None for d in found)
        judged = [
            replace(case, note=_curves(replace(arms(both)[-1], p=case.p, looks=looks))) if case.n else case
            for case, both in zip(judged, runs, strict=True)
        ]
    return Claim(
        comparison.name, comparison.statement, comparison.source, comparison.test, tuple(judged), comparison.paper
    )


def _what(config: RunConfig, by: str) -> str:
    title = get_task(config.task).info.title
    if by == "alpha":
        return f"{title}, α = {config.alpha:g}"
    return f"{title}, {config.position.label}" if by == "position" else title


def _curves(arm: Arm) -> str:
    """What the learning curves of an arm and its baseline say, in words."""
    area, points = learning.area_difference(arm), learning.curve_difference(arm)
    if area is None or not points:
        return ""
    most = max(points, key=lambda point: point.difference.mean)
    words = (
        f"{learning.only_a_faster_start(arm)}; on average over the training {100 * area.mean:+.1f} points, "
        f"at most {100 * most.difference.mean:+.1f} at step {most.step} of {arm.config.steps}"
    )
    return words.replace("-", "−")
