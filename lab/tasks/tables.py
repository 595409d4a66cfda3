"""A table that somebody brings: CSV, TSV, JSON lines or Parquet, read as a stream of texts and labels.

The file is never believed: sizes are checked before anything is allocated, nothing is unpickled, a cell is text and
stays text. Raises :class:`TaskError` that names the file, the line where there is one, and what was expected.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath
from typing import IO, Any

from lab.tasks.base import TaskError
from lab.tasks.guessing import guess_columns, is_heading

MAX_BYTES = 2**30
MAX_COLUMNS = 1000
MAX_CELL = 2**20
SAMPLE = 1000
"""Rows that are looked at to guess the columns."""

KINDS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "json lines",
    ".ndjson": "json lines",
    ".json": "json lines",
    ".parquet": "parquet",
    ".npy": "npy",
}
Source = bytes | Path
Row = tuple[int, list[str]]
"""The number of a row's first line, from 1, and its cells; an empty cell is a missing one."""


@dataclass(frozen=True)
class Table:
    """How a file can be read: its columns, the first rows, and which column is likely what."""

    name: str
    kind: str
    encoding: str
    separator: str
    quoted: bool
    heading: bool
    columns: tuple[str, ...]
    preview: tuple[tuple[str, ...], ...]
    text_column: str
    label_column: str
    rows: int
    problems: tuple[str, ...]


def shown(name: str) -> str:
    """A file's name as it may stand in a sentence: without folders, short, on one line."""
    name = re.split(r"[/\\]", name)[-1]
    return repr(name if len(name) <= 60 else name[:57] + "…")


def kind_of(name: str) -> str:
    """Which format a file's name promises. Raises :class:`TaskError`."""
    kind = KINDS.get(PurePath(name).suffix.lower())
    if kind is None:
        raise TaskError(f"{shown(name)} has none of the endings {', '.join(KINDS)}; one of them is needed.", "file")
    return kind


@contextmanager
def opened(source: Source, name: str) -> Iterator[IO[bytes]]:
    """The file, open, its size checked. Raises :class:`TaskError`."""
    try:
        file: IO[bytes] = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
    except OSError as error:
        raise TaskError(f"{shown(name)} cannot be opened ({error.strerror or error}).", "file") from None
    with file:
        if not size:
            raise TaskError(f"{shown(name)} is empty; a table with texts and labels was expected.", "file")
        if size > MAX_BYTES:
            raise TaskError(f"{shown(name)} has {size} bytes; at most {MAX_BYTES} are allowed.", "file")
        yield file


def look(source: Source, name: str) -> Table:
    """How a table file is best read. Raises :class:`TaskError` if it cannot be."""
    kind = kind_of(name)
    if kind == "parquet":
        table = Table(name, kind, "", "", False, True, _parquet_columns(source, name), (), "", "", 0, ())
    else:
        encoding, problems = _encoding(source, name)
        table = Table(name, kind, encoding, "", False, True, (), (), "", "", 0, problems)
        table = _json_layout(source, table) if kind == "json lines" else _cell_layout(source, table)
    if len(table.columns) < 2:
        raise TaskError(f"{shown(name)} has one column; two are needed, a text and a label.", "file")
    if len(table.columns) > MAX_COLUMNS:
        raise TaskError(f"{shown(name)} has {len(table.columns)} columns; at most {MAX_COLUMNS} are allowed.", "file")
    rows = [cells for _, cells in islice(read(source, table, table.columns), SAMPLE)]
    full = [cells for cells in rows if len(cells) == len(table.columns)]
    if not full:
        raise TaskError(f"{shown(name)} has no row with {len(table.columns)} cells; one a column was expected.", "file")
    text, label = guess_columns(table.columns, full)
    preview = tuple(tuple(cell[:200] for cell in cells) for cells in full[:8])
    # A whole pass, so that what is wrong far down is said before anything is chosen.
    count = sum(1 for _ in read(source, table, (text, label)))
    return _with(table, preview=preview, text_column=text, label_column=label, rows=count)


def read(source: Source, table: Table, columns: Sequence[str]) -> Iterator[Row]:
    """The rows' cells in ``columns``, in that order; a row of another width comes as it is, for the caller to count."""
    if table.kind == "parquet":
        yield from _parquet_rows(source, table, columns)
    elif table.kind == "json lines":
        for number, record in _records(source, table):
            yield number, [_cell(record.get(column)) for column in columns]
    else:
        indices = [table.columns.index(column) for column in columns]
        for number, cells in islice(_cells(source, table), int(table.heading), None):
            whole = len(cells) == len(table.columns)
            yield number, [cells[i].strip() for i in indices] if whole else [""] * (len(columns) + 1)


# -- encodings ----------------------------------------------------------------------------------------------------

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def _encoding(source: Source, name: str) -> tuple[str, tuple[str, ...]]:
    """The encoding of the whole file, and a remark where it is a guess."""
    with opened(source, name) as file:
        head = file.read(4096)
        encoding = next((found for mark, found in _MARKS if head.startswith(mark)), "utf-8")
        if encoding == "utf-8" and b"\0" in head:
            raise TaskError(f"{shown(name)} holds NUL bytes, so it is not text; save it as UTF-8.", "file")
        file.seek(0)
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            while chunk := file.read(2**20):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            if encoding != "utf-8":
                raise TaskError(f"{shown(name)} begins as {encoding} and is not; save it as UTF-8.", "file") from None
            return "latin-1", (
                f"{shown(name)} is not UTF-8; it is read as Latin-1, so look at the letters with accents.",
            )
    return encoding, ()


