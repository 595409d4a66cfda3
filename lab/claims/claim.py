"""A claim, what was found of it, and the verdict by one stated rule."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from lab import link
from lab.arms import SIGNIFICANT
from lab.config import RunConfig
from lab.statistics import PairedDifference


class Verdict(StrEnum):
    """What can be said of a claim, in the words that are shown."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "not distinguishable"
    NEEDS_LRA = "needs the full LRA"
    NOT_YET = "not measured yet"


RULE = (
    "On one task a claim **holds** if the mean difference over the seeds has the sign the claim says and its p value (paired t test), "
    "after Holm's correction over everything that the claim was tested on, is below 0.05; it **does not hold** if the difference has the "
    "other sign and is as certain; otherwise the two are **not distinguishable**. The intervals shown are each task's own, not corrected. "
    "A rank correlation is judged by its 95 % interval. "
    "Over several tasks a claim holds only if it holds on every one that is measured, and does not hold as soon as it fails on one. "
    "A number that was reported for the Long Range Arena **needs the full LRA**: small tasks can support or fail to support a direction, "
    "never that number."
)


@dataclass(frozen=True)
class Case:
    """A claim on one task: an arm against another, or a rank correlation over the arms.

    ``value``, ``low`` and ``high`` are in percentage points of accuracy, or ρ where ``unit`` says so, over ``n`` of the ``wanted`` seeds;
    NaN where there is none. ``p`` is corrected over the claim's cases. ``config`` is the arm that a page shows.
    """

    task: str
    what: str
    config: RunConfig
    wanted: int
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    p: float = math.nan
    verdict: Verdict = Verdict.NOT_YET
    unit: str = "points"
    note: str = ""

    @property
    def number(self) -> str:
        """The value with its 95 % interval and unit, e.g. ``+4.1 points [+2.0, +6.2]``."""
        if not self.n:
            return Verdict.NOT_YET.value
        digits, unit = (1, " points") if self.unit == "points" else (2, "")
        prefix = "" if self.unit == "points" else f"{self.unit} = "
        value, low, high = (
            f"{round(number, digits) + 0.0:+.{digits}f}".replace("-", "−")
            for number in (self.value, self.low, self.high)
        )
        return f"{prefix}{value}{unit}" + ("" if math.isnan(self.low) else f" [{low}, {high}]")

    @property
    def fields(self) -> dict[str, Any]:
        """The state of the pages that shows the arm with its seeds, beside the baseline and the other positions."""
        return {**link.of_run(self.config), "seeds": max(self.n, self.wanted)}


@dataclass(frozen=True)
class Claim:
    """A claim, how it is tested, and what was found. ``paper`` is the number that was reported, if one was."""

    name: str
    statement: str
    source: str
    test: str
    cases: tuple[Case, ...]
    paper: str = ""

    @property
    def direction(self) -> Verdict:
        """What the measured cases say together, by :data:`RULE`, of the direction alone."""
        found = {case.verdict for case in self.cases} - {Verdict.NOT_YET}
        if not found:
            return Verdict.NOT_YET
        if Verdict.FAILS in found:
            return Verdict.FAILS
        return Verdict.HOLDS if found == {Verdict.HOLDS} else Verdict.OPEN

    @property
    def verdict(self) -> Verdict:
        """The verdict on the claim as it was made."""
        return Verdict.NEEDS_LRA if self.paper else self.direction

    @property
    def summary(self) -> str:
        """On how many of what was planned, e.g. ``holds in 1 of 2; 2 not measured yet``."""
        measured = [case for case in self.cases if case.verdict is not Verdict.NOT_YET]
        if not measured:
            return Verdict.NOT_YET.value
        holding = sum(case.verdict is Verdict.HOLDS for case in measured)
        missing = len(self.cases) - len(measured)
        later = f"; {missing} not measured yet" if missing else ""
        return f"holds in {holding} of {len(measured)}{later}"


def decided(case: Case, found: PairedDifference, p: float, sign: int) -> Case:
    """The case with a difference in accuracy, its corrected p value and the verdict on a claim that says it has this ``sign``."""
    return replace(
        case,
        value=100 * found.mean,
        low=100 * found.low,
        high=100 * found.high,
        n=found.n,
        p=p,
        verdict=verdict(found.mean * sign, p),
    )


def verdict(towards: float, p: float) -> Verdict:
    """The verdict on a difference that is above 0 where the claim is right."""
    if not p < SIGNIFICANT:  # NaN too: one seed decides nothing
        return Verdict.OPEN
    return Verdict.HOLDS if towards > 0 else Verdict.FAILS
