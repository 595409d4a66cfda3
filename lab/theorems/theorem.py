"""A theorem and its test: the worst case that was found, beside what the theorem says of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

ROUNDING = 1e-9
"""What an equality or a bound may be missed by in float64; a theorem that is wrong misses it by far more."""

Found = tuple[float, str]
"""A value and the input it was found on."""


@dataclass(frozen=True)
class Theorem:
    """A theorem and its test.

    ``bound`` says in words what ``measure`` is held to; ``worst`` is the worst value of the measure, found on the input named ``on``.
    """

    name: str
    statement: str
    measure: str
    bound: str
    worst: float
    on: str
    holds: bool


def largest(found: Iterable[Found]) -> Found:
    """The largest of the values, with its input; NaN counts as infinite, so that no failure hides behind it."""
    return max((math.inf if math.isnan(value) else value, on) for value, on in found)


def equality(name: str, statement: str, errors: Iterable[Found]) -> Theorem:
    """A theorem that says that two things are equal, tested by the largest relative error between them."""
    worst, on = largest(errors)
    return Theorem(name, statement, "largest relative error", "0, up to rounding", worst, on, worst <= ROUNDING)


def bounded(name: str, statement: str, bound: str, ratios: Iterable[Found]) -> Theorem:
    """A theorem with a bound, tested by the largest ratio to it. Where the bound is 0, leave the input out."""
    worst, on = largest(ratios)
    return Theorem(name, statement, "largest ratio to the bound", bound, worst, on, worst <= 1 + ROUNDING)


def off(a: Tensor, b: Tensor) -> float:
    """The largest difference of entries, relative to the largest entry of b; NaN counts as infinite."""
    error = float((a - b).abs().max() / b.abs().max().clamp(min=1e-300))
    return math.inf if math.isnan(error) else error


def size(x: Tensor) -> float:
    """‖X‖_F."""
    return float(torch.linalg.vector_norm(x))