@contextmanager
def _text(source: Source, table: Table) -> Iterator[io.TextIOWrapper]:
    with opened(source, table.name) as file, io.TextIOWrapper(file, encoding=table.encoding, newline="") as text:
        yield text


# -- comma and tab separated --------------------------------------------------------------------------------------


def _cell_layout(source: Source, table: Table) -> Table:
    with _text(source, table) as text:
        sample = text.read(2**18)
    lines = [line for line in sample.splitlines() if line.strip()]
    if not lines:
        raise TaskError(f"{shown(table.name)} holds only empty lines; a table was expected.", "file")
    separator = "\t"
    if table.kind == "csv":
        separator = max(",;\t|", key=lambda mark: (lines[0].count(mark) > 0, sum(mark in line for line in lines[:50])))
    # A quotation mark that opens a cell and closes none is part of the text, as in most tab-separated files.
    cells = [cell for line in lines[:SAMPLE] for cell in line.split("\t")]
    opening = [cell for cell in cells if cell.startswith('"')]
    quoted = separator != "\t" or all(len(cell) > 1 and cell.endswith('"') for cell in opening)
    table = _with(table, separator=separator, quoted=quoted)
    rows = [cells for _, cells in islice(_cells(source, table), 200)]
    if not rows:
        raise TaskError(f"{shown(table.name)} holds only empty cells; a table was expected.", "file")
    heading = is_heading(rows)
    columns = rows[0] if heading else [f"column {i}" for i in range(1, len(rows[0]) + 1)]
    names = [column.strip() or f"column {i}" for i, column in enumerate(columns, 1)]
    if len(set(names)) < len(names):
        names = [f"{column} ({i})" for i, column in enumerate(names, 1)]
    return _with(table, heading=heading, columns=tuple(names))


def _cells(source: Source, table: Table) -> Iterator[Row]:
    quoting: Any = csv.QUOTE_MINIMAL if table.quoted else csv.QUOTE_NONE
    with _text(source, table) as text:
        # The limit is the process's; a cell beyond it is an error below.
        csv.field_size_limit(MAX_CELL)
        reader = csv.reader(text, delimiter=table.separator, quoting=quoting, strict=table.quoted)
        line = 1
        try:
            for cells in reader:
                if any(cell.strip() for cell in cells) or len(cells) > 1:
                    yield line, cells
                line = reader.line_num + 1
        except csv.Error as error:
            what = f"a cell is longer than {MAX_CELL} characters" if "field larger" in str(error) else str(error)
            raise TaskError(
                f"{shown(table.name)}, line {line}: {what}; cells between {table.separator!r} were expected.", "file"
            ) from None


# -- JSON lines ---------------------------------------------------------------------------------------------------


def _json_layout(source: Source, table: Table) -> Table:
    columns: dict[str, None] = {}
    for _, record in islice(_records(source, table), SAMPLE):
        columns |= dict.fromkeys(record)
    return _with(table, columns=tuple(columns))


def _records(source: Source, table: Table) -> Iterator[tuple[int, dict[str, Any]]]:
    with _text(source, table) as text:
        number = 0
        while line := text.readline(MAX_CELL * 4):
            number += 1
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict):
                where = f"{shown(table.name)}, line {number}:"
                raise TaskError(f"{where} it is not one JSON object; an object on each line was expected.", "file")
            # Only an escape can be half a surrogate pair: the text itself has been decoded.
            yield number, {_whole(key): value for key, value in record.items()} if "\\u" in line else record


def _whole(text: str) -> str:
    """A text without lone halves of surrogate pairs, which can be written in JSON and shown nowhere."""
    return text.encode("utf-8", "replace").decode()


def _cell(value: Any) -> str:
    """A JSON or Parquet value as a cell."""
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, str):
        return _whole(value).strip()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)


# -- Parquet ------------------------------------------------------------------------------------------------------


def _parquet_columns(source: Source, name: str) -> tuple[str, ...]:
    with _parquet(source, name) as file:
        return tuple(dict.fromkeys(file.schema_arrow.names))


def _parquet_rows(source: Source, table: Table, columns: Sequence[str]) -> Iterator[Row]:
    wanted = list(dict.fromkeys(columns))
    # Repeated values stay one value: a small file may hold a long text a million times.
    with _parquet(source, table.name, wanted) as file:
        number = 1
        for batch in file.iter_batches(batch_size=4096, columns=wanted):
            found = {column: _values(batch.column(column)) for column in wanted}
            for row in range(batch.num_rows):
                yield number, [found[column](row) for column in columns]
                number += 1


def _values(array: Any) -> Any:
    """A function from a row of an Arrow array to its cell."""
    if hasattr(array, "dictionary"):
        words = [_cell(value) for value in array.dictionary.to_pylist()]
        places = array.indices.to_pylist()
        return lambda row: "" if places[row] is None else words[places[row]]
    values = array.to_pylist()
    return lambda row: _cell(values[row])


@contextmanager
def _parquet(source: Source, name: str, dictionaries: list[str] | None = None) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    with opened(source, name) as raw:
        try:
            file = parquet.ParquetFile(raw, read_dictionary=dictionaries)
            unpacked = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
            if unpacked > 4 * MAX_BYTES:
                raise TaskError(
                    f"{shown(name)} unpacks to {unpacked} bytes; at most {4 * MAX_BYTES} are allowed.", "file"
                )
            yield file
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).splitlines()[0][:200]
            raise TaskError(f"{shown(name)} cannot be read as Parquet ({reason}).", "file") from None


def _with(table: Table, **changes: Any) -> Table:
    return Table(**{**{name: getattr(table, name) for name in Table.__dataclass_fields__}, **changes})
