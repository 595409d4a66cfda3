"""Page 6: the order swap χ against accuracy, its parts by layer, and roughness through the depth, before and after training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from lab.arms import Arm
from lab.figures import marks
from lab.figures.figure import Figure
from lab.figures.marks import COLOUR, ORDER, PERMUTED, SHAPE
from lab.figures.palette import BLUE, INK, ORANGE
from lab.prediction import When, mean_chi, profile
from lab.statistics import PairedDifference, RankCorrelation, paired_difference

WHEN: dict[When, str] = {"initial": "at initialisation", "final": "after training"}
PARTS = {"chi": "both (χ)", "routing": "routing shift", "operator": "operator commutator"}
_INITIAL, _FINAL = WHEN.values()
_INTERVAL = (
    alt.Tooltip("mean", format=".3f"),
    alt.Tooltip("low", format=".3f", title="95 % from"),
    alt.Tooltip("high", format=".3f", title="to"),
    alt.Tooltip("n", title="n (seeds)"),
)


def against_accuracy(found: Sequence[Arm], when: When, rank: RankCorrelation) -> Figure:
    """χ, the mean over layers and seeds, against the mean paired difference in accuracy, one mark for each arm, with both intervals."""
    rows: list[dict[str, Any]] = []
    for arm in found:
        chi = mean_chi(arm, when)
        if chi is not None and arm.difference is not None:
            accuracy = {f"y_{name}": 100 * value for name, value in _ends(arm.difference).items()}
            seeds = {"n": arm.difference.n, "n_chi": chi.n, "verdict": arm.verdict}
            rows.append(
                {**marks.named(arm.config), **{f"x_{k}": v for k, v in _ends(chi).items()}, **accuracy, **seeds}
            )
    controlled = any(row["control"] == PERMUTED for row in rows)
    tooltip = [
        "position",
        "control",
        alt.Tooltip("x_mean", format=".3f", title="χ, mean"),
        alt.Tooltip("x_low", format=".3f", title="χ, 95 % from"),
        alt.Tooltip("x_high", format=".3f", title="to"),
        alt.Tooltip("y_mean", format="+.1f", title="accuracy change (points)"),
        alt.Tooltip("y_low", format="+.1f", title="95 % from (points)"),
        alt.Tooltip("y_high", format="+.1f", title="to (points)"),
        alt.Tooltip("n", title="n (seeds)"),
        "verdict",
    ]
    base = alt.Chart(pd.DataFrame(rows))
    legend = alt.Legend(title=None, orient="top", columns=2, symbolOpacity=1, labelLimit=220, values=ORDER[1:])
    colour = alt.Color("position:N", scale=COLOUR, sort=ORDER, legend=legend)
    right, up = f"χ {WHEN[when]}, mean over layers", "accuracy change (points)"
    x = alt.X("x_mean:Q", title=right, scale=alt.Scale(zero=False, padding=14))
    y = alt.Y("y_mean:Q", title=up)
    points = (
        base.mark_point(size=130, strokeWidth=1.8, opacity=1, cursor="pointer")
        .encode(
            x=x,
            y=y,
            stroke=alt.Stroke("position:N", scale=COLOUR, legend=legend, sort=ORDER),
            fill=alt.Fill("position:N", scale=COLOUR, legend=legend, sort=ORDER),
            shape=alt.Shape("position:N", scale=SHAPE, legend=legend, sort=ORDER),
            fillOpacity=marks.CONTROL,
            tooltip=tooltip,
        )
        .add_params(alt.selection_point(fields=["position"], name=marks.CHOSEN, toggle="true"))
    )
    across = base.mark_rule(strokeWidth=1.5, opacity=0.7).encode(
        x=alt.X("x_low:Q", title=right), x2="x_high:Q", y=y, color=colour, tooltip=tooltip
    )
    upright = base.mark_rule(strokeWidth=1.5, opacity=0.7).encode(
        x=x, y=alt.Y("y_low:Q", title=up), y2="y_high:Q", color=colour, tooltip=tooltip
    )
    level = alt.Chart(pd.DataFrame({"y": [0.0]})).mark_rule(color=INK, strokeWidth=1.5).encode(y="y:Q")
    said = in_words(rank)
    hollow = " Hollow: the permuted control, which ρ leaves out." if controlled else ""
    return Figure(
        alt.layer(level, across, upright, points).properties(
            height=520, title=alt.Title(said, anchor="start", fontSize=13, fontWeight="normal", color=INK)
        ),
        title="χ against accuracy change",
        guide="One mark for each position: right, heat and attention disagree more; up, accuracy gains on the baseline. Bars: 95 % "
        f"intervals over seeds. ρ: Spearman's rank correlation, ±1 where the order by χ is the order by accuracy.{hollow}",
        alt=f"χ {WHEN[when]} against accuracy change: {said}. "
        + "; ".join(
            f"{row['position']}{' (permuted)' if row['control'] == PERMUTED else ''} χ {row['x_mean']:.3f}, {row['y_mean']:+.1f} points"
            for row in rows
        )
        + ".",
        basis=marks.seeds(row["n"] for row in rows),
    )


def in_words(rank: RankCorrelation) -> str:
    """A rank correlation with its interval in one line."""
    if math.isnan(rank.rho):
        return f"No rank correlation: {rank.n} positions at {rank.seeds} shared seeds"
    between = ", no interval" if math.isnan(rank.low) else f", 95 % interval {rank.low:+.2f} to {rank.high:+.2f}"
    return f"Spearman's ρ = {rank.rho:+.2f}{between} ({rank.n} positions, n = {rank.seeds} seeds)"


def parts(found: Sequence[Arm], layer: int) -> Figure:
    """χ and its two parts in one layer (counted from 0), before and after training, the mean over seeds, for each position."""
    measured = [arm for arm in found if not arm.config.permuted and _swaps(arm, "initial")]
    rows = [
        {"position": arm.config.position.label, "part": words, "when": WHEN[when], "layer": at + 1}
        | _ends(paired_difference([getattr(swap[at], name) for swap in swaps]))
        | {"n": len(swaps)}
        for arm in measured
        for when in WHEN
        for swaps in [_swaps(arm, when)]
        for at in range(len(swaps[0]))
        for name, words in PARTS.items()
    ]
    frame = pd.DataFrame(rows)
    most = float(frame["mean"].max()) * 1.05  # of all layers, so that they compare
    here = frame[frame["layer"] == layer + 1]
    order = list(PARTS.values())
    legend = alt.Legend(title=None, orient="top", symbolOpacity=1, symbolFillColor=INK)
    hues = alt.Scale(domain=order, range=[INK, BLUE, ORANGE])
    colour = alt.Color("part:N", scale=hues, sort=order, legend=legend)
    base = alt.Chart(here).encode(
        y=marks.Y,
        yOffset=alt.YOffset("part:N", sort=order, scale=alt.Scale(domain=order)),
        color=colour,
        tooltip=[
            "position",
            "part",
            "when",
            *_INTERVAL,
        ],
    )
    title = "size relative to ‖Attn(X)‖"
    x = alt.X("mean:Q", title=title, scale=alt.Scale(domain=[0, most]))
    joined = base.mark_line(strokeWidth=1.5, opacity=0.6).encode(x=x, detail=["position:N", "part:N"])
    spread = base.mark_rule(strokeWidth=4, opacity=0.3).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    filled = alt.FillOpacity("when:N", scale=alt.Scale(domain=[_INITIAL, _FINAL], range=[0.0, 1.0]), legend=None)
    dots = base.mark_point(size=42, strokeWidth=1.6, opacity=1).encode(
        x=x,
        fill=alt.Fill("part:N", scale=hues, sort=order, legend=None),
        shape=alt.Shape(
            "part:N", scale=alt.Scale(domain=order, range=["circle", "square", "diamond"]), sort=order, legend=legend
        ),
        fillOpacity=filled,
    )
    both = here[here["part"] == PARTS["chi"]].pivot(index="position", columns="when", values="mean")
    return Figure(
        alt.layer(spread, joined, dots).properties(height=430),
        title=f"χ and its two parts, layer {layer + 1}",
        guide="Hollow: at initialisation; filled: after training; pale bars: 95 % intervals. Routing: attention looks elsewhere when "
        "its input is smoothed. Operator: the same attention matrix and heat disagree. Norms, so the two need not add up to χ.",
        alt=f"χ in layer {layer + 1}, at initialisation and after training: "
        + "; ".join(f"{name} {row[_INITIAL]:.2f}, {row[_FINAL]:.2f}" for name, row in both.iterrows())
        + ".",
        basis=marks.seeds(here["n"]),
    )


def depth(found: Sequence[Arm], when: When) -> Figure:
    """Roughness through the depth, the mean over seeds with its 95 % band, for each position."""
    shown = [arm for arm in found if not arm.config.permuted]
    rows = [
        {"position": arm.config.position.label, "after": place, "when": time, "n": len(arm.results)}
        | _ends(paired_difference([profile(result, time).roughness[at] for result in arm.results]))
        for arm in shown
        for time in WHEN
        for at, place in enumerate(["embedding", *(f"block {i + 1}" for i in range(arm.config.layers))])
    ]
    frame = pd.DataFrame(rows)
    most = float(frame[["mean", "high"]].max().max()) * 1.04  # of both times, so that they compare
    here = frame[frame["when"] == when]
    places = list(dict.fromkeys(here["after"]))
    highlight = alt.selection_point("highlight", fields=["position"], bind="legend")
    legend = alt.Legend(title=None, orient="top", columns=2, symbolOpacity=1, labelLimit=220)
    x = alt.X("after:N", sort=places, title="measured after", axis=alt.Axis(labelAngle=0))
    title = "roughness E / ‖X‖²"
    y = alt.Y("mean:Q", title=title, scale=alt.Scale(domain=[0, most]))
    colour = alt.Color("position:N", scale=COLOUR, sort=ORDER, legend=legend)
    base = alt.Chart(here).encode(x=x)
    band = base.mark_area().encode(
        y=alt.Y("low:Q", title=title),
        y2="high:Q",
        color=colour,
        opacity=alt.condition(highlight, alt.value(0.16), alt.value(0.02)),
    )
    strong = alt.condition(highlight, alt.value(1.0), alt.value(0.1))
    line = base.mark_line(strokeWidth=2).encode(y=y, color=colour, opacity=strong)
    points = base.mark_point(size=60, filled=True).encode(
        y=y,
        color=colour,
        shape=alt.Shape("position:N", scale=SHAPE, sort=ORDER, legend=legend),
        opacity=strong,
        tooltip=[
            "position",
            "after",
            *_INTERVAL,
        ],
    )
    last = here[here["after"] == places[-1]]
    return Figure(
        alt.layer(band, line, points.add_params(highlight)).properties(height=440),
        title=f"Roughness through the depth, {WHEN[when]}",
        guide="Dirichlet energy over squared norm, whatever the scale: 0 where all tokens are alike, 2 at most. Low: neighbours are alike. "
        "Bands: 95 % interval over seeds. Click a name in the legend to single it out.",
        alt=f"Roughness of held-out representations {WHEN[when]}, after the last block: "
        + "; ".join(f"{row['position']} {row['mean']:.3f}" for row in last.to_dict("records"))
        + ".",
        basis=marks.seeds(here["n"]),
    )


def _ends(paired: PairedDifference) -> dict[str, float]:
    """The mean with the ends of its interval: NaN, which draws nothing, where there is none."""
    return {"mean": paired.mean, "low": paired.low, "high": paired.high}


def _swaps(arm: Arm, when: When) -> list[Any]:
    return [swap for result in arm.results if (swap := profile(result, when).swap)]
