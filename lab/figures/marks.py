"""What the Altair figures of trained arms share: the marks of the positions, the row of each, how one is chosen.

Altair, because these figures grow while one watches: a Plotly chart is made anew at every change, an Altair chart is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import pandas as pd

from lab.arms import Arm
from lab.config import RunConfig
from lab.figures.palette import INK, POSITION_COLOURS, POSITION_SHAPES
from lab.positions import Position
from lab.statistics import PairedDifference

ORDER = [p.label for p in Position]
COLOUR = alt.Scale(domain=ORDER, range=[POSITION_COLOURS[p] for p in Position])
SHAPE = alt.Scale(domain=ORDER, range=[POSITION_SHAPES[p] for p in Position])
REAL, PERMUTED = "real neighbours", "random neighbours"
# Every position has its row from the start: rows must not move while results come in, and figures side by side line up.
Y = alt.Y(
    "position:N",
    sort=ORDER,
    scale=alt.Scale(domain=ORDER),
    title="position of the heat layer",
    axis=alt.Axis(labelLimit=180, grid=True),
)
CONTROL = alt.FillOpacity("control:N", scale=alt.Scale(domain=[REAL, PERMUTED], range=[0.9, 0.0]), legend=None)

HEIGHT, MORE = 330, 50
"""Of a figure with a row for each position, and what it needs more where each row holds two arms."""

CHOSEN = "chosen"
"""The name of the selection that a click on a mark makes, on the field ``position``, which holds the label."""


def control(config: RunConfig) -> str:
    """Whose neighbours an arm averages."""
    return PERMUTED if config.permuted else REAL


def named(config: RunConfig) -> dict[str, str]:
    """What every row of a figure's data says of its arm."""
    return {"position": config.position.label, "control": control(config)}


def basis(arms: Sequence[Arm]) -> str:
    """How many seeds the arms rest on, e.g. ``3 seeds``, or ``1 to 3 seeds`` while they are coming in."""
    return seeds(len(arm.results) for arm in arms)


def seeds(numbers: Iterable[int]) -> str:
    """The same from the number of seeds of each mark."""
    counts = set(numbers)
    most = "one seed" if max(counts) == 1 else f"{max(counts)} seeds"
    return most if len(counts) == 1 else f"{min(counts)} to {most}"


def offset(controlled: bool) -> dict[str, Any]:
    """Real and random neighbours one below the other in a position's row, where there are both."""
    return {"yOffset": alt.YOffset("control:N", sort=[REAL, PERMUTED])} if controlled else {}


def points(chart: alt.Chart, size: int = 64) -> alt.Chart:
    """Marks in a position's colour and symbol, hollow for random neighbours; x and y are the caller's."""
    return chart.mark_point(size=size, strokeWidth=1.7, opacity=1, cursor="pointer").encode(
        stroke=alt.Stroke("position:N", scale=COLOUR, legend=None),
        fill=alt.Fill("position:N", scale=COLOUR, legend=None),
        shape=alt.Shape("position:N", scale=SHAPE, legend=None),
        fillOpacity=CONTROL,
    )


def rows(chosen: Position | None) -> alt.Chart:
    """The rows of the positions, each of which a click chooses; the chosen one is tinted.

    A click on a chosen row takes it out of the selection again, so that every click is a change that the page hears of.
    """
    frame = pd.DataFrame({"position": ORDER, "tint": [0.14 if p is chosen else 0.0 for p in Position]})
    return (
        alt.Chart(frame)
        .mark_rect(color=INK, cursor="pointer")
        .encode(y=Y, opacity=alt.Opacity("tint:Q", scale=None))
        .add_params(alt.selection_point(fields=["position"], name=CHOSEN, toggle="true"))
    )


def rule(x: float, what: str, dash: list[int]) -> alt.Chart:
    """A vertical line across all positions."""
    return (
        alt.Chart(pd.DataFrame({"x": [x], "what": [what]}))
        .mark_rule(color=INK, strokeDash=dash, strokeWidth=1.5)
        .encode(x="x:Q", tooltip=["what", alt.Tooltip("x", format=".1f")])
    )


# -- paired differences ----------------------------------------------------------------------------------------------

INTERVAL: tuple[alt.Tooltip, ...] = (
    alt.Tooltip("difference", format="+.1f", title="mean difference (points)"),
    alt.Tooltip("low", format="+.1f", title="95 % from (points)"),
    alt.Tooltip("high", format="+.1f", title="to (points)"),
    alt.Tooltip("n", title="n (seeds)"),
)
"""What a mark says of :func:`in_points` when one points at it."""


def in_points(paired: PairedDifference) -> dict[str, Any]:
    """A paired difference as columns of a figure's data, in percentage points. One pair has no interval: NaN draws none."""
    return {"difference": 100 * paired.mean, "low": 100 * paired.low, "high": 100 * paired.high, "n": paired.n}


def differences(rows_: Sequence[dict[str, Any]], title: str, chosen: Position | None, joined: bool = False) -> Any:
    """A row for each position: a mark at each difference, its interval as a bar, a line at 0.

    ``rows_`` hold :func:`named`, :func:`in_points` and a ``verdict``; ``joined`` ties real and random neighbours together.
    """
    frame = pd.DataFrame(rows_)
    controlled = len(set(frame["control"])) > 1
    base = alt.Chart(frame).encode(y=Y, **offset(controlled))
    tooltip: list[str | alt.Tooltip] = ["position", "control", *INTERVAL, "verdict"]
    colour = alt.Color("position:N", scale=COLOUR, legend=None)

    def x(field: str) -> alt.X:
        return alt.X(field, title=title, axis=alt.Axis(tickCount=7))

    layers = [base.mark_line(strokeWidth=1.2, color=INK).encode(x=x("difference:Q"), detail="position:N")] * joined
    layers += [
        base.mark_rule(strokeWidth=2.5).encode(x=x("low:Q"), x2="high:Q", color=colour, tooltip=tooltip),
        points(base, size=90).encode(x=x("difference:Q"), tooltip=tooltip),
    ]
    return alt.layer(rows(chosen), rule(0, "no difference", [1, 0]), *layers).properties(
        height=HEIGHT + MORE * controlled
    )


def spoken(rows_: Sequence[dict[str, Any]]) -> str:
    """The same for those who listen to the page."""
    return "; ".join(
        f"{row['position']}{' (permuted)' if row['control'] == PERMUTED else ''} {row['difference']:+.1f} points, {row['verdict']}"
        for row in rows_
    )
