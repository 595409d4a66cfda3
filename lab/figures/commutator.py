"""Page 3: where heat and attention fail to commute, how much, and through which of the two ways."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.figures.figure import Figure, chart
from lab.figures.palette import ACCENT, BLUE, DIVERGING, INK, ORANGE, SEQUENTIAL
from lab.heads import Disagreement

ZERO = 1e-12
"""Entries below this are rounding: the two commute."""

_SIDE = 400


def attention(p: NDArray[np.float64], name: str, basis: str) -> Figure:
    """The attention matrix: who looks at whom."""
    return Figure(
        _square(p, SEQUENTIAL, 0, float(p.max()) or 1.0, "weight"),
        title="Attention P",
        guide="Row i: how token i shares its attention. Every row sums to 1.",
        alt=f"Heatmap of the {len(p)} × {len(p)} attention matrix, {name}; the largest weight is {p.max():.2g}.",
        basis=basis,
    )


def bracket(found: Disagreement, alpha: float, name: str, basis: str) -> Figure:
    """[D, P], signed, symmetric about 0."""
    matrix = found.commutator
    largest = float(np.abs(matrix).max())
    commutes = largest < ZERO
    words = "it is zero: they commute" if commutes else f"its largest entry is {largest:.2g}"
    limit = 1.0 if commutes else largest
    return Figure(
        _square(np.where(np.abs(matrix) < ZERO, 0, matrix), DIVERGING, -limit, limit, "entry"),
        title="Commutator [D, P]",
        guide="All zero: heat and this attention commute."
        if commutes
        else "Coloured where the order of the two matters.",
        alt=f"Heatmap of the commutator of the heat step at α = {alpha:g} with attention, {name}: {words}.",
        basis=basis,
    )


def norms(found: Disagreement, alpha: float, basis: str) -> Figure:
    """Both norms of [D, P] as bars inside their bounds."""
    names = list(found.norms)
    values, bounds = (np.array(column) for column in zip(*found.norms.values(), strict=True))
    grey = {"color": "rgba(122,130,140,0.22)", "line": {"color": INK, "width": 1.5}}
    bar = {"type": "bar", "y": names, "orientation": "h"}
    share = {n: v / b if b else 0.0 for n, (v, b) in found.norms.items()}
    return Figure(
        chart(
            165,
            [
                {"x": bounds, "width": 0.72, "name": "bound", "marker": grey, **bar},
                {"x": values, "width": 0.34, "name": "measured", "marker": {"color": ACCENT}, **bar},
            ],
            xaxis={"title": {"text": "size of [D, P]", "standoff": 10}, "rangemode": "tozero"},
            yaxis={"title": {"text": "norm"}, "autorange": "reversed"},
            barmode="overlay",
            margin={"t": 24, "b": 52, "l": 72},
        ),
        title="How large, of what is possible",
        guide="Bounds that no attention passes: 4α‖P‖₂ for the 2-norm (largest stretch of a vector), 4α for the ∞-norm (largest row sum).",
        alt=f"At α = {alpha:g} the commutator reaches "
        + " and ".join(f"{s:.0%} of its {n} bound" for n, s in share.items())
        + ".",
        basis=basis,
    )


def swap(found: Disagreement, basis: str) -> Figure:
    """The order swap as χ and its two parts."""
    parts = {"both (χ)": (found.chi, INK), "routing": (found.routing, BLUE), "operator": (found.operator, ORANGE)}
    values = np.array([value for value, _ in parts.values()])
    values[values < ZERO] = 0.0
    most = float(values.max()) or 1.0
    bars = {
        "type": "bar",
        "x": values,
        "y": list(parts),
        "orientation": "h",
        "width": 0.6,
        "marker": {"color": [colour for _, colour in parts.values()]},
        "text": [f"{value:.3g}" for value in values],
        "textposition": "outside",
        "cliponaxis": False,
    }
    return Figure(
        chart(
            175,
            [bars],
            xaxis={"title": {"text": "relative to ‖Attn(X)‖", "standoff": 10}, "range": [0, 1.18 * most], "nticks": 5},
            yaxis={"title": {"text": "part"}, "autorange": "reversed"},
            showlegend=False,
            margin={"t": 6, "b": 52, "l": 72},
        ),
        title="Heat before or after attention?",
        guide="Attn(DX) − D Attn(X) in two parts. Routing: attention looks elsewhere. Operator: even the same attention "
        "and heat disagree.",
        alt=f"χ is {values[0]:.3g}; the routing shift {values[1]:.3g}, the operator commutator {values[2]:.3g}.",
        basis=basis,
    )


def _square(matrix: NDArray[np.float64], colours: Any, low: float, high: float, what: str) -> Any:
    small = {"thickness": 8, "nticks": 5, "outlinewidth": 0, "tickfont": {"size": 11}, "exponentformat": "power"}
    below = {"orientation": "h", "y": -0.19, "yanchor": "top", "len": 1, "title": {"text": what, "side": "bottom"}}
    shown = {"colorscale": colours, "zmin": low, "zmax": high, "colorbar": {**small, **below}}
    hover = "row %{y}, column %{x}: %{z:.3g}<extra></extra>"
    return chart(
        _SIDE,
        [{"type": "heatmap", "z": matrix.astype(np.float32), "hovertemplate": hover, **shown}],
        xaxis={"title": {"text": "token looked at", "standoff": 6}, "constrain": "domain"},
        yaxis={"title": {"text": "token"}, "autorange": "reversed", "scaleanchor": "x", "constrain": "domain"},
        margin={"t": 8, "b": 108, "l": 48, "r": 8},
    )
