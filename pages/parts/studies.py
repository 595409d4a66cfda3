"""The studies that the controls describe."""

from __future__ import annotations

from typing import Any

from lab.link import MAX_SEEDS
from lab.positions import Position
from lab.study import Study
from pages.parts import resources


def by_position(values: dict[str, Any]) -> Study:
    """The baseline and all seven positions at the α of the sidebar. Raises ConfigError, e.g. for α above 1/2.

    Where a half-width is asked for, with as many seeds as are allowed: it ends when the intervals are narrow enough.
    """
    base = resources.run_config(values, position=Position.AFTER_EMBEDDING)
    count = MAX_SEEDS if values["until"] else values["seeds"]
    seeds = tuple(range(values["seed"], values["seed"] + count))
    return Study(base, tuple(Position), (values["alpha"],), seeds, values["permuted"], values["matched"])


def by_alpha(values: dict[str, Any]) -> Study:
    """The same over the grid of α. Raises LabError where the grid is empty."""
    base = resources.run_config(values, position=Position.AFTER_EMBEDDING, alpha=0.25)
    seeds = tuple(range(values["seed"], values["seed"] + values["seeds"]))
    return Study(base, tuple(Position), tuple(values["grid"]), seeds, values["permuted"], values["matched"])
