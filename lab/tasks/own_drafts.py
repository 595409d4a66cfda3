"""From a file that somebody brings to sequences and labels that can be used, with a count of what was dropped."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.tasks import text_bytes
from lab.tasks.base import TaskError
from lab.tasks.npy_files import read_npy
from lab.tasks.own_task import MAX_TOKENS
from lab.tasks.tables import Source, look, read, shown

MAX_ROWS = 2_000_000
MAX_TEXT = 2**30
MAX_IDS = 65536
MAX_LABEL = 200
CHUNK = 65536


@dataclass
class Draft:
    """Sequences with labels, not yet split. ``kind`` is text (``texts``), ids or signal (``table``)."""

    title: str
    kind: str
    vocabulary: int
    rows: int = 0
    labels: list[str] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    table: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)))
    digests: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    dropped: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def arrays(self, order: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """The tokens of the rows in ``order``: a table, or all in a line and where each starts."""
        if self.kind != "text":
            return {"tokens": self.table[order]}
        lengths = [len(self.texts[i]) for i in order]
        flat = text_bytes.to_tokens(b"".join(self.texts[i] for i in order))
        return {"tokens": flat, "starts": np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)}


def drafted_table(source: Source, name: str, text_column: str | None, label_column: str | None) -> Draft:
    """The texts and labels of a table. Raises :class:`TaskError`."""
    table = look(source, name)
    columns = (text_column or table.text_column, label_column or table.label_column)
    for column, what in zip(columns, ("text_column", "label_column"), strict=True):
        if column not in table.columns:
            have = ", ".join(table.columns[:20])
            raise TaskError(f"{shown(name)} has no column {column[:60]!r}; it has {have}.", what)
    if columns[0] == columns[1]:
        raise TaskError(f"Text and label are both the column {columns[0]!r}; they must be two.", "label_column")
    draft = Draft(shown(name)[1:-1], "text", text_bytes.VOCABULARY, remarks=list(table.problems))
    dropped: Counter[str] = Counter()
    first: dict[str, int] = {}
    digests, cut, size = [], 0, 0
    for number, cells in read(source, table, columns):
        draft.rows += 1
        if draft.rows > MAX_ROWS:
            raise TaskError(f"{shown(name)} has more than {MAX_ROWS} rows; at most as many are allowed.", "file")
        reason = _useless(cells)
        if reason:
            dropped[reason] += 1
            first.setdefault(reason, number)
            continue
        text, digest, longer = _kept(cells[0])
        digests.append(digest)
        cut += longer
        size += len(text)
        if size > MAX_TEXT:
            raise TaskError(
                f"{shown(name)} holds more than {MAX_TEXT} bytes of text; at most as many are allowed.", "file"
            )
        draft.texts.append(text)
        draft.labels.append(_label(cells[1]))
    if dropped[WIDTH] > draft.rows / 2:
        raise TaskError(
            f"{shown(name)}, line {first[WIDTH]}: most rows do not have {len(table.columns)} cells as the first has; "
            f"cells between {table.separator!r} were expected.",
            "file",
        )
    draft.dropped = {f"{reason} (first in line {first[reason]})": count for reason, count in dropped.items()}
    draft.digests = np.array(digests, dtype=np.uint64)
    if cut:
        draft.remarks.append(f"{cut} texts are longer than {MAX_TOKENS} bytes and were cut.")
    return draft


@lru_cache(maxsize=64)  # a text that comes a million times is looked at once
def _kept(cell: str) -> tuple[bytes, int, bool]:
    """What is kept of a text, a hash of the whole of it, and whether the two differ."""
    text = cell.encode("utf-8", "replace")
    digest = hashlib.blake2b(text_bytes.same_text(text), digest_size=8).digest()
    return text[:MAX_TOKENS], int.from_bytes(digest, "little"), len(text) > MAX_TOKENS


WIDTH = "wrong number of cells"


def _useless(cells: list[str]) -> str:
    if len(cells) != 2:
        return WIDTH
    if not cells[0]:
        return "empty text"
    return "" if cells[1] and cells[1].lower() != "nan" else "label missing"


def _label(cell: str) -> str:
    """A label as it is shown; 1.0 and 1 are one label."""
    if len(cell) > MAX_LABEL:
        cell = cell[: MAX_LABEL - 1] + "…"
    whole = cell.partition(".")
    return whole[0] if whole[0].lstrip("-").isdecimal() and whole[1] and not whole[2].strip("0") else cell


def drafted_pair(source: Source, name: str, labels: Source) -> Draft:
    """Sequences and labels from two NPY files. Raises :class:`TaskError`."""
    array = read_npy(source, name, 2, "fiub")
    given = read_npy(labels, "the labels' .npy", 1, "fiubUS")
    if len(array) != len(given):
        raise TaskError(
            f"{shown(name)} has {len(array)} sequences and {len(given)} labels; as many were expected.", "file"
        )
    if len(array) > MAX_ROWS:
        raise TaskError(f"{shown(name)} has {len(array)} rows; at most {MAX_ROWS} are allowed.", "file")
    draft = Draft(shown(name)[1:-1], "signal" if array.dtype.kind == "f" else "ids", 0, rows=len(array))
    if array.shape[1] > MAX_TOKENS:
        draft.remarks.append(f"The sequences have {array.shape[1]} tokens; they were cut to {MAX_TOKENS}.")
        array = array[:, :MAX_TOKENS]
    missing = (
        np.isnan(given) if given.dtype.kind == "f" else np.array([not str(label).strip() for label in given.tolist()])
    )
    if missing.any():
        draft.dropped["label missing"] = int(missing.sum())
    kept = np.flatnonzero(~missing)
    if given.dtype.kind == "f" and (given[kept] % 1 != 0).any():
        raise TaskError("The labels' .npy holds fractions; whole numbers or words were expected.", "file")
    draft.labels = [_label(_word(label)) for label in given[kept].tolist()]
    draft.table, draft.vocabulary = _signal(array, kept, name) if draft.kind == "signal" else _ids(array, kept, name)
    rows = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in draft.table)
    draft.digests = np.frombuffer(b"".join(rows), dtype="<u8").astype(np.uint64)
    return draft


def _word(label: Any) -> str:
    return label.decode("utf-8", "replace").strip() if isinstance(label, bytes) else str(label).strip()


def _signal(array: NDArray[Any], kept: NDArray[np.int64], name: str) -> tuple[NDArray[np.float32], int]:
    table = np.empty((len(kept), array.shape[1]), dtype=np.float32)
    for start in range(0, len(kept), CHUNK):
        rows = array[kept[start : start + CHUNK]].astype(np.float64)
        # Beyond 1e30 the squares that a deviation needs leave float32.
        bad = ~(np.abs(rows) <= 1e30)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            where = f"sequence {kept[start + row] + 1}, token {column + 1}"
            raise TaskError(
                f"{shown(name)} holds {rows[row, column]} in {where}; finite numbers up to 1e30 were expected.", "file"
            )
        table[start : start + CHUNK] = rows
    return table, 0


def _ids(array: NDArray[Any], kept: NDArray[np.int64], name: str) -> tuple[NDArray[Any], int]:
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= MAX_IDS:
        raise TaskError(
            f"{shown(name)} holds integers from {low} to {high}; ids from 0 to {MAX_IDS - 1} were expected, "
            "or floats for a signal.",
            "file",
        )
    return array[kept].astype(np.uint8 if high < 256 else np.int32), high + 1
