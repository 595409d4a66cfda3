"""The theorems the lab rests on, each tested on random, adversarial and trained inputs, with the worst case that was found.

A theorem that bounds something is tested by the largest ratio to its bound, which must not exceed 1 and should come near it: a bound that
nothing comes near would be a weak test. One that states an equality is tested by the largest error, relative to the size of what is
compared.
"""

from __future__ import annotations

from lab.heads import Head
from lab.theorems.attention import ALPHA, attention_theorems
from lab.theorems.layer import layer_theorems
from lab.theorems.limits import Limit, limits
from lab.theorems.operator import operator_theorems
from lab.theorems.theorem import Theorem

__all__ = ["ALPHA", "Limit", "Theorem", "limits", "theorems"]


def theorems(trained: Head | None = None) -> list[Theorem]:
    """Every theorem with its test; a head of a trained model, taken with :data:`ALPHA`, is one more input. About a second."""
    return [*operator_theorems(trained), *layer_theorems(trained), *attention_theorems(trained)]
