"""Retrieval as the Long Range Arena has it: does one paper of the ACL Anthology Network cite the other?

Reads ``new_aan_pairs.{train,eval,test}.tsv`` of the release (``tsv_data/``): no header; label (``0.0`` or ``1.0``),
two ids, two texts. Each text is cut to 4000 bytes. The pairs are streamed, a line in memory at a time, into token
tables on the disk, which are kept and memory-mapped. Example: two papers' bytes, each plus one, label 1 (linked by a
citation).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from lab.tasks import text_bytes
from lab.tasks.base import Split, TaskData, TaskError, TaskInfo
from lab.tasks.cache import Allocate, cached_arrays, short_digest, source_identity
from lab.tasks.lra_release import find_files, missing_file, read_tsv

FOLDERS = ("tsv_data", "")
FILES = ("new_aan_pairs.train.tsv", "new_aan_pairs.eval.tsv", "new_aan_pairs.test.tsv")
COLUMNS = 5
LONGEST = 4000
MAX_LINE = 64 * 2**20
LABELS = {b"0.0": 0, b"1.0": 1, b"0": 0, b"1": 1}


class LraRetrieval(text_bytes.ByteTask):
    """Pairs of papers."""

    info = TaskInfo(
        name="lra_retrieval",
        title="Retrieval (LRA: AAN)",
        description=f"Two papers, the first {LONGEST} bytes of each, in two towers that meet only at the classifier: "
        "does one cite the other?",
        source="D.R. Radev et al., The ACL Anthology Network corpus, in pairs by the Long Range Arena "
        "(arXiv 2011.04006); the reader's own copy",
        licence="the corpus's own terms; the lab holds no copy",
        sizes=("full",),
        label_names=("not linked", "linked by a citation"),
    )

    def load_available(self, size: str) -> TaskData:
        """The data of one size."""
        train, _, test = find_files(FOLDERS, FILES)
        return _load(train, test, str(source_identity((train, test))))

    def unavailable(self, size: str) -> str:
        """Why a size cannot be loaded here; empty if it can."""
        if size in ("mini", "small"):
            return f"lra_retrieval has no size {size!r}; retrieval, on pairs from four collections of sentences, has."
        return super().unavailable(size) or missing_file(FOLDERS, FILES)


@lru_cache(maxsize=1)
def _load(train: Path, test: Path, _identity: str) -> TaskData:
    (kept, kept_digest), (held, held_digest) = _split(train), _split(test)
    return TaskData(kept, held, text_bytes.VOCABULARY, 2, short_digest(kept_digest, held_digest))


def _split(path: Path) -> tuple[Split, str]:
    """The pairs of one file, memory-mapped, and the digest of their content."""

    def build(allocate: Allocate) -> None:
        # Once through for the number of lines, and all complaints, before anything is written.
        n = sum(1 for _ in _pairs(path))
        if not n:
            raise TaskError(f"{path}, line 1: the file is empty; {COLUMNS} fields between tabs were expected.")
        tokens = allocate("tokens", (n, 2, LONGEST), np.uint8)
        lengths = allocate("lengths", (n, 2), np.int64)
        labels = allocate("labels", (n,), np.int64)
        for row, (label, texts) in enumerate(_pairs(path)):
            labels[row] = label
            for tower, text in enumerate(texts):
                tokens[row, tower, : len(text)] = text_bytes.to_tokens(text)
                lengths[row, tower] = len(text)

    identity = {"longest": LONGEST, **source_identity([path])}
    arrays = cached_arrays("lra_retrieval", identity, build)
    return Split(arrays["tokens"], arrays["lengths"], arrays["labels"]), arrays.digest


def _pairs(path: Path) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
    """Label and both texts of every line, cut. Raises :class:`TaskError` with file, line and what was expected."""
    for number, (label, _, _, first, second) in read_tsv(path, COLUMNS, max_line=MAX_LINE):
        if label not in LABELS:
            raise TaskError(f"{path}, line {number}: the label is {label[:20]!r}; 0.0 or 1.0 was expected.")
        if not first or not second:
            raise TaskError(f"{path}, line {number}: one of the texts is empty; two texts were expected.")
        yield LABELS[label], (first[:LONGEST], second[:LONGEST])
