"""Retrieval: do two documents come from the same collection? Two towers, no attention between them.

A document is sentences of one collection (movie reviews, product reviews, newspaper editorials or tweets), joined and
cut to a fixed number of bytes. Half of the pairs are from one collection, a quarter of these from each; the others
are spread evenly over the six pairs of collections. No document is in pairs of both splits, and no product review or
editorial has sentences in both. At full size the task is :mod:`lab.tasks.lra_retrieval`. Example: 96 bytes of two
editorials, label 1 (same collection).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from lab.tasks import fetch, snippets, text_bytes
from lab.tasks.base import Split, TaskData, TaskError, TaskInfo

# size: (bytes of a document, training and held-out pairs)
SIZES = {"mini": (96, 19200, 960), "small": (512, 19200, 1920)}


class Retrieval(text_bytes.ByteTask):
    """Pairs of documents from four collections."""

    info = TaskInfo(
        name="retrieval",
        title="Retrieval",
        description="Two documents, read byte by byte in two towers that meet only at the classifier: "
        "are they from the same collection (movie reviews, product reviews, editorials, tweets)?",
        source=snippets.SOURCE,
        licence=snippets.LICENCE,
        sizes=tuple(SIZES),
        label_names=("different collections", "same collection"),
    )

    def load_available(self, size: str) -> TaskData:
        """The data of one size."""
        return _load(size, str(fetch.data_folder()))

    def unavailable(self, size: str) -> str:
        """Why a size cannot be loaded here; empty if it can."""
        if size == "full":
            return "retrieval has no size 'full'; lra_retrieval, which is the Long Range Arena's own task, has."
        return super().unavailable(size) or fetch.missing("text")


@lru_cache(maxsize=4)
def _load(size: str, _folder: str) -> TaskData:
    length, n_train, n_test = SIZES[size]
    kept, held = snippets.split(snippets.read())
    rng = np.random.default_rng(snippets.SEED)
    train, test = (_pairs(documents(side, length), n, rng) for side, n in ((kept, n_train), (held, n_test)))
    return TaskData(train, test, text_bytes.VOCABULARY, 2)


def documents(side: list[snippets.Snippet], length: int) -> list[NDArray[np.uint8]]:
    """The documents of each collection, ``(documents, length)`` tokens: sentences in order, joined and cut to
    ``length`` bytes."""
    result = []
    for collection in range(len(snippets.COLLECTIONS)):
        whole, text = [], b""
        for snippet in side:
            if snippet.collection == collection:
                text += snippet.text + b" "
                if len(text) > length:
                    whole.append(text[:length])
                    text = b""
        # Documents that agree in all they show would be one example with two numbers.
        unique = list({text_bytes.same_text(text): text for text in whole}.values())
        result.append(text_bytes.padded(unique, length)[0])
    return result


def _pairs(docs: list[NDArray[np.uint8]], n: int, rng: np.random.Generator) -> Split:
    """``n`` different pairs, or as many as can be balanced, shuffled."""
    alike = [(c, c) for c in range(len(docs))]
    unlike = list(combinations(range(len(docs)), 2))
    possible = min(
        *(len(alike) * len(docs[c]) * (len(docs[c]) - 1) // 2 for c, _ in alike),
        *(len(unlike) * len(docs[c]) * len(docs[d]) for c, d in unlike),
    )
    # A whole number of pairs for each of the kinds: 12 is a multiple of 4 and of 6.
    half = min(n // 2, possible) // 12 * 12
    if not half:
        raise TaskError("The fetched text has too few documents for pairs; `python -m lab fetch text` repairs it.")
    tokens, labels = [], []
    for kinds, label in ((alike, 1), (unlike, 0)):
        for c, d in kinds:
            for i, j in _draw(len(docs[c]), len(docs[d]), c == d, half // len(kinds), rng):
                pair = (docs[c][i], docs[d][j])
                tokens.append(np.stack(pair if rng.random() < 0.5 else pair[::-1]))
                labels.append(label)
    order = rng.permutation(len(labels))
    table = np.stack(tokens)[order]
    return Split(table, np.full(table.shape[:2], table.shape[2]), np.array(labels, dtype=np.int64)[order])


def _draw(first: int, second: int, alike: bool, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """``count`` different index pairs, unordered and of two different documents if both come from one collection."""
    drawn: dict[tuple[int, int], None] = {}
    while len(drawn) < count:
        i, j = int(rng.integers(first)), int(rng.integers(second))
        if alike and i == j:
            continue
        drawn[(min(i, j), max(i, j)) if alike else (i, j)] = None
    return list(drawn)
