"""Page 3: where heat and attention fail to commute, how much, and through which of the two ways."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.figures.figure import MARGIN, Figure, chart
from lab.figures.palette import ACCENT, BLUE, DIVERGING, INK, ORANGE, SEQUENTIAL
from lab.heads import Disagreement

_TOKENS = {"title": {"text": "token looked at", "standoff": 4}, "constrain": "domain"}
_SIDE = 360


def attention(p: NDArray[np.float64], name: str, basis: str) -> Figure:
    """The attention matrix: who looks at whom."""
    picture = _square(p, SEQUENTIAL, 0, float(p.max()) or 1.0, "weight")
    return Figure(
        picture,
        title="Attention P",
        guide="Row i: how token i shares its attention; every row sums to 1.",
        alt=f"Heatmap of the {len(p)} × {len(p)} attention matrix, {name}; the largest weight is {p.max():.2g}.",
        basis=basis,
    )


def bracket(found: Disagreement, alpha: float, name: str, basis: str) -> Figure:
    """[D, P], signed, symmetric about 0."""
    matrix = found.commutator
    largest = float(np.abs(matrix).max())
    limit = largest if largest > 1e-12 else 1.0
    picture = _square(matrix, DIVERGING, -limit, limit, "entry")
    words = f"its largest entry is {largest:.2g}" if largest > 1e-12 else "it is zero: they commute"
    return Figure(
        picture,
        title="Commutator [D, P] = DP − PD",
        guide="Where the order of heat and attention matters; blank where it does not.",
        alt=f"Heatmap of the commutator of the heat step at α = {alpha:g} with attention, {name}: {words}.",
        basis=basis,
    )


def norms(found: Disagreement, alpha: float, basis: str) -> Figure:
    """Both norms of [D, P] as bars inside their bounds."""
    names = list(found.norms)
    values, bounds = (np.array(column) for column in zip(*found.norms.values(), strict=True))
    picture = chart(
        150,
        xaxis={"title": {"text": "size of [D, P]", "standoff": 4}, "rangemode": "tozero"},
        yaxis={"title": {"text": "norm"}, "autorange": "reversed"},
        barmode="overlay",
        margin={**MARGIN, "t": 26, "b": 40},
    )
    grey = {"color": "rgba(122,130,140,0.22)", "line": {"color": INK, "width": 1.5}}
    picture.add_bar(x=bounds, y=names, orientation="h", width=0.72, name="bound", marker=grey)
    picture.add_bar(x=values, y=names, orientation="h", width=0.34, name="measured", marker={"color": ACCENT})
    share = {n: v / b if b else 0.0 for n, (v, b) in found.norms.items()}
    return Figure(
        picture,
        title="How large, beside what is possible",
        guide="Bounds: 4α‖P‖₂ for the 2-norm, 4α for the ∞-norm (largest row sum). No attention can pass them.",
        alt=f"At α = {alpha:g} the commutator reaches "
        + " and ".join(f"{s:.0%} of its {n} bound" for n, s in share.items())
        + ".",
        basis=basis,
    )


def swap(found: Disagreement, basis: str) -> Figure:
    """The order swap as χ and its two parts."""
    parts = {
        "χ, the whole swap": (found.chi, INK),
        "routing shift": (found.routing, BLUE),
        "operator commutator": (found.operator, ORANGE),
    }
    picture = chart(
        170,
        xaxis={"title": {"text": "relative to ‖Attn(X)‖", "standoff": 4}, "rangemode": "tozero"},
        yaxis={"title": {"text": "part"}, "autorange": "reversed"},
        showlegend=False,
        margin={**MARGIN, "t": 8, "b": 40},
    )
    picture.add_bar(
        x=np.array([value for value, _ in parts.values()]),
        y=list(parts),
        orientation="h",
        width=0.6,
        marker={"color": [colour for _, colour in parts.values()]},
        text=[f"{value:.3g}" for value, _ in parts.values()],
        textposition="auto",
        insidetextanchor="start",
    )
    return Figure(
        picture,
        title="Heat before or after attention?",
        guide="Attn(DX) − D Attn(X): attention looks elsewhere (routing), and even fixed attention disagrees (operator).",
        alt=f"χ is {found.chi:.3g}; the routing shift {found.routing:.3g}, the operator commutator {found.operator:.3g}.",
        basis=basis,
    )


def _square(matrix: NDArray[np.float64], colours: object, low: float, high: float, what: str) -> Any:
    picture = chart(
        _SIDE,
        xaxis=_TOKENS,
        yaxis={"title": {"text": "token"}, "autorange": "reversed", "scaleanchor": "x", "constrain": "domain"},
        margin={**MARGIN, "t": 8, "b": 40, "r": 4},
    )
    picture.add_heatmap(
        z=matrix.astype(np.float32),
        colorscale=colours,
        zmin=low,
        zmax=high,
        colorbar={"title": {"text": what}, "thickness": 10, "nticks": 5, "outlinewidth": 0, "exponentformat": "power"},
        hovertemplate="row %{y}, column %{x}: %{z:.3g}<extra></extra>",
    )
    return picture
