"""Your own data: a table of texts and labels, or a pair of NPY files, as a task like any other.

:func:`inspect` says how a file would be read, :func:`add` turns it into a task named ``own:`` and the first 16 hex
digits of the sha256 of what it became: a safetensors file in the data folder that holds the tokens, the labels and
the split, and is verified whenever it is read. The same file read the same way is the same task on every machine.
Texts are read as bytes; integers as token ids; floats as a signal, standardised with the training split's mean and
deviation.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.files import write_whole
from lab.tasks.base import TaskError
from lab.tasks.npy_files import read_npy
from lab.tasks.own_drafts import Draft, drafted_pair, drafted_table
from lab.tasks.own_task import DAMAGED, FORMAT, PREFIX, OwnTask, load_own, own_path
from lab.tasks.stratified import stratified
from lab.tasks.tables import Source, Table, kind_of, look, shown

MAX_CLASSES = 256


@dataclass(frozen=True)
class Report:
    """What became of a file: rows dropped by reason, the class balance, and remarks, one sentence each."""

    title: str
    rows: int
    dropped: dict[str, int]
    classes: dict[str, tuple[int, int]]
    remarks: tuple[str, ...]


def inspect(source: Source, name: str) -> Table:
    """How a file would be read: columns, guesses, first rows, number of rows, problems. Raises :class:`TaskError`."""
    if kind_of(name) != "npy":
        return look(source, name)
    array = read_npy(source, name, 2, "fiub")
    columns = tuple(f"token {i}" for i in range(1, min(array.shape[1], 8) + 1))
    preview = tuple(tuple(str(value) for value in row) for row in array[:8, :8].tolist())
    problems = ("The labels come in a second NPY file, one for each sequence.",)
    return Table(name, "npy", "", "", False, False, columns, preview, "", "", len(array), problems)


def add(
    source: Source,
    name: str,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    npy_labels: Source | None = None,
) -> str:
    """Make a task of a file and return its name; :func:`report` tells what became of the rows.

    ``name`` is the file's name, whose ending says the format; columns that are not given are guessed; ``npy_labels`` is
    the second file of an NPY pair. Raises :class:`TaskError`, one sentence, for a file that cannot be a task.
    """
    if kind_of(name) != "npy":
        return keep(drafted_table(source, name, text_column, label_column))
    if npy_labels is None:
        raise TaskError(
            f"{shown(name)} comes without labels; a second NPY file with a label for each is needed.", "file"
        )
    return keep(drafted_pair(source, name, npy_labels))


def report(name: str) -> Report:
    """What became of the file that a task was made of. Raises :class:`TaskError`."""
    info = OwnTask(name).info
    with contextlib.suppress(OSError, *DAMAGED):
        record = json.loads(own_path(name).with_suffix(".json").read_text(encoding="utf-8"))
        classes = {str(label): (int(train), int(test)) for label, (train, test) in record.pop("classes").items()}
        return Report(classes=classes, remarks=tuple(record.pop("remarks")), **record)
    return Report(info.title, 0, {}, {}, ("What was said when this file was added is no longer there.",))


# -- writing ------------------------------------------------------------------------------------------------------


def keep(draft: Draft) -> str:
    """Split a draft, write the task it makes and return its name. Raises :class:`TaskError`."""
    names = _label_names(draft)
    ids = {name: i for i, name in enumerate(names)}
    labels = np.array([ids[label] for label in draft.labels], dtype=np.int64)
    parts = stratified(draft.digests, labels, len(names))
    dropped = {**draft.dropped, "the same as another row, under another label": parts.contradicting}
    remarks = list(draft.remarks)
    if parts.repeated:
        remarks.append(f"{parts.repeated} rows repeat another; all copies of one are on one side of the split.")
    alone = "has one distinct example, too few for two splits; it is left out."
    remarks += [f"The class {names[label]!r} {alone}" for label in parts.alone]
    if parts.alone:
        dropped["of a class with one distinct example"] = (
            len(labels) - len(parts.train) - len(parts.test) - parts.contradicting
        )
    left = [label for label in range(len(names)) if label not in parts.alone]
    if len(left) < 2:
        raise TaskError(
            f"{shown(draft.title)} has {len(left)} class{'es' * (len(left) != 1)} with two distinct examples or more; "
            "at least two such classes are needed.",
            "label_column",
        )
    new = np.full(len(names), -1)
    new[left] = np.arange(len(left))
    order = np.concatenate([parts.train, parts.test])
    meta: dict[str, Any] = {
        "format": FORMAT,
        "kind": draft.kind,
        "labels": [names[label] for label in left],
        "train": len(parts.train),
        "vocabulary": draft.vocabulary,
    }
    arrays = {**draft.arrays(order), "labels": new[labels[order]].astype(np.int32)}
    if draft.kind == "signal":
        meta |= _standardise(arrays["tokens"], len(parts.train), draft.title)
    counts = [np.bincount(new[labels[part]], minlength=len(left)).tolist() for part in (parts.train, parts.test)]
    classes = {name: (train, test) for name, train, test in zip(meta["labels"], *counts, strict=True)}
    told = Report(draft.title, draft.rows, {k: v for k, v in dropped.items() if v}, classes, tuple(remarks))
    return _write(arrays, meta, told)


def _label_names(draft: Draft) -> list[str]:
    """The labels in order, numbers by value. Raises :class:`TaskError` unless there are 2 to MAX_CLASSES."""
    found = sorted(set(draft.labels))
    with contextlib.suppress(ValueError):
        found.sort(key=float)
    if not found:
        raise TaskError(f"{shown(draft.title)} has no row with a text and a label; {_said(draft.dropped)}.", "file")
    if len(found) == 1:
        raise TaskError(
            f"{shown(draft.title)} has one class, {found[0][:40]!r}; at least two are needed.", "label_column"
        )
    if len(found) > MAX_CLASSES:
        raise TaskError(
            f"{shown(draft.title)} has {len(found)} different labels; at most {MAX_CLASSES} are allowed, "
            "so another column may hold the labels.",
            "label_column",
        )
    return found


def _said(dropped: dict[str, int]) -> str:
    return ", ".join(f"{count} rows: {reason}" for reason, count in dropped.items()) or "no rows were found"


def _standardise(values: NDArray[np.float32], train: int, title: str) -> dict[str, float]:
    """Subtract the training mean and divide by the training deviation, in place; both."""
    mean = float(values[:train].mean(dtype=np.float64))
    deviation = float(values[:train].std(dtype=np.float64))
    if not deviation > 0:
        raise TaskError(f"{shown(title)} holds the same number everywhere; a signal was expected.", "file")
    values -= np.float32(mean)
    values /= np.float32(deviation)
    return {"mean": mean, "deviation": deviation}


def _write(arrays: dict[str, NDArray[Any]], meta: dict[str, Any], told: Report) -> str:
    from safetensors.numpy import save

    # One metadata entry, because the order of several in the file is not fixed.
    data = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {"task": json.dumps(meta)})
    name = PREFIX + hashlib.sha256(data).hexdigest()[:16]
    path = own_path(name)
    try:
        write_whole(path.with_suffix(".json"), json.dumps(asdict(told)).encode())
        write_whole(path, data)
    except OSError as error:
        raise TaskError(
            f"{path.parent} cannot be written ({error.strerror or error}); make room, or set LAB_DATA."
        ) from None
    load_own.cache_clear()
    return name
