"""Page 1: representations before and after smoothing, and what happens to their cosine modes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from lab import modes
from lab.figures.figure import MARGIN, Figure, chart
from lab.figures.palette import ACCENT, BLUE, DIVERGING, INK, VERMILLION
from lab.representations import Representations

MAX_TOKENS = 256
MAX_DIM = 32
"""What is drawn of a larger matrix; what is computed is always the whole sequence."""

HEIGHT = 500

NAMED_TOKENS = 80
"""Up to this many tokens are named on the axis."""


def smoothing(given: Representations, alpha: float, steps: int) -> Figure:
    """Tokens before and after ``steps`` heat steps, with frames for every T of the ladder that play in the browser."""
    ladder = sorted({*modes.STEP_LADDER, steps})
    x = given.x[:, :MAX_DIM]
    frames = modes.smoothed(x, alpha, ladder)[:, :MAX_TOKENS].astype(np.float32)
    x, now = x[:MAX_TOKENS].astype(np.float32), ladder.index(steps)
    draw = _lines if x.shape[1] == 1 else _heatmaps
    picture, traces = draw(x, frames, now)
    names = list(given.tokens[:MAX_TOKENS])
    if len(names) <= NAMED_TOKENS and not names[0].isdigit() and max(map(len, names)) <= 4:
        picture.update_xaxes(tickvals=np.arange(len(names)), ticktext=names, tickangle=0, tickfont={"size": 10})
    picture.frames = [go.Frame(name=str(t), data=[trace], traces=[1]) for t, trace in zip(ladder, traces, strict=True)]
    picture.update_layout(**_player(ladder, now))
    part = f" Drawn: the first {len(x)} of {len(given.x)} tokens." if len(given.x) > len(x) else ""
    part += f" Drawn: the first {x.shape[1]} of {given.x.shape[1]} dimensions." if given.x.shape[1] > x.shape[1] else ""
    return Figure(
        picture,
        title="Tokens before and after smoothing",
        guide=f"Each heat step moves every token towards its two neighbours; press Play to watch it, step by step.{part}",
        alt=f"{given.what}, before and after {steps} heat steps with α = {alpha:g}: {_effect(alpha)}",
        basis=given.basis,
    )


def _heatmaps(x: NDArray[np.float32], frames: NDArray[np.float32], now: int) -> tuple[go.Figure, list[go.Heatmap]]:
    limit = float(np.quantile(np.abs(x), 0.995)) or 1.0
    hover = "token %{x}, dimension %{y}: %{z:.3g}<extra></extra>"
    shared = {"coloraxis": "coloraxis", "hovertemplate": hover}
    axis = {"title": {"text": "dimension"}, "nticks": 4}
    picture = chart(
        HEIGHT,
        xaxis={"anchor": "y", "showticklabels": False, "matches": "x2"},
        xaxis2={"anchor": "y2", "title": {"text": "token", "standoff": 4}},
        yaxis={"domain": [0.54, 1], **axis},
        yaxis2={"domain": [0, 0.46], **axis},
        coloraxis={
            "colorscale": DIVERGING,
            "cmin": -limit,
            "cmax": limit,
            "colorbar": {"title": {"text": "value"}, "thickness": 10, "nticks": 5, "outlinewidth": 0},
        },
        annotations=[_panel("before", 1), _panel("after", 0.46)],
    )
    picture.add_heatmap(z=x.T, **shared)
    picture.add_heatmap(z=frames[now].T, xaxis="x2", yaxis="y2", **shared)
    return picture, [go.Heatmap(z=frame.T) for frame in frames]


def _lines(x: NDArray[np.float32], frames: NDArray[np.float32], now: int) -> tuple[go.Figure, list[go.Scatter]]:
    low, high = float(x.min()), float(x.max())
    pad = 0.08 * (high - low) or 1.0
    picture = chart(
        HEIGHT,
        xaxis={"title": {"text": "token", "standoff": 4}},
        yaxis={"title": {"text": "value"}, "range": [low - pad, high + pad]},
    )
    picture.add_scatter(y=x[:, 0], mode="lines", name="before", line={"color": INK, "width": 1.5})
    picture.add_scatter(y=frames[now, :, 0], mode="lines", name="after", line={"color": ACCENT, "width": 2.5})
    return picture, [go.Scatter(y=frame[:, 0]) for frame in frames]


def _panel(text: str, y: float) -> dict[str, object]:
    words = {"text": text, "showarrow": False, "xref": "paper", "yref": "paper", "font": {"size": 12}}
    return {**words, "x": 0, "y": y, "xanchor": "left", "yanchor": "bottom"}


def _player(ladder: Sequence[int], now: int) -> dict[str, object]:
    """Play, pause and a slider over the steps: all in the browser."""
    at_once = {"frame": {"duration": 0, "redraw": True}, "mode": "immediate", "transition": {"duration": 0}}
    play = {"frame": {"duration": 280, "redraw": True}, "fromcurrent": True, "transition": {"duration": 0}}
    grey = {"bgcolor": "rgba(122,130,140,0.15)", "bordercolor": "rgba(122,130,140,0.5)"}
    buttons = [
        {"label": "▶ Play", "method": "animate", "args": [None, play]},
        {"label": "❚❚ Pause", "method": "animate", "args": [[None], at_once]},
    ]
    place = {"x": 0, "xanchor": "left", "y": -0.2, "yanchor": "top"}
    return {
        "margin": {**MARGIN, "b": 128},
        "updatemenus": [
            {
                "type": "buttons",
                "direction": "left",
                "showactive": False,
                "buttons": buttons,
                "pad": {"t": 4},
                **place,
                **grey,
            }
        ],
        "sliders": [
            {
                "active": now,
                "x": 0.02,
                "len": 0.98,
                "y": -0.27,
                "yanchor": "top",
                "pad": {"t": 0, "b": 0},
                "ticklen": 3,
                "currentvalue": {"prefix": "after T = ", "xanchor": "right"},
                "steps": [{"label": str(t), "method": "animate", "args": [[str(t)], at_once]} for t in ladder],
                **grey,
            }
        ],
    }


def transfer(given: Representations, alpha: float, steps: int) -> Figure:
    """The transfer function with its zones, over the spectrum it acts on, both against the cosine mode."""
    n = len(given.x)
    one, many = modes.factors(n, alpha), modes.factors(n, alpha, steps)
    found = modes.spectrum(given.x)
    before, after = modes.amplitude(found), modes.amplitude(found * many[:, None])
    floor = max(float(before.max()) * 1e-5, 1e-300)
    k = np.arange(n)
    picture = chart(
        HEIGHT,
        xaxis={"anchor": "y", "showticklabels": False, "matches": "x2"},
        xaxis2={"anchor": "y2", "title": {"text": "cosine mode k (slow → fast)", "standoff": 4}},
        yaxis={
            "domain": [0.46, 1],
            "title": {"text": "factor"},
            "range": [-1.5, 1.12],
            "tickvals": [-1, -0.5, 0, 0.5, 1],
        },
        yaxis2={
            "domain": [0, 0.4],
            "title": {"text": "amplitude (rms)"},
            "type": "log",
            "exponentformat": "power",
            "nticks": 4,
        },
        margin={**MARGIN, "b": 44, "t": 44},
    )
    zones = (
        (0, 1.12, "smoothing: the mode shrinks", INK, 0.0),
        (-1, 0, "ringing (α > 1/4): flips its sign each step", "#E69F00", 0.16),
        (-1.5, -1, "unstable (α > 1/2): grows", VERMILLION, 0.22),
    )
    for low, high, words, colour, opacity in zones:
        picture.add_hrect(low, high, fillcolor=colour, opacity=opacity, line_width=0, layer="below", yref="y")
        where = {"x": 0.01, "xref": "paper", "y": low, "yref": "y", "xanchor": "left", "yanchor": "bottom"}
        picture.add_annotation(text=words, showarrow=False, font={"size": 11}, **where)
    picture.add_scatter(x=k, y=one, name="1 step", mode="lines", line={"color": BLUE, "width": 2.5})
    if steps > 1:
        shown = np.clip(many, -1.5, 1.12)
        picture.add_scatter(
            x=k, y=shown, name=f"{steps} steps", mode="lines", line={"color": BLUE, "width": 1.5, "dash": "dot"}
        )
    axes = {"xaxis": "x2", "yaxis": "y2", "mode": "lines"}
    picture.add_scatter(x=k, y=np.maximum(before, floor), name="before", line={"color": INK, "width": 1.5}, **axes)
    picture.add_scatter(x=k, y=np.maximum(after, floor), name="after", line={"color": ACCENT, "width": 2}, **axes)
    return Figure(
        picture,
        title="What a step does to each frequency",
        guide="Above: the factor that multiplies each cosine mode. Below: how much of each mode there is, before and after.",
        alt=f"Transfer function of the heat step at α = {alpha:g}, from 1 at the slowest mode to {one[-1]:.2f} at the fastest: "
        f"{_effect(alpha)} Below it the spectrum of {given.what} before and after {steps} steps.",
        basis=given.basis,
    )


def regime(alpha: float) -> str:
    """The regime of α in a word: smoothing, ringing or unstable."""
    return "smoothing" if alpha <= 0.25 else "ringing" if alpha <= 0.5 else "unstable"


def _effect(alpha: float) -> str:
    return {
        "smoothing": "all modes shrink or stay, none changes its sign.",
        "ringing": "the fast modes change their sign at every step but do not grow.",
        "unstable": "the fastest modes grow at every step.",
    }[regime(alpha)]
