"""Text: is a sentence's sentiment positive or negative? Read byte by byte.

Sentences of movie reviews (``mini``), and of product reviews, editorials and tweets besides (``small``), each with
the mean sentiment that at least 20 people gave it, from -4 to 4. The label is its sign; ratings from -1 to 1 are left
out, because people disagree on them. The split is drawn once with a fixed seed; no product review or editorial has
sentences in both parts, and no sentence occurs twice. At full size the task is :mod:`lab.tasks.lra_text`. Example:
the bytes of "a warm and funny film", each plus one, label 1 (positive).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lab.tasks import fetch, snippets, text_bytes
from lab.tasks.base import Split, TaskData, TaskInfo

MARGIN = 1.0
"""Mean ratings from -MARGIN to MARGIN have no label."""

# size: (collections, longest sentence in bytes)
SIZES = {"mini": (("movies",), 128), "small": (snippets.COLLECTIONS, 256)}


class Text(text_bytes.ByteTask):
    """Sentiment of sentences."""

    info = TaskInfo(
        name="text",
        title="Text",
        description="Sentences of reviews, editorials and tweets, byte by byte: is the sentiment positive or negative? "
        f"Sentences whose mean rating lies within {MARGIN:g} of neutral are left out.",
        source=snippets.SOURCE,
        licence=snippets.LICENCE,
        sizes=tuple(SIZES),
        label_names=("negative", "positive"),
    )

    def load_available(self, size: str) -> TaskData:
        """The data of one size."""
        return _load(size, str(fetch.data_folder()))

    def unavailable(self, size: str) -> str:
        """Why a size cannot be loaded here; empty if it can."""
        if size == "full":
            return "text has no size 'full'; lra_text, which is the Long Range Arena's own Text task, has."
        return super().unavailable(size) or fetch.missing("text")


@lru_cache(maxsize=4)
def _load(size: str, _folder: str) -> TaskData:
    collections, longest = SIZES[size]
    seen: set[bytes] = set()

    def part(side: list[snippets.Snippet]) -> Split:
        texts, labels = [], []
        for snippet in side:
            # Cut first: two sentences that begin alike for `longest` bytes are one example to the model.
            text = snippet.text[:longest]
            same = text_bytes.same_text(text)
            wanted = snippets.COLLECTIONS[snippet.collection] in collections and abs(snippet.rating) > MARGIN
            if wanted and same not in seen:
                seen.add(same)
                texts.append(text)
                labels.append(int(snippet.rating > 0))
        return Split(*text_bytes.padded(texts, longest), np.array(labels, dtype=np.int64))

    kept, held = snippets.split(snippets.read())
    train, test = text_bytes.same_length(part(kept), part(held))
    return TaskData(train, test, text_bytes.VOCABULARY, 2)
