"""Token tables on disk: made once, checked when read, memory-mapped, so that no data set is held in memory whole.

A table is a folder ``tables/<name>-<digest>/`` in the data folder: one ``.npy`` file an array, never pickled, and
``table.json``, which says what the arrays were made from (the *identity*: a generator's parameters, or the source
files' sizes, times and hashes) and the sha256 of every file. It is written under another name and renamed when whole;
one that does not match its own hashes is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import DTypeLike, NDArray

from lab.tasks.base import TaskError


class Arrays(dict[str, NDArray[Any]]):
    """A table's arrays by name; ``digest`` tells their content apart from any other, on every machine."""

    digest: str = ""


Allocate = Callable[[str, tuple[int, ...], DTypeLike], NDArray[Any]]
"""``allocate(name, shape, dtype)``: a new array of zeros, in a file of the table that is being made."""

HEAD = 1 << 16
_verified: set[tuple[str, int, int]] = set()


def data_folder() -> Path:
    """``LAB_DATA``, or ``data`` in the lab's cache folder. It need not exist yet."""
    if named := os.environ.get("LAB_DATA"):
        return Path(named).absolute()
    return Path(os.environ.get("LAB_CACHE") or Path(__file__).parents[2] / "cache").absolute() / "data"


def cached_arrays(name: str, identity: Mapping[str, object], build: Callable[[Allocate], None]) -> Arrays:
    """The arrays that ``build`` fills, memory-mapped and read-only, from disk if they have been made before.

    ``identity`` is everything the arrays depend on, as JSON values; another identity is another table. One process
    builds, others wait. What ``build`` raises is passed on and leaves nothing behind. Raises :class:`TaskError` if
    the data folder cannot be written.
    """
    text = json.dumps(identity, sort_keys=True)
    folder = data_folder() / "tables" / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if (arrays := _read(folder, text)) is not None:
        return arrays
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(folder.parent / f".{name}.lock"):
            if (arrays := _read(folder, text)) is None:
                _build(folder, text, build)
                arrays = _read(folder, text)
    except OSError as error:
        raise TaskError(
            f"The token table {folder.name} could not be written ({error.strerror or error}); LAB_DATA names the folder to use."
        ) from None
    if arrays is None:
        raise TaskError(f"The token table {folder} does not read back as it was written; the disk may be damaged.")
    return arrays


def source_identity(paths: Iterable[Path]) -> dict[str, object]:
    """What tells one version of some files from another, cheaply: name, size, time, and the hash of both ends."""
    return {path.name: [path.stat().st_size, path.stat().st_mtime_ns, _ends(path)] for path in paths}


def _ends(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(HEAD))
        file.seek(max(0, path.stat().st_size - HEAD))
        digest.update(file.read(HEAD))
    return digest.hexdigest()


def _build(folder: Path, identity: str, build: Callable[[Allocate], None]) -> None:
    """Make the table beside its place, then rename it there. Under the lock, so leftovers are nobody's."""
    for leftover in folder.parent.glob(f".{folder.name}.*"):
        shutil.rmtree(leftover, ignore_errors=True)
    if folder.exists():
        shutil.rmtree(folder)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    temporary.mkdir(mode=0o700)
    made: dict[str, np.memmap[Any, Any]] = {}

    def allocate(name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        made[name] = np.lib.format.open_memmap(temporary / f"{name}.npy", mode="w+", dtype=np.dtype(dtype), shape=shape)
        return made[name]

    try:
        build(allocate)
        for array in made.values():
            array.flush()
        hashes = {name: _sha256(temporary / f"{name}.npy") for name in made}
        with (temporary / "table.json").open("x", encoding="utf-8") as file:
            json.dump({"identity": identity, "sha256": hashes}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _read(folder: Path, identity: str) -> Arrays | None:
    """The table's arrays; None if it is not there, or is not what it says it is."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        record = json.loads((folder / "table.json").read_text(encoding="utf-8"))
        if record["identity"] != identity:
            return None
        for name, digest in record["sha256"].items():
            path = folder / f"{name}.npy"
            stamp = (str(path), path.stat().st_size, path.stat().st_mtime_ns)
            if stamp not in _verified:
                if _sha256(path) != digest:
                    return None
                _verified.add(stamp)
        arrays = Arrays()
        for name in record["sha256"]:
            arrays[name] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        arrays.digest = short_digest(*(f"{name} {digest}" for name, digest in sorted(record["sha256"].items())))
        return arrays
    return None


def short_digest(*parts: str) -> str:
    """16 hex digits that tell these texts from others."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
