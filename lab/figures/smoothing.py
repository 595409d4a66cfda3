"""Page 1: representations before and after smoothing, and what happens to their cosine modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab import modes
from lab.figures.figure import LOG_AXIS, Figure, chart
from lab.figures.palette import ACCENT, BLUE, DIVERGING, INK, ORANGE, VERMILLION
from lab.representations import Representations

MAX_TOKENS = 256
MAX_DIM = 16
"""What is drawn of a larger matrix; what is computed is always the whole sequence."""

NAMED_TOKENS = 40
"""Up to this many tokens are named on the axis."""

MAX_CELLS = 40_000
"""In all frames together: what is sent at every move of a slider must stay small."""

HEIGHT = 500
LOWEST, HIGHEST = -1.5, 1.12
"""The range of the factor's axis."""


def smoothing(given: Representations, alpha: float, steps: int) -> Figure:
    """Tokens before and after ``steps`` heat steps, with frames for every T of the ladder that play in the browser."""
    x = given.x[:, :MAX_DIM]
    ladder = _ladder(steps, min(len(x), MAX_TOKENS) * x.shape[1])
    frames = modes.smoothed(x, alpha, ladder)[:, :MAX_TOKENS].astype(np.float32)
    now = ladder.index(steps)
    shown = x[:MAX_TOKENS].astype(np.float32)
    traces, moving, layout = (_lines if x.shape[1] == 1 else _heatmaps)(shown, frames, now)
    names = given.tokens[:MAX_TOKENS]
    axis = "xaxis2" if "xaxis2" in layout else "xaxis"
    if len(names) <= NAMED_TOKENS and not names[0].isdigit() and max(map(len, names)) <= 4:
        layout[axis] |= {"tickvals": np.arange(len(names)), "ticktext": names, "tickangle": 0, "tickfont": {"size": 10}}
    played = [{"name": str(t), "data": [trace], "traces": [1]} for t, trace in zip(ladder, moving, strict=True)]
    cut = [
        f"the first {part} of {there} {what}"
        for part, there, what in zip(shown.shape, given.x.shape, ("tokens", "dimensions"), strict=True)
        if part < there
    ]
    return Figure(
        chart(HEIGHT, traces, played, **layout, **_player(ladder, now)),
        title="Tokens before and after smoothing",
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


def _heatmaps(x: NDArray[np.float32], frames: NDArray[np.float32], now: int) -> _Parts:
    limit = float(np.quantile(np.abs(x), 0.995)) or 1.0
    shared = {
        "type": "heatmap",
        "coloraxis": "coloraxis",
        "hovertemplate": "token %{x}, dimension %{y}: %{z:.3g}<extra></extra>",
    }
    colours = {"thickness": 10, "nticks": 5, "outlinewidth": 0, "x": 1.01, "tickfont": {"size": 11}}
    layout = {
        "xaxis": {"anchor": "y", "showticklabels": False, "ticks": "", "matches": "x2"},
        "xaxis2": {"anchor": "y2", "title": {"text": "token", "standoff": 6}},
        "yaxis": {"domain": [0.53, 1], "title": {"text": "dimension, before"}, "nticks": 4},
        "yaxis2": {"domain": [0, 0.47], "title": {"text": "dimension, after"}, "nticks": 4},
        "coloraxis": {
            "colorscale": DIVERGING,
            "cmin": -limit,
            "cmax": limit,
            "colorbar": {"title": {"text": "value"}, **colours},
        },
        "margin": {"t": 10, "r": 64, "b": 150},
    }
    traces = [{"z": x.T, **shared}, {"z": frames[now].T, "xaxis": "x2", "yaxis": "y2", **shared}]
    return traces, [{"type": "heatmap", "z": frame.T} for frame in frames], layout


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


def _player(ladder: Sequence[int], now: int) -> dict[str, object]:
    """Play, pause and a slider over the steps: all in the browser."""
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
        "updatemenus": [{"x": 0, "xanchor": "left", "y": -0.17, "yanchor": "top", **menu, **grey}],
        "sliders": [{"x": 0, "len": 1, "y": -0.19, "yanchor": "top", **slider, **grey}],
    }


