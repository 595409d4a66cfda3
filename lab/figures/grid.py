"""Page 5: the differences over α and position with the regimes of the heat step, and real against random neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from lab.arms import SIGNIFICANT, Arm
from lab.figures import marks
from lab.figures.figure import Figure
from lab.figures.marks import ORDER
from lab.figures.palette import BLUE, DIVERGING, INK, ORANGE, VERMILLION
from lab.link import show_number
from lab.positions import Position
from lab.statistics import PairedDifference

OF = {"baseline": "the baseline", "permuted": "random neighbours"}
"""What a cell is compared with."""

HEATED = ORDER[1:]
REGIME = "a heat step of α"
REGIMES = (
    ("smooths", BLUE, "#BFDDF0", lambda alpha: alpha <= 0.25),
    ("rings", ORANGE, "#F7DFAE", lambda alpha: 0.25 < alpha < 0.5),
    ("edge", VERMILLION, "#F5CDB0", lambda alpha: alpha >= 0.5),
)
"""Every factor 1 - αλ of the heat step is at least 0, at every length, exactly when α ≤ 1/4; all stay within ±1 up to 1/2.

A name, a strong and a pale colour, and which α belong to it.
"""

_DARK, _LIGHT = "#1F2328", "#FFFFFF"  # on the cells' own colours, which are the same in both themes
_ROW, _AXIS = 36, 150


def heatmap(
    found: Sequence[Arm], alphas: Sequence[float], of: str = "baseline", chosen: tuple[Position, float] | None = None
) -> Figure:
    """The mean paired difference of every position at every α, to ``of``: the ``baseline`` or the ``permuted`` control.

    A cell without runs is empty. A mark says that the difference stands after Holm's correction over all cells; ``chosen`` is outlined.
    """
    by_cell: dict[tuple[Position, float], Arm] = {
        (arm.config.position, arm.config.alpha): arm
        for arm in found
        if not arm.config.permuted and arm.config.position is not Position.BASELINE
    }
    cells = {(p, a): by_cell.get((p, a)) for p in list(Position)[1:] for a in alphas}
    rows = [_cell(position, alpha, arm, of) for (position, alpha), arm in cells.items()]
    filled = [row for row in rows if not math.isnan(row["difference"])]
    limit = max((abs(row["difference"]) for row in filled), default=0.0) or 1.0
    for row in rows:
        row["ink"] = _LIGHT if abs(row["difference"]) > 0.6 * limit else _DARK
    frame = pd.DataFrame(rows)
    columns = [show_number(alpha) for alpha in alphas]
    looks = sum(not math.isnan(row["p"]) for row in filled)
    clear = [f"{row['position']} at α = {row['step']} {row['difference']:+.1f}" for row in filled if row["mark"]]
    notes = _notes([arm for arm in cells.values() if arm])
    return Figure(
        alt.layer(*_bands(alphas, columns), *_cells(frame, columns, limit, chosen))
        .resolve_scale(color="independent")  # the bands and the numbers bring their own colours
        .properties(height=_ROW * (len(HEATED) + 1) + _AXIS),
        title=f"Difference to {OF[of]}, by position and α",
        guide=f"Each cell: the mean difference to {OF[of]} at the same seeds, in points of accuracy. ▲ above or ▼ below 0 after Holm's "
        f"correction over the {looks} cells that have an interval; a number without a mark could be chance. Dashed: no runs. Up to "
        "α = 1/4 a heat step only smooths; up to 1/2 fast modes ring, that is, change sign as they shrink; 1/2 is the edge of "
        f"stability.{notes}",
        alt=f"Heatmap of the mean paired difference in accuracy to {OF[of]}, {len(filled)} of {len(rows)} cells with runs. "
        f"Clear of 0 after correction over {looks}: {'; '.join(clear) if clear else 'none'}. All: "
        + "; ".join(
            f"{row['position']} at α = {row['step']} {row['difference']:+.1f}, n = {row['n']}" for row in filled
        )
        + ".",
        basis=marks.seeds(row["n"] for row in filled) if filled else "theory",
    )


def _cell(position: Position, alpha: float, arm: Arm | None, of: str) -> dict[str, Any]:
    """One row of the heatmap's table; NaN where there is nothing to compare."""
    paired, p, verdict = None, math.nan, "no runs yet"
    if arm is not None and of == "baseline":
        paired, p, verdict = arm.difference, arm.p, arm.verdict
    elif arm is not None:
        paired, p, verdict = arm.local, arm.p_local, arm.verdict_local
    known = paired or PairedDifference(math.nan, math.nan, math.nan, 0)
    mark = "" if math.isnan(p) or p >= SIGNIFICANT else " ▲" if known.mean > 0 else " ▼"
    return {
        "position": position.label,
        "alpha": alpha,
        "step": show_number(alpha),
        **marks.in_points(known),
        "p": p,
        "mark": mark,
        "words": f"{100 * known.mean:+.1f}{mark}" if known.n else "",
        "verdict": verdict,
    }


def _x(columns: Sequence[str]) -> alt.X:
    axis = alt.Axis(labelAngle=0, labelFlush=False, grid=False)
    return alt.X("step:N", sort=columns, scale=alt.Scale(domain=columns), title="step size α (not to scale)", axis=axis)


_Y = alt.Y(
    "position:N",
    sort=[REGIME, *HEATED],
    scale=alt.Scale(domain=[REGIME, *HEATED]),
    title="position of the heat layer",
    axis=alt.Axis(labelLimit=180, grid=False),
)


