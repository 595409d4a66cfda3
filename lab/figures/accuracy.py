"""Page 4: held-out accuracy by position, the paired difference to the baseline, and the pairs themselves."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from lab.arms import Arm
from lab.figures import marks
from lab.figures.figure import Figure
from lab.figures.marks import PERMUTED, REAL
from lab.figures.palette import INK
from lab.positions import Position

_BASELINE = "baseline"


def by_position(arms: Sequence[Arm], chance: float, chosen: Position | None = None) -> Figure:
    """Accuracy of every seed as a point, and the mean over seeds as a bar across them, for each position."""
    points = pd.DataFrame(
        [
            {**marks.named(arm.config), "seed": r.config.seed, "accuracy": 100 * r.accuracy}
            for arm in arms
            for r in arm.results
        ]
    )
    means = pd.DataFrame([{**marks.named(arm.config), "mean": 100 * arm.mean, "n": len(arm.results)} for arm in arms])
    controlled = bool((points["control"] == PERMUTED).any())
    offset = marks.offset(controlled)
    x = alt.X("accuracy:Q", title="held-out accuracy (%)", scale=alt.Scale(zero=False, padding=12, nice=False))
    seeds = marks.points(alt.Chart(points)).encode(
        x=x,
        y=marks.Y,
        tooltip=["position", "control", "seed", alt.Tooltip("accuracy", format=".1f", title="accuracy (%)")],
        **offset,
    )
    mean = (
        alt.Chart(means)
        .mark_tick(thickness=3, opacity=1, size=26 if not controlled else 13)
        .encode(
            x="mean:Q",
            y=marks.Y,
            color=alt.Color("position:N", scale=marks.COLOUR, legend=None),
            tooltip=["position", "control", alt.Tooltip("mean", format=".1f", title="mean (%)"), "n"],
            **offset,
        )
    )
    layers = [seeds, mean]
    baseline = next((arm for arm in arms if arm.config.position is Position.BASELINE), None)
    if baseline is not None:
        layers.insert(0, marks.rule(100 * baseline.mean, "baseline mean", [1, 0]))
    if 100 * chance > points["accuracy"].min() - 15:
        layers.insert(0, marks.rule(100 * chance, "chance", [3, 3]))
    spoken = "; ".join(f"{arm.config.label} {arm.mean:.1%} (n = {len(arm.results)})" for arm in arms)
    hollow = " Hollow marks: the permuted control, whose neighbours are random tokens." if controlled else ""
    return Figure(
        alt.layer(marks.rows(chosen), *layers).properties(height=marks.HEIGHT + marks.MORE * controlled),
        title="Accuracy by position",
        guide=f"Further right is better. One mark for each seed, a coloured bar at their mean; the grey line is the baseline's mean. "
        f"Guessing would give {chance:.1%}.{hollow}",
        alt=f"Held-out accuracy by position of the heat layer: {spoken}.",
        basis=marks.basis(arms),
    )


def difference(arms: Sequence[Arm], chosen: Position | None = None) -> Figure:
    """The mean paired difference to the baseline with its 95 % t interval, for each position."""
    rows = [
        {**marks.named(arm.config), **marks.in_points(arm.difference), "verdict": arm.verdict}
        for arm in arms
        if arm.difference is not None
    ]
    looks = max(arm.looks for arm in arms)
    return Figure(
        marks.differences(rows, "difference (percentage points)", chosen),
        title="Mean difference to the baseline",
        guide="Each seed is compared with the baseline of the same seed: the mark is the mean difference, the bar its own 95 % interval "
        f"(paired t). The verdicts in words are stricter: Holm's correction allows for having looked at {looks} "
        f"position{'s' if looks > 1 else ''}. Seeds vary, the held-out examples do not.",
        alt=f"Mean paired difference in accuracy to the baseline: {marks.spoken(rows)}.",
        basis=marks.basis(arms),
    )


def slopes(arm: Arm, random: Arm | None = None) -> Figure:
    """One line for each seed, from the baseline's accuracy to that of ``arm``, by way of its permuted control ``random``.

    Raises ValueError where no seed has both the baseline and the arm.
    """
    steps = {_BASELINE: arm.base, PERMUTED: random.results if random else (), REAL: arm.results}
    accuracies = {name: {r.config.seed: 100 * r.accuracy for r in results} for name, results in steps.items()}
    pairs = sorted(accuracies[_BASELINE].keys() & accuracies[REAL].keys())
    if arm.difference is None or not pairs:
        raise ValueError("a slope needs a seed of both the baseline and the arm")
    rows = [
        {"at": name, "seed": seed, "accuracy": found[seed], "position": arm.config.position.label}
        for name, found in accuracies.items()
        for seed in pairs
        if seed in found
    ]
    shown = [name for name in steps if any(row["at"] == name for row in rows)]
    chart = alt.Chart(pd.DataFrame(rows)).encode(
        x=alt.X("at:N", sort=shown, title="arm", axis=alt.Axis(labelAngle=0), scale=alt.Scale(padding=0.4)),
        y=alt.Y("accuracy:Q", title="held-out accuracy (%)", scale=alt.Scale(zero=False, padding=8)),
        tooltip=["seed", "at", alt.Tooltip("accuracy", format=".1f", title="accuracy (%)")],
    )
    colour = alt.Color("position:N", scale=marks.COLOUR, legend=None)
    lines = chart.mark_line(strokeWidth=1.5, opacity=0.75).encode(detail="seed:N", color=colour)
    ends = chart.mark_point(size=46, strokeWidth=1.6, opacity=1).encode(
        color=alt.condition(alt.datum["at"] == _BASELINE, alt.value(INK), colour),
        shape=alt.Shape("position:N", scale=marks.SHAPE, legend=None),
    )
    better = sum(accuracies[REAL][seed] > accuracies[_BASELINE][seed] for seed in pairs)
    n = len(pairs)
    return Figure(
        alt.layer(lines, ends).properties(height=300),
        title=f"Pairs: {arm.config.position.label}",
        guide=f"One line for each seed: the same start and the same batches without heat and with it. In {better} of {n} the heat layer "
        "is better than the baseline. Where the lines are parallel, the difference hardly depends on the seed.",
        alt=f"Accuracy of {n} seeds from the baseline to heat {arm.config.position.label}: "
        + "; ".join(f"seed {s} {accuracies[_BASELINE][s]:.1f} % to {accuracies[REAL][s]:.1f} %" for s in pairs)
        + ".",
        basis=marks.seeds([n]),
    )
