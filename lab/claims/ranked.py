"""The claims that look at all seven positions at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from lab.arms import arms, paired
from lab.claims.claim import Case, Claim, decided, verdict
from lab.claims.comparisons import PAPER, is_plain
from lab.claims.runs import Planned, Results, by_seed
from lab.positions import Position
from lab.prediction import correlation
from lab.results import RunResult
from lab.statistics import PairedDifference, holm
from lab.tasks import get_task

HEATED = tuple(p for p in Position if p is not Position.BASELINE)


def worst(planned: Planned, results: Results) -> Claim:
    """Worst means below each of the six others: all six must be told apart, and the nearest of them is shown."""
    cases: list[tuple[Case, PairedDifference | None]] = []
    ps: list[float] = []
    for case, runs in _tasks(planned, results):
        others = [p for p in HEATED if p is not Position.AFTER_ATTENTION]
        found = {p: paired(runs[Position.AFTER_ATTENTION], runs[p], lambda r: r.accuracy) for p in others}
        known = {p: d for p, d in found.items() if d is not None}
        if len(known) < len(others):
            cases.append((case, None))
            continue
        nearest, d = max(known.items(), key=lambda item: item[1].mean)
        # Below all six: the least certain of them decides, and needs no correction. Above one of six: corrected for six looks.
        each = [other.p for other in known.values()]
        ps.append(math.nan if any(map(math.isnan, each)) else max(each) if d.mean < 0 else min(1.0, len(each) * d.p))
        note = f"nearest to it: {nearest.label}" if d.mean < 0 else f"lower still: {nearest.label}"
        cases.append((replace(case, note=note), d))
    corrected = iter(holm(ps))
    return Claim(
        "worst",
        "After the attention is the worst of the seven places.",
        f"{PAPER}, on every task of the Long Range Arena but Image",
        "After the attention minus whichever other position is nearest to it or farthest below it; worst only if it is below all six.",
        tuple(case if d is None else decided(case, d, next(corrected), -1) for case, d in cases),
    )


def commutation(planned: Planned, results: Results) -> Claim:
    """Does χ of a position, before anything is trained, foretell what the position does to accuracy?"""
    cases = []
    for case, runs in _tasks(planned, results):
        found = correlation(arms([run for seeds in runs.values() for run in seeds.values()]), "initial")
        case = replace(case, unit="ρ")
        # χ is missing where sequences are too long to form attention whole.
        if found.n == len(HEATED) and found.seeds:
            told = not math.isnan(found.low) and not found.low <= 0 <= found.high
            said = verdict(-found.rho, 0.0 if told else 1.0)
            case = replace(case, value=found.rho, low=found.low, high=found.high, n=found.seeds, verdict=said)
        cases.append(case)
    return Claim(
        "commutation",
        "Non-commutation explains the order of the places: the more one disturbs attention, the less it helps.",
        f"{PAPER} argue so; the index χ is this project's own",
        "Spearman's rank correlation, over the seven positions, of χ before the training (mean over layers) with the change in "
        "accuracy, with its interval over seeds. The claim says that it is negative; seven places can support an explanation, not "
        "prove it.",
        tuple(cases),
    )


Runs = dict[Position, dict[int, RunResult]]


def _tasks(planned: Planned, results: Results) -> Iterator[tuple[Case, Runs]]:
    """Every task that is planned at all positions: a case to fill in and the runs by position."""
    for config, seeds in planned.items():
        if is_plain(config, Position.AFTER_ATTENTION):
            case = Case(config.task, get_task(config.task).info.title, config, len(seeds))
            yield case, {p: by_seed(config.with_(position=p), seeds, results) for p in Position}
