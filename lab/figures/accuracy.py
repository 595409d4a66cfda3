"""Page 4: held-out accuracy by position, the paired difference to the baseline, and learning curves.

Altair, because these figures grow while one watches: a Plotly chart is made anew at every change, an Altair chart is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import pandas as pd

from lab.arms import Arm
from lab.config import RunConfig
from lab.figures.figure import Figure
from lab.figures.palette import INK, POSITION_COLOURS
from lab.positions import Position
from lab.results import CurvePoint

# Vega's names of the symbols that the Plotly figures use for the same positions.
_SHAPES = {
    Position.BASELINE: "circle",
    Position.AFTER_EMBEDDING: "circle",
    Position.BEFORE_ATTENTION: "square",
    Position.AFTER_ATTENTION: "diamond",
    Position.BEFORE_LN: "triangle-up",
    Position.AFTER_FFN: "triangle-down",
    Position.BETWEEN_LAYERS: "cross",
    Position.BEFORE_HEAD: "triangle-right",
}
_ORDER = [p.label for p in Position]
_COLOUR = alt.Scale(domain=_ORDER, range=[POSITION_COLOURS[p] for p in Position])
_SHAPE = alt.Scale(domain=_ORDER, range=[_SHAPES[p] for p in Position])
REAL, PERMUTED = "real neighbours", "random neighbours"
_HEIGHT = 330
# Every position has its row from the start: rows must not move while results come in, and the two figures line up.
_Y = alt.Y(
    "position:N",
    sort=_ORDER,
    scale=alt.Scale(domain=_ORDER),
    title="position of the heat layer",
    axis=alt.Axis(labelLimit=180, grid=True),
)
_CONTROL = alt.FillOpacity(
    "control:N",
    scale=alt.Scale(domain=[REAL, PERMUTED], range=[0.9, 0.0]),
    legend=None,
)


def _basis(arms: Sequence[Arm]) -> str:
    """How many seeds the arms rest on, e.g. ``3 seeds``, or ``1 to 3 seeds`` while they are coming in."""
    counts = {len(arm.results) for arm in arms}
    most = "one seed" if max(counts) == 1 else f"{max(counts)} seeds"
    return most if len(counts) == 1 else f"{min(counts)} to {most}"


def _control(config: RunConfig) -> str:
    return PERMUTED if config.permuted else REAL


def _named(config: RunConfig) -> dict[str, str]:
    return {"position": config.position.label, "control": _control(config)}


def by_position(arms: Sequence[Arm], chance: float) -> Figure:
    """Accuracy of every seed as a point, and the mean over seeds as a bar across them, for each position."""
    points = pd.DataFrame(
        [
            {**_named(arm.config), "seed": r.config.seed, "accuracy": 100 * r.accuracy}
            for arm in arms
            for r in arm.results
        ]
    )
    means = pd.DataFrame([{**_named(arm.config), "mean": 100 * arm.mean, "n": len(arm.results)} for arm in arms])
    controlled = bool((points["control"] == PERMUTED).any())
    offset = {"yOffset": alt.YOffset("control:N", sort=[REAL, PERMUTED])} if controlled else {}
    x = alt.X("accuracy:Q", title="held-out accuracy (%)", scale=alt.Scale(zero=False, padding=12, nice=False))
    seeds = (
        alt.Chart(points)
        .mark_point(size=64, strokeWidth=1.6, opacity=1)
        .encode(
            x=x,
            y=_Y,
            stroke=alt.Stroke("position:N", scale=_COLOUR, legend=None),
            fill=alt.Fill("position:N", scale=_COLOUR, legend=None),
            shape=alt.Shape("position:N", scale=_SHAPE, legend=None),
            fillOpacity=_CONTROL,
            tooltip=["position", "control", "seed", alt.Tooltip("accuracy", format=".1f", title="accuracy (%)")],
            **offset,
        )
    )
    mean = (
        alt.Chart(means)
        .mark_tick(thickness=3, opacity=1, size=26 if not controlled else 13)
        .encode(
            x="mean:Q",
            y=_Y,
            color=alt.Color("position:N", scale=_COLOUR, legend=None),
            tooltip=["position", "control", alt.Tooltip("mean", format=".1f", title="mean (%)"), "n"],
            **offset,
        )
    )
    layers = [seeds, mean]
    baseline = next((arm for arm in arms if arm.config.position is Position.BASELINE), None)
    if baseline is not None:
        layers.insert(0, _rule(100 * baseline.mean, "baseline mean", [1, 0]))
    if 100 * chance > points["accuracy"].min() - 15:
        layers.insert(0, _rule(100 * chance, "chance", [3, 3]))
    spoken = "; ".join(f"{arm.config.label} {arm.mean:.1%} (n = {len(arm.results)})" for arm in arms)
    hollow = " Hollow marks: the permuted control, whose neighbours are random tokens." if controlled else ""
    return Figure(
        alt.layer(*layers).properties(height=_HEIGHT if not controlled else _HEIGHT + 90),
        title="Accuracy by position",
        guide=f"Further right is better. One mark for each seed, a coloured bar at their mean; the grey line is the baseline's mean. "
        f"Guessing would give {chance:.1%}.{hollow}",
        alt=f"Held-out accuracy by position of the heat layer: {spoken}.",
        basis=_basis(arms),
    )


def difference(arms: Sequence[Arm]) -> Figure:
    """The mean paired difference to the baseline with its 95 % t interval, for each position."""
    rows = [
        {
            **_named(arm.config),
            "difference": 100 * arm.difference.mean,
            # One pair has no interval: NaN draws none.
            "low": 100 * arm.difference.low,
            "high": 100 * arm.difference.high,
            "n": arm.difference.n,
            "verdict": arm.difference.verdict,
        }
        for arm in arms
        if arm.difference is not None
    ]
    frame = pd.DataFrame(rows)
    controlled = bool((frame["control"] == PERMUTED).any())
    offset = {"yOffset": alt.YOffset("control:N", sort=[REAL, PERMUTED])} if controlled else {}
    tooltip = [
        "position",
        "control",
        alt.Tooltip("difference", format="+.1f", title="mean difference (points)"),
        alt.Tooltip("low", format="+.1f", title="95 % from (points)"),
        alt.Tooltip("high", format="+.1f", title="to (points)"),
        "n",
        "verdict",
    ]
    colour = alt.Color("position:N", scale=_COLOUR, legend=None)
    title = "difference (percentage points)"
    bars = (
        alt.Chart(frame)
        .mark_rule(strokeWidth=2.5)
        .encode(x=alt.X("low:Q", title=title), x2="high:Q", y=_Y, color=colour, tooltip=tooltip, **offset)
    )
    dots = (
        alt.Chart(frame)
        .mark_point(size=90, strokeWidth=1.8, opacity=1)
        .encode(
            x=alt.X("difference:Q", title=title),
            y=_Y,
            stroke=alt.Stroke("position:N", scale=_COLOUR, legend=None),
            fill=alt.Fill("position:N", scale=_COLOUR, legend=None),
            shape=alt.Shape("position:N", scale=_SHAPE, legend=None),
            fillOpacity=_CONTROL,
            tooltip=tooltip,
            **offset,
        )
    )
    spoken = "; ".join(
        f"{row['position']}{' (permuted)' if row['control'] == PERMUTED else ''} {row['difference']:+.1f} points, {row['verdict']}"
        for row in rows
    )
    return Figure(
        alt.layer(_rule(0, "no difference", [1, 0]), bars, dots).properties(
            height=_HEIGHT if not controlled else _HEIGHT + 90
        ),
        title="Mean difference to the baseline",
        guide="Each seed is compared with the baseline of the same seed: the mark is the mean difference, the bar its 95 % interval "
        "(paired t). A bar across 0 could be chance, and of several bars one may clear 0 by chance alone. Seeds vary, the held-out "
        "examples do not.",
        alt=f"Mean paired difference in accuracy to the baseline: {spoken}.",
        basis=_basis(arms),
    )


def curves(runs: Mapping[RunConfig, Iterable[CurvePoint]], quantity: str = "accuracy") -> Figure:
    """Learning curves: a thin line for each run, a strong one for the mean over the seeds of a position.

    ``quantity`` is ``accuracy`` (held out) or ``loss`` (training). Runs that are still going are as long as they have got.
    """
    rows = [
        {
            **_named(config),
            "run": config.key,
            "seed": config.seed,
            "step": point.step,
            "value": 100 * point.accuracy if quantity == "accuracy" else point.loss,
        }
        for config, points in runs.items()
        for point in points
    ]
    frame = pd.DataFrame(rows, columns=["position", "control", "run", "seed", "step", "value"])
    title = "held-out accuracy (%)" if quantity == "accuracy" else "training loss (nats)"
    highlight = alt.selection_point(fields=["position"], bind="legend", name="highlight")
    colour = alt.Color(
        "position:N",
        scale=_COLOUR,
        legend=alt.Legend(
            title=None, orient="top", columns=2, symbolStrokeWidth=3, symbolType="stroke", symbolOpacity=1
        ),
    )
    x = alt.X("step:Q", title="training step", axis=alt.Axis(tickCount=6))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False))
    dash = alt.StrokeDash("control:N", scale=alt.Scale(domain=[REAL, PERMUTED], range=[[1, 0], [4, 3]]), legend=None)
    thin = (
        alt.Chart(frame)
        .mark_line(strokeWidth=1)
        .encode(
            x=x,
            y=y,
            detail="run:N",
            color=colour,
            strokeDash=dash,
            opacity=alt.condition(highlight, alt.value(0.35), alt.value(0.04)),
        )
    )
    # The mean stops where the first seed does: beyond, it would be the mean of other seeds.
    mean_rows = (
        frame.groupby(["position", "control", "step"], as_index=False).agg(value=("value", "mean"), n=("value", "size"))
        if len(frame)
        else pd.DataFrame(columns=["position", "control", "step", "value", "n"])
    )
    if len(mean_rows):
        most = mean_rows.groupby(["position", "control"])["n"].transform("max")
        mean_rows = mean_rows[mean_rows["n"] == most]
    strong = (
        alt.Chart(mean_rows)
        .mark_line(strokeWidth=2.5)
        .encode(
            x=x,
            y=y,
            color=colour,
            strokeDash=dash,
            opacity=alt.condition(highlight, alt.value(1.0), alt.value(0.08)),
            tooltip=["position", "control", "step", alt.Tooltip("value", format=".3g", title=title), "n"],
        )
    )
    n = int(mean_rows["n"].max()) if len(mean_rows) else 1
    return Figure(
        alt.layer(thin, strong).add_params(highlight).properties(height=360),
        title="Learning curves",
        guide="Strong: the mean over seeds; thin: each seed. A gap that closes again is a faster start, not a better end. "
        "Click a name in the legend to single it out.",
        alt=f"Learning curves, {title} against training step, for {len(runs)} runs.",
        basis="one seed" if n == 1 else f"{n} seeds",
    )


def _rule(x: float, what: str, dash: list[int]) -> alt.Chart:
    """A vertical line across all positions."""
    return (
        alt.Chart(pd.DataFrame({"x": [x], "what": [what]}))
        .mark_rule(color=INK, strokeDash=dash, strokeWidth=1.5)
        .encode(x="x:Q", tooltip=["what", alt.Tooltip("x", format=".1f")])
    )
