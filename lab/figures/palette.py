"""The lab's colours: told apart by colour-blind readers, legible on light and on dark."""

from __future__ import annotations

from lab.positions import Position

INK = "#7A828C"
"""A grey that can be read on both backgrounds: reference lines, what was there before."""

BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, OLIVE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#B59F00",
)
"""Okabe and Ito's palette, its yellow darkened so that it can be read on white."""

ACCENT = VERMILLION
"""What has been smoothed; the place that is chosen."""

# Colour, Plotly's name of the symbol, Vega's name of it: the same to the eye as far as both have it.
_MARKS: dict[Position, tuple[str, str, str]] = {
    Position.BASELINE: (INK, "circle-open", "circle"),
    Position.AFTER_EMBEDDING: (BLUE, "circle", "circle"),
    Position.BEFORE_ATTENTION: (ORANGE, "square", "square"),
    Position.AFTER_ATTENTION: (VERMILLION, "diamond", "diamond"),
    Position.BEFORE_LN: (PURPLE, "triangle-up", "triangle-up"),
    Position.AFTER_FFN: (GREEN, "triangle-down", "triangle-down"),
    Position.BETWEEN_LAYERS: (SKY, "cross", "cross"),
    Position.BEFORE_HEAD: (OLIVE, "star", "triangle-right"),
}
POSITION_COLOURS = {position: colour for position, (colour, _, _) in _MARKS.items()}
POSITION_SYMBOLS = {position: symbol for position, (_, symbol, _) in _MARKS.items()}
POSITION_SHAPES = {position: shape for position, (_, _, shape) in _MARKS.items()}
"""The symbols in Altair's figures, where a baseline is told by its colour."""

SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, OLIVE)
SERIES_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
SERIES_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")

SEQUENTIAL = "Cividis"
"""For quantities that start at 0; perceptually uniform, and the same for colour-blind readers."""

DIVERGING = (
    (0.0, "#053B6B"),
    (0.2, "#1F78B4"),
    (0.4, "#9CC7E3"),
    (0.5, "#F1EFEA"),
    (0.6, "#F3B98A"),
    (0.8, "#D0661B"),
    (1.0, "#6E2B00"),
)
"""For signed quantities, always symmetric about 0: blue below, orange above."""