def transfer(given: Representations, alpha: float, steps: int) -> Figure:
    """The transfer function with its zones, over the spectrum it acts on, both against the cosine mode."""
    n = len(given.x)
    one, many = modes.factors(n, alpha), modes.factors(n, alpha, steps)
    found = modes.spectrum(given.x)
    before, after = modes.amplitude(found), modes.amplitude(found * many[:, None])
    floor = max(float(before.max()) * 1e-5, 1e-300)
    top = 4 * max(float(before.max()), float(after.max()), floor)
    lower = {"type": "scatter", "mode": "lines", "xaxis": "x2", "yaxis": "y2"}
    blue = {"type": "scatter", "mode": "lines"}
    shown = np.clip(many, LOWEST, HIGHEST)
    several = {"name": f"{steps} steps", "line": {"color": BLUE, "width": 1.5, "dash": "dot"}, **blue}
    traces: list[dict[str, Any]] = [
        {"y": one, "name": "1 step", "line": {"color": BLUE, "width": 2.5}, **blue},
        *([{"y": shown, **several}] if steps > 1 else []),
        {"y": np.maximum(before, floor), "name": "before", "line": {"color": INK, "width": 1.5}, **lower},
        {"y": np.maximum(after, floor), "name": "after", "line": {"color": ACCENT, "width": 2}, **lower},
        _zone_names(n, alpha),
        _curve_names(n, floor, top),
    ]
    amplitude = {
        "title": {"text": "amplitude (rms)"},
        **LOG_AXIS,
        "nticks": 4,
        "range": np.log10([floor, top]).tolist(),
    }
    return Figure(
        chart(
            HEIGHT,
            traces,
            xaxis={"anchor": "y", "showticklabels": False, "ticks": "", "matches": "x2"},
            xaxis2={
                "anchor": "y2",
                "title": {"text": "cosine mode k (slow → fast)", "standoff": 6},
                "range": [0, n - 1],
            },
            yaxis={"domain": [0.48, 1], "title": {"text": "factor"}, "range": [LOWEST, HIGHEST], "dtick": 0.5},
            yaxis2={"domain": [0, 0.42], **amplitude},
            margin={"t": 10, "l": 66},
            shapes=_BANDS,
            showlegend=False,
        ),
        title="What a step does to each frequency",
        guide="Above: the factor that multiplies each cosine mode"
        + (f" (dotted: after {steps} steps)" if steps > 1 else "")
        + ". Below: how much of each mode there is.",
        alt=f"Transfer function of the heat step at α = {alpha:g}, from 1 at the slowest mode to {one[-1]:.2f} at the fastest: "
        f"{_effect(alpha)} Below it the spectrum of {given.what} before and after {steps} steps.",
        basis=given.basis,
    )


# The bands of the factor's axis and their names. Text is drawn as a trace: annotations are measured one by one, slowly.
_ZONES = (
    ("smoothing", 0.0, "smoothing: the mode shrinks"),
    ("ringing", -1.0, "ringing (α > 1/4): flips its sign each step"),
    ("unstable", LOWEST, "unstable (α > 1/2): grows"),
)
_BAND = {"type": "rect", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "line": {"width": 0}, "layer": "below"}
_BANDS = [
    {"y0": -1, "y1": 0, "fillcolor": ORANGE, "opacity": 0.18, **_BAND},
    {"y0": LOWEST, "y1": -1, "fillcolor": VERMILLION, "opacity": 0.25, **_BAND},
]
_WORDS = {"type": "scatter", "mode": "text", "hoverinfo": "skip", "cliponaxis": False}


def _zone_names(n: int, alpha: float) -> dict[str, Any]:
    """Each zone's name in its band; the one that α reaches in bold."""
    names = [f"<b>{words}</b>" if name == regime(alpha) else words for name, _, words in _ZONES]
    at = {"x": [0.01 * (n - 1)] * 3, "y": [low for _, low, _ in _ZONES]}
    return {"text": names, "textposition": "top right", "textfont": {"size": 11}, **at, **_WORDS}


def _curve_names(n: int, low: float, high: float) -> dict[str, Any]:
    """The names of the two spectra, in the corners that they leave free."""
    at = {"x": [0.99 * (n - 1), 0.01 * (n - 1)], "y": [high, low], "xaxis": "x2", "yaxis": "y2"}
    colours = {"textfont": {"size": 12, "color": [INK, ACCENT]}, "textposition": ["bottom left", "top right"]}
    return {"text": ["before", "after"], **at, **colours, **_WORDS}


def regime(alpha: float) -> str:
    """The regime of α in a word: smoothing, ringing or unstable."""
    return "smoothing" if alpha <= 0.25 else "ringing" if alpha <= 0.5 else "unstable"


def _effect(alpha: float) -> str:
    return {
        "smoothing": "all modes shrink or stay, none changes its sign.",
        "ringing": "the fast modes change their sign at every step but do not grow.",
        "unstable": "the fastest modes grow at every step.",
    }[regime(alpha)]
