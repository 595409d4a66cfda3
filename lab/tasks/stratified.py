"""A fixed stratified split in which equal examples stay together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SEED = 20260101
HELD_OUT = 0.2
MAX_HELD_OUT = 10_000

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Parts:
    """Rows of both splits, in an order every prefix of which has about the classes of the whole.

    ``repeated`` rows say the same as an earlier one and are on its side; ``contradicting`` ones say the same under
    another label and are in neither split; nor are the rows of the classes ``alone``, which have one distinct
    example.
    """

    train: Indices
    test: Indices
    repeated: int
    contradicting: int
    alone: tuple[int, ...]


def stratified(digests: NDArray[np.uint64], labels: Indices, classes: int) -> Parts:
    """Split rows by ``digests``, equal for rows that say the same: a fifth of each class held out, one at least."""
    _, first, group = np.unique(digests, return_index=True, return_inverse=True)
    group_label = labels[first]
    agrees = labels == group_label[group]
    rng = np.random.default_rng(SEED)
    share = min(HELD_OUT, MAX_HELD_OUT / len(first))
    held = np.zeros(len(first), dtype=bool)
    used = np.zeros(len(first), dtype=bool)
    # Groups are counted in the order of their first rows, so that the split does not depend on the digests' values.
    order = np.argsort(first)
    alone = []
    for label in range(classes):
        members = order[group_label[order] == label]
        if len(members) < 2:
            alone.append(label)
            continue
        count = min(max(1, round(share * len(members))), len(members) - 1)
        held[rng.permutation(members)[:count]] = True
        used[members] = True
    kept = agrees & used[group]
    train = _spread(np.flatnonzero(kept & ~held[group]), labels, rng)
    test = _spread(np.flatnonzero(kept & held[group]), labels, rng)
    repeated = int(kept.sum() - used.sum())
    return Parts(train, test, repeated, int((~agrees).sum()), tuple(alone))


def _spread(rows: Indices, labels: Indices, rng: np.random.Generator) -> Indices:
    """The rows, shuffled within each class and the classes interleaved in proportion, every class at the beginning."""
    rows = rng.permutation(rows)
    place = np.empty(len(rows))
    for label in np.unique(labels[rows]):
        mine = np.flatnonzero(labels[rows] == label)
        place[mine] = np.arange(len(mine)) / len(mine)
    return rows[np.argsort(place, kind="stable")]
