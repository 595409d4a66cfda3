"""What the figures of trained arms say, in numbers: differences with everything that belongs to them, and learning curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from lab import learning
from lab.arms import Arm
from lab.statistics import PairedDifference
from pages.parts.shown import panels

NONE = "–"


def against_the_baseline(arms: Sequence[Arm], key: str) -> None:
    """Two small tables of arms: what the differences to the baseline are; how sure one can be of them, and how large they are."""
    with st.container(key=f"table-{key}"):
        st.table(pd.DataFrame([_against(arm) for arm in arms]).set_index("position"))
        st.caption(
            "Accuracy in %, differences in percentage points, paired by seed, with their own 95 % t intervals. The words are stricter: "
            "they follow the corrected p value."
        )
    compared = [arm for arm in arms if arm.difference]
    if not compared:
        return
    left, right = panels([3, 2], least=360, name=f"-{key}")
    with left, st.container(key=f"table-{key}-sure"):
        st.table(pd.DataFrame([_certainty(arm) for arm in compared]).set_index("position"))
    right.caption(
        f"**p**: of the paired t test, by Holm's correction for the {max(arm.looks for arm in compared)} looked at. **d_z**: the mean "
        "difference in standard deviations of the differences. **BCa**: a bootstrap interval, a second opinion that assumes no normal "
        "distribution. At 5 seeds it is too narrow: in simulated studies it held the truth in 83 % (at 10 seeds in 89 %), the t "
        "interval in 95 %."
    )


def against_random_neighbours(arms: Sequence[Arm]) -> None:
    """What is left of each position's difference beside its permuted control; a sentence where no control is trained."""
    compared = [arm for arm in arms if arm.local]
    with st.container(key="table-locality"):
        st.markdown("##### Real against random neighbours: is it locality?")
        if not compared:
            st.caption("No permuted control is trained; switch it on under *The arms*.")
            return
        st.table(pd.DataFrame([_local(arm) for arm in compared]).set_index("position"))
        st.caption(
            "The permuted control smooths as strongly, with random tokens as neighbours. A gain that is there with them too does not "
            f"come from who the neighbours are. p is corrected by Holm for {max(arm.looks_local for arm in compared)} comparisons."
        )


def learning_curves(arms: Sequence[Arm], accuracy: float) -> None:
    """More than the end point: how soon ``accuracy`` (between 0 and 1) is reached, the area under the curve, a verdict on the start."""
    compared = [arm for arm in arms if arm.difference and not arm.config.permuted]
    if not compared:
        return
    with st.container(key="table-learning"):
        st.table(pd.DataFrame([_learning(arm, accuracy) for arm in compared]).set_index("position"))
        st.caption(
            f"Steps: the first measured step with at least {accuracy:.0%}, paired over the seeds (n) where both arms get there; negative "
            "is sooner. Area: held-out accuracy averaged over the training, in points. All paired with the baseline, each "
            "with its own 95 % t interval, not corrected for the number of rows."
        )


def _name(arm: Arm) -> str:
    return arm.config.position.label + (" (permuted)" if arm.config.permuted else "")


def _against(arm: Arm) -> dict[str, str]:
    return {
        "position": _name(arm),
        "seeds": str(len(arm.results)),
        "mean": f"{arm.mean:.1%}",
        "difference": _points(arm.difference),
        "95 % interval": _interval(arm.difference),
        "in words": arm.verdict if arm.difference else _without(arm),
    }


def _without(arm: Arm) -> str:
    return arm.verdict if arm.config.position.applications(1) else "what the others are compared with"


def _certainty(arm: Arm) -> dict[str, str]:
    assert arm.difference is not None
    low, high = arm.difference.bca()
    return {
        "position": _name(arm),
        "p (Holm)": _p(arm.p),
        "effect d_z": _signed(arm.difference.effect, ".1f"),
        "BCa interval": NONE if math.isnan(low) else f"{100 * low:+.1f} to {100 * high:+.1f}",
    }


def _local(arm: Arm) -> dict[str, str]:
    assert arm.local is not None
    return {
        "position": arm.config.position.label,
        "n": str(arm.local.n),
        "real − random": _points(arm.local),
        "95 % interval": _interval(arm.local),
        "p (Holm)": _p(arm.p_local),
        "effect d_z": _signed(arm.local.effect, ".1f"),
        "in words": arm.verdict_local,
    }


def _learning(arm: Arm, accuracy: float) -> dict[str, str]:
    sooner, area = learning.steps_difference(arm, accuracy), learning.area_difference(arm)
    reached = [step for result in arm.results if (step := learning.steps_to(result, accuracy)) is not None]
    return {
        "position": arm.config.position.label,
        f"reach {accuracy:.0%} at step": f"{sum(reached) / len(reached):.0f} ({len(reached)} of {len(arm.results)})"
        if reached
        else "never",
        "steps later": NONE if sooner is None else f"{sooner.mean:+.0f}{_bracket(sooner, 1, '.0f')} n = {sooner.n}",
        "area": NONE if area is None else f"{100 * area.mean:+.1f}{_bracket(area, 100, '.1f')}",
        "in words": learning.only_a_faster_start(arm),
    }


def _points(difference: PairedDifference | None) -> str:
    return f"{100 * difference.mean:+.1f}" if difference else NONE


def _interval(difference: PairedDifference | None) -> str:
    if difference is None or math.isnan(difference.low):
        return NONE
    return f"{100 * difference.low:+.1f} to {100 * difference.high:+.1f}"


def _bracket(difference: PairedDifference, scale: float, digits: str) -> str:
    if math.isnan(difference.low):
        return ""
    return f" ({scale * difference.low:+{digits}} to {scale * difference.high:+{digits}})"


def _signed(value: float, digits: str) -> str:
    return NONE if math.isnan(value) else f"{value:+{digits}}"


def _p(p: float) -> str:
    if math.isnan(p):
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
