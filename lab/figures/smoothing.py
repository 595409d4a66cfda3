"""Page 1: representations before and after smoothing, and what happens to their cosine modes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lab import modes
from lab.figures.figure import Figure, chart
from lab.figures.palette import ACCENT, BLUE, DIVERGING, INK, ORANGE, VERMILLION
from lab.representations import Representations

MAX_TOKENS = 256
MAX_DIM = 16
"""What is drawn of a larger matrix; what is computed is always the whole sequence."""

NAMED_TOKENS = 40
"""Up to this many tokens are named on the axis."""

MAX_CELLS = 24_000
"""In all frames together: what is sent at every move of a slider must stay small."""

MAX_FELT = 50
"""About as many cosine modes answer the pointer with their numbers: each is a mark of its own, drawn anew as α moves."""

HEIGHT, BEFORE_HEIGHT, AFTER_HEIGHT = 500, 165, 315
LOWEST, HIGHEST = -1.5, 1.12
"""The range of the factor's axis."""


def before(given: Representations) -> Figure | None:
    """The tokens as they are; None for one dimension, where they are a line behind the smoothed one.

    A figure of its own, because it does not depend on α: only what a slider changes is drawn anew.
    """
    x = given.x[:MAX_TOKENS, :MAX_DIM].astype(np.float32)
    if x.shape[1] == 1:
        return None
    layout = {
        "xaxis": {"title": {"text": "token", "standoff": 4}},
        "yaxis": {"title": {"text": "dimension"}, "nticks": 4},
        **_colours(x),
        "margin": {"t": 6, "r": 64, "b": 40},
    }
    return Figure(
        chart(BEFORE_HEIGHT, [{"z": x.T, **_HEATMAP}], **layout),
        title="Tokens before smoothing",
        guide="A column is a token, a row one number of its vector.",
        alt=f"{given.what} as they are: a column for each token, a row for each dimension.",
        basis=given.basis,
    )


def smoothing(given: Representations, alpha: float, steps: int) -> Figure:
    """Tokens after ``steps`` heat steps, with frames for every T of the ladder that play in the browser."""
    x = given.x[:, :MAX_DIM]
    ladder = _ladder(steps, min(len(x), MAX_TOKENS) * x.shape[1])
    frames = modes.smoothed(x, alpha, ladder)[:, :MAX_TOKENS].astype(np.float32)
    now = ladder.index(steps)
    shown = x[:MAX_TOKENS].astype(np.float32)
    traces, moving, layout = (_lines if x.shape[1] == 1 else _heatmaps)(shown, frames, now)
    height = AFTER_HEIGHT if len(traces) == 1 else HEIGHT
    names = given.tokens[:MAX_TOKENS]
    if len(names) <= NAMED_TOKENS and not names[0].isdigit() and max(map(len, names)) <= 4:
        layout["xaxis"] |= {
            "tickvals": np.arange(len(names)),
            "ticktext": names,
            "tickangle": 0,
            "tickfont": {"size": 10},
        }
    played = [
        {"name": str(t), "data": [trace], "traces": [len(traces) - 1]} for t, trace in zip(ladder, moving, strict=True)
    ]
    cut = [
        f"the first {part} of {there} {what}"
        for part, there, what in zip(shown.shape, given.x.shape, ("tokens", "dimensions"), strict=True)
        if part < there
    ]
    return Figure(
        chart(height, traces, played, **layout, **_player(ladder, now, height - 156)),
        title="Tokens after smoothing" if len(traces) == 1 else "Tokens before and after smoothing",
        guide="Each step moves every token towards its two neighbours. Press Play to watch it, step by step."
        + (f" Drawn: {' and '.join(cut)}." if cut else ""),
        alt=f"{given.what}, before and after {steps} heat steps with α = {alpha:g}: {_effect(alpha)}",
        basis=given.basis,
    )


