"""Results as arms: which runs belong together, what each is compared with, and what the comparison says."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lab.config import RunConfig
from lab.positions import Position
from lab.results import RunResult
from lab.statistics import PairedDifference, holm, paired_difference

SIGNIFICANT = 0.05

Measure = Callable[[RunResult], float | None]
"""A number of a run, or None where it has none."""


@dataclass(frozen=True)
class Arm:
    """All the seeds of one arm, beside the same seeds of the baseline and of its permuted control.

    ``difference`` is that to the baseline, ``local`` that of real neighbours to random ones (None for a permuted arm and where no seed has
    both). ``p`` and ``p_local`` are their p values after Holm's correction over the arms that were looked at together: those with real
    neighbours, those with random ones, and the comparisons of the two, each a family; ``looks`` and ``looks_local`` are their sizes.
    """

    config: RunConfig
    results: tuple[RunResult, ...]
    difference: PairedDifference | None
    local: PairedDifference | None = None
    p: float = math.nan
    p_local: float = math.nan
    looks: int = 1
    looks_local: int = 1
    base: tuple[RunResult, ...] = field(default=(), repr=False)

    @property
    def mean(self) -> float:
        """Mean held-out accuracy over the seeds there are."""
        return math.fsum(r.accuracy for r in self.results) / len(self.results)

    @property
    def seconds(self) -> float:
        """Typical wall time of one run, the median over seeds."""
        return statistics.median(r.seconds for r in self.results)

    @property
    def verdict(self) -> str:
        """Against the baseline, in plain words, corrected for how many arms were looked at."""
        return in_words(self.difference, self.p, self.looks, "the baseline")

    @property
    def verdict_local(self) -> str:
        """Real against random neighbours, in plain words, corrected likewise."""
        return in_words(self.local, self.p_local, self.looks_local, "its permuted control")


def in_words(difference: PairedDifference | None, p: float, looks: int, other: str) -> str:
    """The verdict on a difference to ``other`` whose corrected p value is ``p``, one of ``looks``."""
    if difference is None:
        return f"no seed shared with {other}"
    if math.isnan(p):
        return difference.verdict
    if p < SIGNIFICANT:
        return f"{'above' if difference.mean > 0 else 'below'} {other} at n = {difference.n}"
    alone = difference.p < SIGNIFICANT
    hint = f"; alone it would be, but {looks} were looked at" if alone else ""
    return f"not distinguishable from {other} at n = {difference.n}{hint}"


def arms(results: Iterable[RunResult], measure: Measure = lambda r: r.accuracy) -> list[Arm]:
    """Group results into arms, in the order of the positions; each is paired with its partners seed by seed.

    An arm's baseline is the run that agrees with it in everything but the heat layer. Seeds without a baseline count in the arm's mean
    and points, not in its difference. ``measure`` is what the differences are of.
    """
    groups: dict[RunConfig, dict[int, RunResult]] = {}
    for result in results:
        groups.setdefault(result.config.with_(seed=0), {})[result.config.seed] = result
    found = []
    for config, by_seed in groups.items():
        base = groups.get(config.with_(position=Position.BASELINE), {})
        heated = config.position is not Position.BASELINE
        random = groups.get(config.with_(permuted=True), {}) if heated and not config.permuted else {}
        found.append(
            Arm(
                config,
                tuple(by_seed[s] for s in sorted(by_seed)),
                paired(by_seed, base, measure) if heated else None,
                paired(by_seed, random, measure),
                base=tuple(base[s] for s in sorted(base)),
            )
        )
    order = list(Position)
    found.sort(key=lambda arm: (order.index(arm.config.position), arm.config.permuted, arm.config.alpha))
    return _corrected(found)


def paired(
    by_seed: Mapping[int, RunResult], other: Mapping[int, RunResult], measure: Measure
) -> PairedDifference | None:
    """The difference of two arms over the seeds that both have; None if there are none."""
    pairs = [(measure(by_seed[s]), measure(other[s])) for s in sorted(by_seed.keys() & other.keys())]
    values = [a - b for a, b in pairs if a is not None and b is not None]
    return paired_difference(values) if values else None


def _corrected(found: Sequence[Arm]) -> list[Arm]:
    """The same arms with p values corrected within each family."""
    changed = list(found)
    for permuted in (False, True):
        members = [i for i, arm in enumerate(changed) if arm.difference and arm.config.permuted is permuted]
        ps = holm([changed[i].difference.p for i in members])  # type: ignore[union-attr]  # they have one
        for i, p in zip(members, ps, strict=True):
            changed[i] = replace(changed[i], p=p, looks=len(members))
    members = [i for i, arm in enumerate(changed) if arm.local]
    for i, p in zip(members, holm([changed[i].local.p for i in members]), strict=True):  # type: ignore[union-attr]
        changed[i] = replace(changed[i], p_local=p, looks_local=len(members))
    return changed


def widest(found: Iterable[Arm]) -> float:
    """The largest half-width among the differences to the baseline; infinite while some arm has no interval yet."""
    widths = [arm.difference.half_width for arm in found if arm.difference]
    return max((math.inf if math.isnan(w) else w for w in widths), default=math.inf)


def one_more_seed(found: Sequence[Arm]) -> tuple[float, float] | None:
    """What one seed more of every arm would bring: the widest half-width to expect, and the seconds of training on one worker."""
    expected = [arm.difference.with_more() for arm in found if arm.difference]
    known = [w for w in expected if not math.isnan(w)]
    return (max(known), math.fsum(arm.seconds for arm in found)) if known else None