def _bands(alphas: Sequence[float], columns: Sequence[str]) -> list[alt.Chart]:
    """A strip above the cells that says what the heat step of each α does, and a line where the next regime begins."""
    spans = []
    for words, strong, pale, inside in REGIMES:
        names = [column for alpha, column in zip(alphas, columns, strict=True) if inside(alpha)]
        if names:
            middle, odd = names[(len(names) - 1) // 2], len(names) % 2
            span = {
                "words": words,
                "strong": strong,
                "pale": pale,
                "step": names[0],
                "last": names[-1],
                "position": REGIME,
            }
            spans.append({**span, "middle": middle, "at": 0.5 if odd else 1.0})
    frame = pd.DataFrame(spans)
    base = alt.Chart(frame)
    ends = {"x": _x(columns).bandPosition(0), "x2": alt.X2("last:N", bandPosition=1)}
    strip = base.mark_rect().encode(y=_Y, color=alt.Color("pale:N", scale=None), tooltip="words", **ends)
    edges = alt.Chart(frame[1:]).mark_rule(strokeWidth=2.5).encode(color=alt.Color("strong:N", scale=None), x=ends["x"])
    # Named by where the middle of the span is: the border of two columns if their number is even.
    named = [
        alt.Chart(frame[frame["at"] == at])
        .mark_text(fontSize=12, color=_DARK)
        .encode(x=alt.X("middle:N", sort=columns, bandPosition=at), y=_Y, text="words")
        for at in (0.5, 1.0)
    ]
    return [strip, edges, *named]


def _cells(
    frame: pd.DataFrame, columns: Sequence[str], limit: float, chosen: tuple[Position, float] | None
) -> list[alt.Chart]:
    domain = [limit * (2 * at - 1) for at, _ in DIVERGING]
    fill = alt.Color(
        "difference:Q",
        scale=alt.Scale(domain=domain, range=[colour for _, colour in DIVERGING], interpolate="rgb"),
        legend=alt.Legend(title="difference (points)", orient="bottom", format="+.0f", gradientLength=260),
    )
    tooltip: list[str | alt.Tooltip] = [
        "position",
        alt.Tooltip("step", title="α"),
        *marks.INTERVAL,
        alt.Tooltip("p", format=".3f", title="p after Holm"),
        "verdict",
    ]
    known = frame["n"] > 0
    place = {"x": _x(columns), "y": _Y, "tooltip": tooltip}
    empty = (
        alt.Chart(frame[~known])
        .mark_rect(fill="transparent", stroke=INK, strokeDash=[3, 3], strokeOpacity=0.5, cursor="pointer")
        .encode(**place)
    )
    filled = alt.Chart(frame[known]).mark_rect(cursor="pointer").encode(color=fill, **place)
    clicked = alt.selection_point(fields=["position", "alpha"], name=marks.CHOSEN, toggle="true")
    numbers = [
        alt.Chart(some)
        .mark_text(fontSize=12, fontWeight="bold" if marked else "normal")
        .encode(text="words", color=alt.Color("ink:N", scale=None), **place)
        for marked, some in frame.groupby(frame["mark"] != "")
    ]
    layers = [empty.add_params(clicked), filled, *numbers]
    if chosen is not None:
        here = frame[(frame["position"] == chosen[0].label) & (frame["alpha"] == chosen[1])]
        outline = alt.Chart(here).encode(x=_x(columns), y=_Y)
        layers.append(outline.mark_rect(fillOpacity=0, stroke=VERMILLION, strokeWidth=3))
    return layers


def _notes(found: Sequence[Arm]) -> str:
    """What the regimes mean where α is not what every application takes."""
    notes = ""
    if any(arm.config.matched for arm in found):
        notes += " Matched total α: a position that acts in each of N blocks takes steps of α/N, which only smooth up to α = N/4."
    if any(arm.config.strides != (1,) for arm in found):
        notes += " Several strides share α: up to 1/4 they only smooth, beyond it they may ring."
    if any(arm.config.learnable for arm in found):
        notes += " α is where training starts."
    return notes


# -- real against random neighbours ----------------------------------------------------------------------------------


def neighbours(found: Sequence[Arm], chosen: Position | None = None) -> Figure:
    """The difference to the baseline with real and with random neighbours, each with its interval, joined for each position."""
    rows = [
        {**marks.named(arm.config), **marks.in_points(arm.difference), "verdict": arm.verdict}
        for arm in found
        if arm.difference is not None
    ]
    return Figure(
        marks.differences(rows, "difference to the baseline (points)", chosen, joined=True),
        title="Real and random neighbours",
        guide="Filled: each token is smoothed with its true neighbours; hollow: with random ones, by the same amount. Marks: mean "
        "difference to the baseline; bars: its own 95 % interval (paired t). Where a pair stands together, neighbourhood adds nothing.",
        alt=f"Mean paired difference to the baseline in points, with real and with random neighbours: {marks.spoken(rows)}.",
        basis=marks.seeds(row["n"] for row in rows),
    )


def locality(found: Sequence[Arm], chosen: Position | None = None) -> Figure:
    """Real minus random neighbours at the same seeds, with its interval, for each position. Raises ValueError where no seed has both."""
    rows, looks = [], 0
    for arm in found:
        if arm.local is not None:
            rows.append({**marks.named(arm.config), **marks.in_points(arm.local), "verdict": arm.verdict_local})
            looks = arm.looks_local
    if not rows:
        raise ValueError("no arm has a seed with real and with random neighbours")
    return Figure(
        marks.differences(rows, "real minus random neighbours (points)", chosen),
        title="What locality adds",
        guide="Right of 0: true neighbours help more than random ones at the same seeds. Bars: each mark's own 95 % interval (paired t). "
        f"The verdicts in words are stricter: Holm's correction allows for {looks} such comparisons on this page.",
        alt="Accuracy with real minus with random neighbours in points: " + marks.spoken(rows) + ".",
        basis=marks.seeds(row["n"] for row in rows),
    )