def _ladder(steps: int, cells: int) -> list[int]:
    """The T that are drawn: all of the ladder, or for a large picture evenly fewer of it, ``steps`` always among them."""
    ladder = modes.STEP_LADDER
    kept = np.linspace(0, len(ladder) - 1, min(len(ladder), max(5, MAX_CELLS // cells))).round().astype(int)
    return sorted({*(ladder[i] for i in kept), steps})


_Parts = tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]


_HEATMAP = {
    "type": "heatmap",
    "coloraxis": "coloraxis",
    "hovertemplate": "token %{x}, dimension %{y}: %{z:.3g}<extra></extra>",
}


def _colours(x: NDArray[np.float32]) -> dict[str, Any]:
    """The colours of what is not smoothed yet, so that before and after compare."""
    limit = float(np.quantile(np.abs(x), 0.995)) or 1.0
    bar = {
        "thickness": 10,
        "nticks": 5,
        "outlinewidth": 0,
        "x": 1.01,
        "tickfont": {"size": 11},
        "title": {"text": "value"},
    }
    return {"coloraxis": {"colorscale": DIVERGING, "cmin": -limit, "cmax": limit, "colorbar": bar}}


def _heatmaps(x: NDArray[np.float32], frames: NDArray[np.float32], now: int) -> _Parts:
    layout = {
        "xaxis": {"title": {"text": "token", "standoff": 6}},
        "yaxis": {"title": {"text": "dimension"}, "nticks": 4},
        **_colours(x),
        "margin": {"t": 6, "r": 64, "b": 150},
    }
    return [{"z": frames[now].T, **_HEATMAP}], [{"type": "heatmap", "z": frame.T} for frame in frames], layout


def _lines(x: NDArray[np.float32], frames: NDArray[np.float32], now: int) -> _Parts:
    low, high = float(x.min()), float(x.max())
    pad = 0.08 * (high - low) or 1.0
    layout = {
        "xaxis": {"title": {"text": "token", "standoff": 6}},
        "yaxis": {"title": {"text": "value"}, "range": [low - pad, high + pad]},
        "margin": {"b": 150},
    }
    traces = [
        {"y": x[:, 0], "mode": "lines", "name": "before", "line": {"color": INK, "width": 1.5}},
        {"y": frames[now, :, 0], "mode": "lines", "name": "after", "line": {"color": ACCENT, "width": 2.5}},
    ]
    return traces, [{"y": frame[:, 0]} for frame in frames], layout


def _player(ladder: Sequence[int], now: int, plot: int) -> dict[str, object]:
    """Play, pause and a slider over the steps, below a plot of so many pixels: all in the browser."""
    at_once = {"frame": {"duration": 0, "redraw": True}, "mode": "immediate", "transition": {"duration": 0}}
    play = {"frame": {"duration": 320, "redraw": True}, "fromcurrent": True, "transition": {"duration": 0}}
    grey = {"bgcolor": "rgba(122,130,140,0.15)", "bordercolor": "rgba(122,130,140,0.5)"}
    buttons = [
        {"label": "▶ Play", "method": "animate", "args": [None, play]},
        {"label": "❚❚ Pause", "method": "animate", "args": [[None], at_once]},
    ]
    menu = {"type": "buttons", "direction": "left", "showactive": False, "buttons": buttons, "pad": {"t": 0, "r": 0}}
    slider = {
        "active": now,
        "ticklen": 3,
        "pad": {"t": 0, "b": 0},
        "font": {"size": 11},
        "currentvalue": {"prefix": "after T = ", "xanchor": "right", "font": {"size": 13}},
        "steps": [{"label": str(t), "method": "animate", "args": [[str(t)], at_once]} for t in ladder],
    }
    return {
        "updatemenus": [{"x": 0, "xanchor": "left", "y": -58 / plot, "yanchor": "top", **menu, **grey}],
        "sliders": [{"x": 0, "len": 1, "y": -65 / plot, "yanchor": "top", **slider, **grey}],
    }


def transfer(given: Representations, alpha: float, steps: int) -> Figure:
    """The transfer function with its zones, over the spectrum it acts on, both against the cosine mode."""
    n = len(given.x)
    one, many = modes.factors(n, alpha), modes.factors(n, alpha, steps)
    found = modes.spectrum(given.x)
    before, after = modes.amplitude(found), modes.amplitude(found * many[:, None])
    floor = max(float(before.max()) * 1e-5, 1e-300)
    rows = pd.DataFrame(
        {
            "mode": np.arange(n),
            "felt": np.arange(n) % max(1, n // MAX_FELT) == 0,
            "one": one,
            "many": np.clip(many, LOWEST, HIGHEST) if steps > 1 else np.full(n, np.nan),
            "before": np.maximum(before, floor),
            "after": np.maximum(after, floor),
            "low": floor,
            "high": 4 * max(float(before.max()), float(after.max()), floor),
        }
    )
    zones = pd.DataFrame(
        {
            "at": [low for _, low, _ in _ZONES],
            "words": [words for *_, words in _ZONES],
            "reached": [name == regime(alpha) for name, *_ in _ZONES],
        }
    )
    return Figure(
        {**_transfer_chart(), "datasets": {"rows": rows, "zones": zones}},
        title="What a step does to each frequency",
        guide="A cosine mode is a wave along the tokens. Above: the factor that multiplies it at each step"
        + (f" (dotted: after {steps} steps)" if steps > 1 else "")
        + ". Below: its amplitude, the root mean square over the dimensions.",
        alt=f"Transfer function of the heat step at α = {alpha:g}, from 1 at the slowest mode to {one[-1]:.2f} at the fastest: "
        f"{_effect(alpha)} Below it the spectrum of {given.what} before and after {steps} steps.",
        basis=given.basis,
    )


# The bands of the factor's axis and their names.
_ZONES = (
    ("smoothing", 0.0, "smoothing: the mode shrinks"),
    ("ringing", -1.0, "ringing (α > 1/4): flips its sign each step"),
    ("unstable", LOWEST, "unstable (α > 1/2): grows"),
)
_BANDS = ((-1.0, 0.0, ORANGE, 0.18), (LOWEST, -1.0, VERMILLION, 0.25))


@lru_cache(maxsize=1)
def _transfer_chart() -> dict[str, Any]:
    """The chart without its numbers, as Vega-Lite: it stands while α moves, so that the browser only exchanges the numbers.

    Whatever depends on α or on the tokens is therefore in the two tables, the ends of the axes too.
    """
    x = alt.X("mode:Q", title="cosine mode k (slow → fast)", scale=alt.Scale(nice=False, zero=False))
    factor = alt.Scale(domain=[LOWEST, HIGHEST], nice=False, range=[alt.expr("0.56 * height"), 0])
    y = alt.Y(
        "one:Q",
        title="factor",
        scale=factor,
        axis=alt.Axis(values=[-1.5, -1, -0.5, 0, 0.5, 1], format="~g", grid=True, orient="left"),
    )
    log = alt.Y(
        "before:Q",
        title="amplitude (rms)",
        scale=alt.Scale(type="log", nice=False, range=[alt.expr("height"), alt.expr("0.6 * height")]),
        axis=alt.Axis(tickCount=5, format="~g", grid=True, orient="left"),
    )
    rows = alt.Chart(alt.NamedData("rows"))
    hover = [
        alt.Tooltip("mode:Q", title="cosine mode"),
        alt.Tooltip("one:Q", format=".3f", title="factor of 1 step"),
        alt.Tooltip("before:Q", format=".3g", title="amplitude before"),
        alt.Tooltip("after:Q", format=".3g", title="amplitude after"),
    ]
    feeler = rows.transform_filter("datum.felt").mark_rule(opacity=0, strokeWidth=8, aria=False)
    first = rows.transform_filter("datum.mode === 0")
    written: dict[str, Any] = {"fontSize": 12, "baseline": "bottom"}
    bands = [
        alt.Chart(alt.NamedData("zones"))
        .transform_filter(f"datum.at === {low}")
        .mark_rect(color=colour, opacity=opacity, aria=False)
        .encode(x=alt.value(0), x2=alt.value("width"), y=alt.Y("at:Q", scale=factor), y2=alt.Y2Datum(high))
        for low, high, colour, opacity in _BANDS
    ]
    names = (
        alt.Chart(alt.NamedData("zones"))
        .mark_text(align="left", dx=4, dy=-2, color=INK, fontWeight=alt.expr("datum.reached ? 700 : 400"), **written)
        .encode(x=alt.value(0), y=alt.Y("at:Q", scale=factor), text="words:N")
    )
    above = alt.layer(
        *bands,
        rows.mark_line(color=BLUE, strokeWidth=2.5, clip=True, aria=False).encode(x=x, y=y),
        rows.mark_line(color=BLUE, strokeWidth=1.5, strokeDash=[2, 3], aria=False).encode(x=x, y="many:Q"),
        names,
        feeler.encode(x=x, y=alt.YDatum(LOWEST), y2=alt.Y2Datum(HIGHEST), tooltip=hover),
    )
    below = alt.layer(
        # Draws nothing: it holds the ends of the axis.
        first.mark_rule(opacity=0, aria=False).encode(x=x, y=alt.Y("low:Q"), y2="high:Q"),
        rows.mark_line(color=INK, strokeWidth=1.5, aria=False).encode(x=x, y=log),
        rows.mark_line(color=ACCENT, strokeWidth=2, aria=False).encode(x=x, y="after:Q"),
        first.mark_text(align="right", dx=-4, dy=16, text="before", color=INK, **written).encode(
            x=alt.value("width"), y="high:Q"
        ),
        first.mark_text(align="left", dx=4, dy=-4, text="after", color=ACCENT, **written).encode(
            x=alt.value(0), y="low:Q"
        ),
        feeler.encode(x=x, y="low:Q", y2="high:Q", tooltip=hover),
    )
    # Two axes in one picture rather than two pictures: those would not shrink to the width of a phone.
    both = alt.layer(above, below).resolve_scale(y="independent").properties(height=HEIGHT - 30)
    return both.to_dict()


def regime(alpha: float) -> str:
    """The regime of α in a word: smoothing, ringing or unstable."""
    return "smoothing" if alpha <= 0.25 else "ringing" if alpha <= 0.5 else "unstable"


def _effect(alpha: float) -> str:
    return {
        "smoothing": "all modes shrink or stay, none changes its sign.",
        "ringing": "the fast modes change their sign at every step but do not grow.",
        "unstable": "the fastest modes grow at every step.",
    }[regime(alpha)]
