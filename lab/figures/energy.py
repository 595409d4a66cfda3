"""Page 2: Dirichlet energy against heat steps, and through the depth of trained models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lab import modes
from lab.errors import LabError
from lab.figures.figure import LOG_AXIS, Figure, chart
from lab.figures.palette import (
    INK,
    POSITION_COLOURS,
    POSITION_SYMBOLS,
    SERIES,
    SERIES_DASHES,
    SERIES_SYMBOLS,
    VERMILLION,
)
from lab.positions import Position
from lab.representations import Representations
from lab.results import RunResult

HEIGHT = 420
MEASURED_POINTS = 16
LOWEST = 1e-12
"""Relative energy below which nothing is drawn: there float64 rounding takes over."""


def decay(given: Representations, alphas: Sequence[float], steps: int) -> Figure:
    """Energy relative to its start for each α: the exact curve, and what stepping measured."""
    every = np.arange(steps + 1)
    some = np.unique(np.linspace(0, steps, MEASURED_POINTS).round().astype(int))
    start = float(modes.exact_energy(given.x, 0, [0])[0])
    if start == 0:
        raise LabError("All tokens are equal, so there is no energy to decay; choose tokens that differ.", "source")
    traces: list[dict[str, Any]] = []
    growing: list[str] = []
    apart = 0.0  # the largest relative distance of a point from its line
    for i, alpha in enumerate(alphas):
        unstable = alpha > 0.5
        colour = VERMILLION if unstable else SERIES[i % len(SERIES)]
        name = f"α = {alpha:g}" + (" (unstable)" if unstable else "")
        exact = modes.exact_energy(given.x, alpha, every.tolist()) / start
        measured = modes.measured_energy(given.x, alpha, some.tolist()) / start
        if exact[-1] > exact[-2]:
            growing.append(f"{alpha:g}")
        apart = max(
            apart, float(np.max(np.abs(measured / np.maximum(exact[some], LOWEST) - 1) * (exact[some] > LOWEST)))
        )
        exact[exact < LOWEST], measured[measured < LOWEST] = np.nan, np.nan
        shared = {"legendgroup": name, "hovertemplate": name + ", T = %{x}: %{y:.3g}<extra></extra>"}
        line = {"color": colour, "dash": SERIES_DASHES[i % len(SERIES_DASHES)], "width": 2}
        marker = {"color": colour, "symbol": SERIES_SYMBOLS[i % len(SERIES_SYMBOLS)], "size": 8}
        traces += [
            {"x": every, "y": exact, "mode": "lines", "name": name, "line": line, **shared},
            {"x": some, "y": measured, "mode": "markers", "marker": marker, "showlegend": False, **shared},
        ]
    limit = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1}
    words = {"text": "stability limit: only α > 1/2 rises above it", "showarrow": False, "font": {"size": 11}}
    return Figure(
        chart(
            HEIGHT,
            traces,
            xaxis={"title": {"text": "heat steps T"}, "rangemode": "tozero"},
            yaxis={"title": {"text": "energy E(T) / E(0)"}, **LOG_AXIS, "nticks": 8},
            shapes=[{**limit, "line": {"color": INK, "width": 1.5, "dash": "dot"}}],
            annotations=[{**words, "x": 1, "xref": "paper", "xanchor": "right", "y": 0, "yanchor": "bottom"}],
            margin={"t": 52, "l": 64},
        ),
        title="Energy against steps",
        guide="Lines: the exact formula. Points: measured by stepping. The steeper the fall, the faster roughness dies.",
        alt=f"Dirichlet energy of {given.what} over {steps} heat steps for α = {', '.join(f'{a:g}' for a in alphas)} on a "
        f"log scale; at the end it {'grows for α = ' + ', '.join(growing) if growing else 'falls for every α'}; points and lines agree "
        f"to {apart:.0e} of their value.",
        basis=given.basis,
    )


def depth(results: Mapping[Position, RunResult]) -> Figure:
    """Energy per token after the embedding and after every block of the trained model of each position."""
    one = next(iter(results.values())).config
    places = ["embedding", *(f"block {layer + 1}" for layer in range(one.layers))]
    traces = [
        {
            "x": places,
            "y": np.array(result.energy),
            "name": position.label,
            "mode": "lines+markers",
            "line": {"color": POSITION_COLOURS[position], "width": 2},
            "marker": {"symbol": POSITION_SYMBOLS[position], "size": 9},
        }
        for position, result in results.items()
    ]
    return Figure(
        chart(
            HEIGHT,
            traces,
            xaxis={"title": {"text": "measured after"}, "type": "category"},
            yaxis={"title": {"text": "energy per token"}, **LOG_AXIS, "nticks": 8},
            margin={"t": 84, "l": 64},
        ),
        title="Energy through the depth of trained models",
        guide="Low: neighbouring tokens are alike. Compare positions at the same depth only: representations also grow with depth, and "
        "energy with them. LN: layer normalisation; FFN: feed-forward network.",
        alt=f"Mean Dirichlet energy per token of held-out {one.task} after the embedding and each block, for "
        + ", ".join(p.label for p in results)
        + ".",
        basis="one seed",
    )
