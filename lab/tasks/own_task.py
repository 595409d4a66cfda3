"""Tasks of somebody's own data, read from the safetensors files that :mod:`lab.tasks.own_data` writes.

``own/<16 hex digits>.safetensors`` in the data folder is named by the sha256 of its bytes, which is checked whenever
its arrays are read. It holds ``tokens`` (a table, or all in a line with ``starts``) and ``labels``, training examples
first; its metadata say the rest. The ``.json`` beside it is for people: the file's name and what became of its rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.files import write_whole
from lab.tasks import text_bytes
from lab.tasks.base import Split, Task, TaskData, TaskError, TaskInfo
from lab.tasks.cache import data_folder

PREFIX = "own:"
FORMAT = 1
KINDS = {"text": "Texts, read byte by byte", "ids": "Sequences of token ids", "signal": "Signals"}
DAMAGED = (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError)
"""What reading a damaged or planted file can raise, beside OSError."""

MAX_HEADER = 2**20
MAX_TOKENS = 4096
MAX_TABLE_TOKENS = 2**28
"""Tokens of a split at full size, padding included; sequences are cut so that no more are needed."""

SIZES: dict[str, tuple[int, int | None, int | None]] = {
    "mini": (128, 4000, 1000),
    "small": (512, 20_000, 2000),
    "full": (MAX_TOKENS, None, None),
}


def own_names() -> list[str]:
    """The names of the reader's own tasks on this machine, the newest first."""
    files = []
    with contextlib.suppress(OSError):  # a folder that may not be looked at
        for path in (data_folder() / "own").glob("*.safetensors"):
            with contextlib.suppress(OSError):  # removed meanwhile
                if re.fullmatch("[0-9a-f]{16}", path.stem):
                    files.append((-path.stat().st_mtime_ns, path.stem))
    return [PREFIX + stem for _, stem in sorted(files)]


def own_path(name: str) -> Path:
    """Where a task lies. Raises :class:`TaskError` for anything but ``own:`` and 16 hex digits."""
    if not re.fullmatch(PREFIX + "[0-9a-f]{16}", name):
        raise TaskError(f"task is {name[:60]!r}; a task of your own data is {PREFIX} and 16 hex digits.", "task")
    return data_folder() / "own" / f"{name.removeprefix(PREFIX)}.safetensors"


def read_own(name: str) -> bytes | None:
    """The file of a task, as it lies here, for a machine that lacks it; None for any other task, or without the file."""
    if name.startswith(PREFIX):
        with contextlib.suppress(OSError, TaskError):
            return own_path(name).read_bytes()
    return None


def receive_own(name: str, data: bytes) -> None:
    """Put the file of a task that another machine has sent into this machine's data folder, unless it is there already.

    Only bytes whose sha256 begins as the name says are written; raises :class:`TaskError` for others, and where there is no room.
    """
    path = own_path(name)
    with contextlib.suppress(OSError):
        if _is_named_by(path.read_bytes(), path):
            return
    if not _is_named_by(data, path):
        raise TaskError(f"The data that was sent for {name} is not what its name says; add its file again.", "task")
    try:
        write_whole(path, data)
    except OSError as error:
        raise TaskError(
            f"{path.parent} cannot be written ({error.strerror or error}); make room, or set LAB_DATA."
        ) from None


def _is_named_by(data: bytes, path: Path) -> bool:
    return hashlib.sha256(data).hexdigest()[:16] == path.stem


class OwnTask(Task):
    """A task of somebody's own data, read from the data folder."""

    def __init__(self, name: str) -> None:
        self._meta = _header(name)
        self.info = TaskInfo(
            name=name,
            title=_title(name),
            description=f"{KINDS[self._meta['kind']]}: which of {len(self._meta['labels'])} classes? A fifth of each class is held out.",
            source="your own data",
            licence="yours",
            sizes=tuple(SIZES),
            label_names=tuple(label[:80] for label in self._meta["labels"]),
        )

    def load_available(self, size: str) -> TaskData:
        """The data of one size: a prefix of both splits, the sequences cut. Raises :class:`TaskError`."""
        return load_own(str(own_path(self.info.name)), size)

    def encode(self, text: str) -> NDArray[Any]:
        """Tokens of a text, or of numbers with spaces or commas between. Raises :class:`TaskError`."""
        if self._meta["kind"] == "text":
            return text_bytes.encode(text)
        try:
            values = np.array([float(word) for word in text.replace(",", " ").split()])
        except ValueError:
            values = np.array([])
        if self._meta["kind"] == "signal" and len(values) and np.isfinite(values).all():
            return ((values - self._meta["mean"]) / self._meta["deviation"]).astype(np.float32)
        top = self._meta["vocabulary"] - 1
        if self._meta["kind"] == "ids" and len(values) and ((values >= 0) & (values <= top) & (values % 1 == 0)).all():
            return values.astype(np.int32)
        wanted = "finite numbers" if self._meta["kind"] == "signal" else f"whole numbers from 0 to {top}"
        raise TaskError(f"The input is {text[:40]!r}; it must be {wanted} with spaces between.", "text")

    def decode(self, tokens: NDArray[Any]) -> list[str]:
        """The character, id or value of each token."""
        if self._meta["kind"] == "text":
            return text_bytes.decode(tokens)
        if self._meta["kind"] == "ids":
            return [str(token) for token in tokens.tolist()]
        return [f"{value * self._meta['deviation'] + self._meta['mean']:.4g}" for value in tokens.tolist()]

    def shown(self, tokens: NDArray[Any]) -> str:
        """The text, or the ids or values with spaces between."""
        return text_bytes.shown(tokens) if self._meta["kind"] == "text" else super().shown(tokens)


