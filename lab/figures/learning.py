"""Page 4: learning curves, and how their difference to the baseline's grows and shrinks while the models train."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from lab.arms import Arm
from lab.config import RunConfig
from lab.figures import marks
from lab.figures.figure import Figure
from lab.figures.marks import PERMUTED, REAL
from lab.figures.palette import INK
from lab.learning import curve_difference
from lab.positions import Position
from lab.results import CurvePoint

_LEGEND: dict[str, Any] = {
    "title": None,
    "orient": "top",
    "columns": 2,
    "symbolStrokeWidth": 3,
    "symbolType": "stroke",
    "symbolOpacity": 1,
}
_DASH = alt.StrokeDash("control:N", scale=alt.Scale(domain=[REAL, PERMUTED], range=[[1, 0], [4, 3]]), legend=None)


def curves(runs: Mapping[RunConfig, Iterable[CurvePoint]], quantity: str = "accuracy") -> Figure:
    """Learning curves: a thin line for each run, a strong one for the mean over the seeds of a position.

    ``quantity`` is ``accuracy`` (held out) or ``loss`` (training). Runs that are still going are as long as they have got.
    """
    rows = [
        {
            **marks.named(config),
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
    faint = min(0.35, 7 / max(1, len(runs)))  # many seeds must not drown the means
    highlight = alt.selection_point(fields=["position"], bind="legend", name="highlight")
    colour = alt.Color("position:N", scale=marks.COLOUR, legend=alt.Legend(**_LEGEND))
    x = alt.X("step:Q", title="training step", axis=alt.Axis(tickCount=6))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False))

    def lines(data: pd.DataFrame, width: float, strong: float, weak: float) -> alt.Chart:
        """Solid for real neighbours, dashed for random ones; weak where another position is singled out."""
        opacity = alt.condition(highlight, alt.value(strong), alt.value(weak))
        return (
            alt.Chart(data)
            .mark_line(strokeWidth=width)
            .encode(x=x, y=y, color=colour, strokeDash=_DASH, opacity=opacity)
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
    thin = lines(frame, 1, faint, 0.03).encode(detail="run:N")
    strong = lines(mean_rows, 2.5, 1.0, 0.08).encode(
        tooltip=["position", "control", "step", alt.Tooltip("value", format=".3g", title=title), "n"]
    )
    n = int(mean_rows["n"].max()) if len(mean_rows) else 1
    return Figure(
        alt.layer(thin, strong).add_params(highlight).properties(height=360),
        title="Learning curves",
        guide="Strong: the mean over seeds; thin: each seed. A gap that closes again is a faster start, not a better end. "
        "Click a name in the legend to single it out.",
        alt=f"Learning curves, {title} against training step, for {len(runs)} runs.",
        basis=marks.seeds([n]),
    )


def difference(arms: Sequence[Arm], chosen: Position) -> Figure:
    """The paired difference to the baseline's learning curve at every step: a line for each position, the band of the chosen one.

    The chosen position's permuted control is drawn too, dashed. Raises ValueError where no arm has a pair.
    """
    rows = [
        {
            **marks.named(arm.config),
            "step": point.step,
            **marks.in_points(point.difference),
            "strong": arm.config.position is chosen,
        }
        for arm in arms
        if not arm.config.permuted or arm.config.position is chosen
        for point in curve_difference(arm)
        if arm.difference
    ]
    if not rows:
        raise ValueError("a difference of curves needs a seed of both the baseline and an arm")
    frame = pd.DataFrame(rows)
    x = alt.X("step:Q", title="training step", axis=alt.Axis(tickCount=6))
    title = "difference (percentage points)"
    colour = alt.Color("position:N", scale=marks.COLOUR, legend=alt.Legend(**_LEGEND, values=marks.ORDER[1:]))
    band = (
        alt.Chart(frame[frame["strong"]])
        .mark_area(opacity=0.16)
        .encode(x=x, y=alt.Y("low:Q", title=title), y2="high:Q", color=colour, detail="control:N")
    )
    lines = (
        alt.Chart(frame)
        .mark_line()
        .encode(
            x=x,
            y=alt.Y("difference:Q", title=title),
            color=colour,
            strokeDash=_DASH,
            strokeWidth=alt.StrokeWidth("strong:N", scale=alt.Scale(domain=[False, True], range=[1.2, 3]), legend=None),
            tooltip=[
                "position",
                "control",
                "step",
                *marks.INTERVAL,
            ],
        )
    )
    zero = alt.Chart(pd.DataFrame({"y": [0]})).mark_rule(color=INK, strokeWidth=1.5).encode(y="y:Q")
    last = frame[(frame["step"] == frame["step"].max()) & (frame["control"] == REAL)]
    spoken = "; ".join(f"{row.position} {row.difference:+.1f} points" for row in last.itertuples())
    n = int(frame["n"].max())
    dashed = ", dashed with random neighbours" if (frame["control"] == PERMUTED).any() else ""
    banded = f"Strong, with its 95 % band: {chosen.label}{dashed}. " if frame["strong"].any() else ""
    return Figure(
        alt.layer(zero, band, lines).properties(height=360),
        title="Difference of the learning curves",
        guide=f"How far each position is ahead of the baseline of the same seed at every step. {banded}A line that comes back to 0 was "
        "only a faster start. Each step has its own interval: over many steps, one of them leaves 0 by chance more easily.",
        alt=f"Paired difference of held-out accuracy to the baseline against training step; at the last step {spoken}.",
        basis=marks.seeds([n]),
    )
