"""Random ListOps expressions as the Long Range Arena draws them, thousands of trees at a time.

The generator is a branching process cut at depth 10: each node is an operator with probability 1/4, with 2 to 10
arguments, else a digit. Expressions are kept if their length lies strictly between two bounds, and each is kept once.
Drawing the trees level by level, all trees of a batch in the same arrays, and giving a tree up as soon as its tokens
pass the upper bound, leaves the distribution of the kept expressions as it is; so does forcing the root to be an
operator where the lower bound excludes a lone digit.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.tasks.base import TaskError

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
MIN, MAX, MED, SM = range(4)
CLOSE = "]"
TOKENS = ("<pad>", *"0123456789", *OPERATORS, CLOSE)
DIGIT_ID, OPERATOR_ID, CLOSE_ID = 1, 11, 15

P_OPERATOR = 0.25
MAX_DEPTH = 10
MAX_ARGUMENTS = 10
VERSION = 1
"""Version of the stream of random numbers: raise it when the same seed would give other expressions."""

TREES = 4096  # in a batch
MAX_BARREN = 200  # batches in a row without one new expression

Ints = NDArray[np.integer]
_EMPTY: NDArray[np.int64] = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Expressions:
    """``tokens (n, longest - 1)``, padded with 0; ``lengths (n,)``; ``labels (n,)``, the values of the expressions."""

    tokens: NDArray[np.uint8]
    lengths: NDArray[np.int64]
    labels: NDArray[np.int64]


def generate_split(n: int, shortest: int, longest: int, seed: int, into: Expressions | None = None) -> Expressions:
    """``n`` different expressions with ``shortest < length < longest``, in the order they were drawn.

    A function of its arguments alone. ``into`` gives arrays to fill, e.g. memory-mapped ones. Raises
    :class:`TaskError` if there are not so many (different) expressions of these lengths, as far as many draws can
    tell.
    """
    rng = np.random.default_rng([VERSION, seed, shortest, longest])
    made = into or Expressions(np.zeros((n, longest - 1), np.uint8), np.zeros(n, np.int64), np.zeros(n, np.int64))
    seen: set[bytes] = set()
    count = barren = 0
    while count < n:
        batch = _lay_out(_draw_trees(rng, shortest, longest), longest)
        barren += 1
        for row, length, label in zip(batch.tokens, batch.lengths, batch.labels, strict=True):
            digest = hashlib.blake2b(row.data, digest_size=16).digest()
            if digest in seen or count == n:
                continue
            seen.add(digest)
            made.tokens[count], made.lengths[count], made.labels[count] = row, length, label
            count, barren = count + 1, 0
        if barren > MAX_BARREN:
            raise TaskError(
                f"Only {count} different expressions of more than {shortest} and fewer than {longest} tokens turned up; "
                f"{n} were asked for.",
                "size",
            )
    return made


@dataclass
class _Level:
    """The nodes of one depth of all trees of a batch. Children of a level's operators follow in order in the next level."""

    tree: Ints
    operator: Ints  # -1 for a digit
    arguments: Ints  # of the operators alone
    digit: Ints


def _draw_trees(rng: np.random.Generator, shortest: int, longest: int) -> list[_Level]:
    """The levels of those trees of one batch that are kept, trees renumbered 0, 1, …."""
    levels: list[_Level] = []
    length = np.zeros(TREES, np.int64)
    tree = np.arange(TREES)
    for depth in range(1, MAX_DEPTH + 1):
        if depth == 1 and shortest >= 1:
            is_operator = np.ones(len(tree), bool)
        else:
            is_operator = (rng.random(len(tree)) < P_OPERATOR) & (depth < MAX_DEPTH)
        operator = np.where(is_operator, rng.integers(0, len(OPERATORS), len(tree), np.int8), np.int8(-1))
        digit = rng.integers(0, 10, len(tree), np.int8)
        arguments = rng.integers(2, MAX_ARGUMENTS + 1, np.count_nonzero(is_operator))
        levels.append(_Level(tree, operator, arguments, digit))
        length += np.bincount(tree, minlength=TREES) + np.bincount(tree[is_operator], minlength=TREES)
        tree = np.repeat(tree[is_operator], arguments)
        # Every node still to come takes a token at least; a tree that must reach the bound is given up here.
        hopeless = length + np.bincount(tree, minlength=TREES) >= longest
        length[hopeless] = longest
        tree = tree[~hopeless[tree]]
    accepted = (length > shortest) & (length < longest)
    number = np.cumsum(accepted) - 1
    return [_filter(level, accepted, number) for level in levels]


def _filter(level: _Level, accepted: NDArray[np.bool_], number: Ints) -> _Level:
    nodes = accepted[level.tree]
    operators = nodes[level.operator >= 0]
    return _Level(number[level.tree[nodes]], level.operator[nodes], level.arguments[operators], level.digit[nodes])


def _lay_out(levels: list[_Level], longest: int) -> Expressions:
    """The trees as token sequences, with their values: values and lengths from the leaves up, places from the root down."""
    n = len(levels[0].tree)
    tokens = np.zeros((n, longest - 1), np.uint8)
    sizes: list[NDArray[np.int64]] = []
    child_size, child_value = _EMPTY, _EMPTY
    for level in reversed(levels):
        size: NDArray[np.int64] = np.ones(len(level.tree), np.int64)
        value: NDArray[np.int64] = level.digit.astype(np.int64)
        inner = level.operator >= 0
        if len(level.arguments):
            first = np.cumsum(level.arguments) - level.arguments
            size[inner] = 2 + np.add.reduceat(child_size, first)
            value[inner] = _apply(level.operator[inner], level.arguments, first, child_value)
        sizes.append(size)
        child_size, child_value = size, value
    sizes.reverse()
    start: NDArray[np.int64] = np.zeros(n, np.int64)
    for level, size, below in zip(levels, sizes, [*sizes[1:], None], strict=True):
        inner = level.operator >= 0
        tokens[level.tree, start] = np.where(inner, OPERATOR_ID + level.operator, DIGIT_ID + level.digit)
        tokens[level.tree[inner], (start + size - 1)[inner]] = CLOSE_ID
        if below is not None and len(level.arguments):
            first = np.cumsum(level.arguments) - level.arguments
            before = np.cumsum(below) - below
            start = np.repeat(start[inner] + 1 - before[first], level.arguments) + before
        else:
            start = _EMPTY
    return Expressions(tokens, sizes[0], child_value)


def _apply(operator: Ints, arguments: Ints, first: Ints, values: Ints) -> Ints:
    """The value of every operator, from the values of its arguments ``values[first : first + arguments]``."""
    smallest, largest = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    total = np.add.reduceat(values, first)
    # Sorted within each group of arguments: the group's number in the high digits.
    ordered = np.sort(np.repeat(np.arange(len(first)), arguments) * 10 + values) % 10
    median = (ordered[first + (arguments - 1) // 2] + ordered[first + arguments // 2]) // 2
    return np.choose(operator, [smallest, largest, median, total % 10])
