"""What every figure of the lab has: a title, a sentence on how to read it, a text for those who cannot see it, its basis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

BASES = ("theory", "untrained", "one seed", "data", "your data")
"""What a figure shows. Several seeds are written as their number, e.g. ``3 seeds``."""

# Margins stand: letting Plotly find them draws everything twice, which is felt when a slider moves.
MARGIN = {"l": 56, "r": 16, "t": 24, "b": 48, "autoexpand": False}
AXIS = {"zeroline": False, "ticks": "outside", "ticklen": 4, "automargin": False, "tickfont": {"size": 11}}

LOG_AXIS = {"type": "log", "exponentformat": "power", "tickfont": {"size": 9}}
"""Plotly writes powers larger than the size says."""

# No colours of ink or paper here: the page's theme fills them in, so that a figure is right in light and in dark.
LAYOUT: dict[str, Any] = {
    "margin": MARGIN,
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "hovermode": "closest",
    "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.0, "xanchor": "left", "x": 0},
}


@dataclass(frozen=True)
class Figure:
    """A chart that cannot go without its words. Raises ValueError where one is missing, an axis title included.

    ``chart`` is a Plotly figure; an Altair chart where curves grow while one watches; or what such a chart comes to, a
    Vega-Lite specification with its ``datasets``, where it must be redrawn while a slider moves.
    """

    chart: Any
    title: str
    guide: str
    alt: str
    basis: str

    def __post_init__(self) -> None:
        for name in ("title", "guide", "alt"):
            if not getattr(self, name).strip():
                raise ValueError(f"a figure needs its {name}")
        if self.basis not in BASES and not re.fullmatch(r"(\d+ to )?\d+ seeds", self.basis):
            raise ValueError(f"basis is {self.basis!r}; it must be one of {', '.join(BASES)} or 'n seeds'")
        if isinstance(self.chart, go.Figure):
            _check_axes(self.chart)


def chart(
    height: int, data: Sequence[Mapping[str, Any]], frames: Sequence[Mapping[str, Any]] = (), **layout: Any
) -> go.Figure:
    """A Plotly figure with the lab's one face, made in one go: adding piece by piece takes ten times as long."""
    named = {name: {**AXIS, **axis} for name, axis in layout.items() if name[1:5] == "axis"}
    margin = {**MARGIN, **layout.pop("margin", {})}
    return go.Figure(data=data, layout={**LAYOUT, "height": height, **layout, **named, "margin": margin}, frames=frames)


def _check_axes(figure: go.Figure) -> None:
    for axis in (*figure.select_xaxes(), *figure.select_yaxes()):
        if axis.visible is not False and axis.showticklabels is not False and not axis.title.text:
            raise ValueError(f"{axis.plotly_name} has no title")
