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

NAMED_TOKENS = 80
"""Up to this many tokens are named on the axis."""

HEIGHT = 500
LOWEST, HIGHEST = -1.5, 1.12
"""The range of the factor's axis."""


def smoothing(given: Representations, alpha: float, steps: int) -> Figure:
    """Tokens before and after ``steps`` heat steps, with frames for every T of the ladder that play in the browser."""
    ladder = sorted({*modes.STEP_LADDER, steps})
    x = given.x[:, :MAX_DIM]
    frames = modes.smoothed(x, alpha, ladder)[:, :MAX_TOKENS].astype(np.float32)
    x, now = x[:MAX_TOKENS].astype(np.float32), ladder.index(steps)
    traces, moving, layout = (_lines if x.shape[1] == 1 else _heatmaps)(x, frames, now)
    names = given.tokens[:MAX_TOKENS]
    axis = "xaxis2" if "xaxis2" in layout else "xaxis"
    if len(names) <= NAMED_TOKENS and not names[0].isdigit() and max(map(len, names)) <= 4:
        layout[axis] |= {"tickvals": np.arange(len(names)), "ticktext": names, "tickangle": 0, "tickfont": {"size": 10}}
    played = [{"name": str(t), "data": [trace], "traces": [1]} for t, trace in zip(ladder, moving, strict=True)]
    cut = [
        f"the first {shown} of {there} {what}"
        for shown, there, what in zip(x.shape, given.x.shape, ("tokens", "dimensions"), strict=True)
        if shown < there
    ]
    return Figure(
        chart(HEIGHT, traces, played, **layout, **_player(ladder, now)),
        title="Tokens before and after smoothing",
        guide="Each step moves every token towards its two neighbours. Press Play to watch it, step by step."
        + (f" Drawn: {' and '.join(cut)}." if cut else ""),
        alt=f"{given.what}, before and after {steps} heat steps with α = {alpha:g}: {_effect(alpha)}",
        basis=given.basis,
    )


_Parts = tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]


def _heatmaps(x: NDArray[np.float32], frames: NDArray[np.float32], now: int) -> _Parts:
    limit = float(np.quantile(np.abs(x), 0.995)) or 1.0
    shared = {
        "type": "heatmap",
        "coloraxis": "coloraxis",
        "hovertemplate": "token %{x}, dimension %{y}: %{z:.3g}<extra></extra>",
    }
    axis = {"title": {"text": "dimension"}, "nticks": 4}
    colours = {"thickness": 10, "nticks": 5, "outlinewidth": 0, "x": 1.01, "tickfont": {"size": 11}}
    layout = {
        "xaxis": {"anchor": "y", "showticklabels": False, "ticks": "", "matches": "x2"},
        "xaxis2": {"anchor": "y2", "title": {"text": "token", "standoff": 6}},
        "yaxis": {"domain": [0.54, 1], **axis},
        "yaxis2": {"domain": [0, 0.46], **axis},
        "coloraxis": {
            "colorscale": DIVERGING,
            "cmin": -limit,
            "cmax": limit,
            "colorbar": {"title": {"text": "value"}, **colours},
        },
        "annotations": [_panel("before", 1), _panel("after", 0.46)],
        "margin": {"r": 64, "b": 150},
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


def _panel(text: str, y: float) -> dict[str, object]:
    words = {"text": text, "showarrow": False, "xref": "paper", "yref": "paper", "font": {"size": 12}}
    return {**words, "x": 0, "y": y, "xanchor": "left", "yanchor": "bottom"}


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
    lower = {"type": "scatter", "mode": "lines", "xaxis": "x2", "yaxis": "y2"}
    blue = {"type": "scatter", "mode": "lines"}
    shown = np.clip(many, LOWEST, HIGHEST)
    several = {"name": f"{steps} steps", "line": {"color": BLUE, "width": 1.5, "dash": "dot"}, **blue}
    traces = [
        {"y": one, "name": "1 step", "line": {"color": BLUE, "width": 2.5}, **blue},
        *([{"y": shown, **several}] if steps > 1 else []),
        {"y": np.maximum(before, floor), "name": "before", "line": {"color": INK, "width": 1.5}, **lower},
        {"y": np.maximum(after, floor), "name": "after", "line": {"color": ACCENT, "width": 2}, **lower},
    ]
    amplitude = {"title": {"text": "amplitude (rms)"}, **LOG_AXIS, "nticks": 4}
    return Figure(
        chart(
            HEIGHT,
            traces,
            xaxis={"anchor": "y", "showticklabels": False, "ticks": "", "matches": "x2"},
            xaxis2={"anchor": "y2", "title": {"text": "cosine mode k (slow → fast)", "standoff": 6}},
            yaxis={"domain": [0.48, 1], "title": {"text": "factor"}, "range": [LOWEST, HIGHEST], "dtick": 0.5},
            yaxis2={"domain": [0, 0.42], **amplitude},
            margin={"t": 40, "l": 66},
            **_zones(alpha),
        ),
        title="What a step does to each frequency",
        guide="Above: the factor that multiplies each cosine mode. Below: how much of each mode there is, before and after.",
        alt=f"Transfer function of the heat step at α = {alpha:g}, from 1 at the slowest mode to {one[-1]:.2f} at the fastest: "
        f"{_effect(alpha)} Below it the spectrum of {given.what} before and after {steps} steps.",
        basis=given.basis,
    )


def _zones(alpha: float) -> dict[str, list[dict[str, Any]]]:
    """The bands of the factor's axis, named in words; the one that α reaches is in bold."""
    zones = (
        ("smoothing", 0.0, HIGHEST, "smoothing: the mode shrinks", INK, 0.0),
        ("ringing", -1.0, 0.0, "ringing (α > 1/4): flips its sign each step", ORANGE, 0.18),
        ("unstable", LOWEST, -1.0, "unstable (α > 1/2): grows", VERMILLION, 0.25),
    )
    wide = {"type": "rect", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "line": {"width": 0}, "layer": "below"}
    place = {"x": 0.015, "xref": "paper", "yref": "y", "xanchor": "left", "yanchor": "bottom", "showarrow": False}
    here = regime(alpha)
    return {
        "shapes": [
            {"y0": low, "y1": high, "fillcolor": colour, "opacity": depth, **wide}
            for _, low, high, _, colour, depth in zones
            if depth
        ],
        "annotations": [
            {"text": f"<b>{words}</b>" if name == here else words, "y": low, "font": {"size": 11}, **place}
            for name, low, _, words, _, _ in zones
        ],
    }


def regime(alpha: float) -> str:
    """The regime of α in a word: smoothing, ringing or unstable."""
    return "smoothing" if alpha <= 0.25 else "ringing" if alpha <= 0.5 else "unstable"


def _effect(alpha: float) -> str:
    return {
        "smoothing": "all modes shrink or stay, none changes its sign.",
        "ringing": "the fast modes change their sign at every step but do not grow.",
        "unstable": "the fastest modes grow at every step.",
    }[regime(alpha)]
