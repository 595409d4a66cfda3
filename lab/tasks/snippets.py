"""The four collections of Hutto and Gilbert's sentiment data, as fetched, and a split of them that shares nothing.

Each file is tab-separated without a header: id, mean rating from -4 (extremely negative) to 4 (extremely positive) by
at least 20 people, text. Sentences of one product review or one editorial have ids with a common first part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.tasks import fetch
from lab.tasks.base import TaskError
from lab.tasks.text_bytes import same_text

COLLECTIONS = ("movies", "products", "editorials", "tweets")
SEED = 20140601
HELD_OUT = 0.2
MAX_RATING = 4.0

SOURCE = (
    "C.J. Hutto and E. Gilbert, VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media Text, "
    "ICWSM 2014: sentences of movie reviews, product reviews, newspaper editorials and tweets, each rated by at least "
    "20 people, from the source distribution of vaderSentiment 3.3.2 on the Python package index"
)
LICENCE = "MIT (the distribution's); the sentences remain their authors', so the lab downloads them and holds no copy"


@dataclass(frozen=True)
class Snippet:
    """One sentence: its text in UTF-8, its mean rating, its collection, and the review or article it is from."""

    text: bytes
    rating: float
    collection: int
    document: str


def read() -> list[Snippet]:
    """All sentences, the first of each that are the same but for case and white space. Raises :class:`TaskError`."""
    seen: set[bytes] = set()
    snippets = []
    for index, collection in enumerate(COLLECTIONS):
        for number, line in enumerate(fetch.read("text", f"{collection}.tsv").splitlines(), 1):
            snippet = _snippet(line, index, f"{collection}.tsv, line {number}")
            same = same_text(snippet.text)
            if same and same not in seen:
                seen.add(same)
                snippets.append(snippet)
    return snippets


def _snippet(line: bytes, collection: int, where: str) -> Snippet:
    cells = line.split(b"\t")
    if len(cells) != 3:
        raise TaskError(f"{where}: {len(cells)} cells; id, mean rating and text were expected.")
    try:
        rating = float(cells[1])
    except ValueError:
        rating = float("nan")
    if not abs(rating) <= MAX_RATING:
        raise TaskError(f"{where}: the rating is {cells[1][:20]!r}; a number from -4 to 4 was expected.")
    document = f"{collection}/{cells[0].split(b'_')[0].decode('ascii', 'replace')}"
    return Snippet(cells[2].strip(), rating, collection, document)


def split(snippets: list[Snippet]) -> tuple[list[Snippet], list[Snippet]]:
    """Training and held-out sentences, shuffled with a fixed seed; no product review or editorial is in both."""
    documents: dict[str, list[Snippet]] = {}
    for snippet in snippets:
        documents.setdefault(snippet.document, []).append(snippet)
    names = list(documents)
    order = np.random.default_rng(SEED).permutation(len(names))
    held: list[Snippet] = []
    kept: list[Snippet] = []
    for index in order:
        part = held if len(held) < HELD_OUT * len(snippets) else kept
        part.extend(documents[names[index]])
    return kept, held