def _title(name: str) -> str:
    with contextlib.suppress(OSError, *DAMAGED):
        return str(json.loads(own_path(name).with_suffix(".json").read_text(encoding="utf-8"))["title"])
    return name


def _header(name: str) -> dict[str, Any]:
    """What a task says of itself, without reading its arrays. Raises :class:`TaskError`."""
    path = own_path(name)
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            return _meta_of(file.read(size) if size < MAX_HEADER else b"")
    except FileNotFoundError:
        raise TaskError(f"task is {name!r}; that data is not on this machine, so add its file again.", "task") from None
    except (OSError, *DAMAGED):
        raise TaskError(f"{path} is damaged; add the file it was made of again.", "task") from None


def _meta_of(header: bytes) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads(json.loads(header)["__metadata__"]["task"])
    labels, signal = meta["labels"], meta["kind"] == "signal"
    numbers = [meta["train"], meta["vocabulary"], *([meta["mean"], meta["deviation"]] if signal else [])]
    if (
        meta["format"] != FORMAT
        or meta["kind"] not in KINDS
        or not (isinstance(labels, list) and len(labels) > 1 and all(isinstance(label, str) for label in labels))
        or not all(isinstance(number, int | float) and np.isfinite(float(number)) for number in numbers)
        or not all(isinstance(number, int) for number in numbers[:2])
    ):
        raise ValueError(meta["format"])
    return meta


@lru_cache(maxsize=2)
def load_own(file: str, size: str) -> TaskData:
    """The arrays of one file, verified, at one size. Raises :class:`TaskError`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = Path(file)
    try:
        data = path.read_bytes()
        if not _is_named_by(data, path):
            raise ValueError(path.stem)
        arrays = load(data)
        meta = _meta_of(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return _data(arrays, meta, size)
    except TaskError:
        raise
    except (OSError, SafetensorError, *DAMAGED):
        raise TaskError(f"{path} is damaged; add the file it was made of again.", "task") from None


def _data(arrays: dict[str, NDArray[Any]], meta: dict[str, Any], size: str) -> TaskData:
    """The arrays at one size. Raises one of :data:`DAMAGED` where they do not fit together."""
    longest, most_train, most_test = SIZES[size]
    train = _rows(arrays, slice(0, meta["train"]), most_train, longest)
    test = _rows(arrays, slice(meta["train"], None), most_test, longest)
    labels = arrays["labels"]
    if not len(train) or not len(test) or not 0 <= labels.min() <= labels.max() < len(meta["labels"]):
        raise ValueError("labels")
    test = _unseen(train, test, arrays, size)
    train, test = text_bytes.same_length(train, test)
    return TaskData(train, test, meta["vocabulary"], len(meta["labels"]))


def _rows(arrays: dict[str, NDArray[Any]], part: slice, most: int | None, longest: int) -> Split:
    """The first ``most`` examples of a part, cut to ``longest`` tokens and padded."""
    labels = arrays["labels"][part][:most].astype(np.int64)
    tokens = arrays["tokens"]
    longest = min(longest, max(1, MAX_TABLE_TOKENS // len(labels)))
    if tokens.ndim == 2:
        rows = tokens[part][:most, :longest]
        return Split(rows, np.full(len(rows), rows.shape[1]), labels)
    starts = arrays["starts"][part.start : None if part.stop is None else part.stop + 1][: len(labels) + 1]
    lengths = np.minimum(np.diff(starts), longest)
    table = np.zeros((len(labels), int(lengths.max())), dtype=tokens.dtype)
    for row, start, length in zip(table, starts.tolist(), lengths.tolist(), strict=False):
        row[:length] = tokens[start : start + length]
    return Split(table, lengths, labels)


def _unseen(train: Split, test: Split, arrays: dict[str, NDArray[Any]], size: str) -> Split:
    """The held-out split without examples that the cut has made equal to a training example."""
    whole = arrays["tokens"].shape[1] if arrays["tokens"].ndim == 2 else int(np.diff(arrays["starts"]).max())
    if whole <= train.tokens.shape[1]:
        return test
    seen = {row[:length].tobytes() for row, length in zip(train.tokens, train.lengths.tolist(), strict=True)}
    rows = zip(test.tokens, test.lengths.tolist(), strict=True)
    fresh = np.array([row[:length].tobytes() not in seen for row, length in rows])
    if not fresh.any():
        raise TaskError(
            f"At size {size!r} every held-out sequence has the first {train.tokens.shape[1]} tokens of a training one; "
            "choose a larger size.",
            "size",
        )
    return Split(test.tokens[fresh], test.lengths[fresh], test.labels[fresh])
