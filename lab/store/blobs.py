"""Arrays on disk: safetensors files named by the sha256 of their bytes."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from lab.files import write_whole
from lab.store.notices import Notices

Arrays = dict[str, NDArray[Any]]


class Blobs:
    """``blobs/<2>/<sha256>.safetensors``. Files appear whole or not at all and are verified when read."""

    def __init__(self, root: Path, notices: Notices) -> None:
        self.root = root
        self._notices = notices

    def put(self, arrays: Mapping[str, NDArray[Any]], result: str) -> str:
        """Write arrays, with the run's result in the file's metadata; the name. Raises OSError."""
        # "C" order, because safetensors writes the buffer as it lies.
        data = save({name: np.asarray(array, order="C") for name, array in arrays.items()}, {"result": result})
        name = hashlib.sha256(data).hexdigest()
        path = self.path(name)
        with contextlib.suppress(OSError):
            if path.read_bytes() == data:  # a damaged file is written anew
                return name
        write_whole(path, data)
        return name

    def get(self, name: str) -> Arrays | None:
        """Read arrays back; None if the file is missing or, with a notice, unreadable or damaged."""
        data = self._verified(name)
        return None if data is None else load(data)

    def has(self, name: str) -> bool:
        """Whether the file is there, sound or not."""
        try:
            self.path(name).stat()
        except OSError as error:
            return error.errno not in (errno.ENOENT, errno.ENOTDIR)
        return True

    def results(self) -> Iterator[tuple[str, str]]:
        """Name and result of every sound file, the oldest first."""
        paths = self.root.glob("blobs/??/*.safetensors")
        for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name)):
            data = self._verified(path.stem) if is_name(path.stem) else None
            if data is not None:
                yield path.stem, _metadata(data).get("result", "")

    def path(self, name: str) -> Path:
        """Where a blob lies. Raises ValueError for anything but a sha256."""
        if not is_name(name):
            raise ValueError(f"{name!r} is not a sha256.")
        return self.root / "blobs" / name[:2] / f"{name}.safetensors"

    def _verified(self, name: str) -> bytes | None:
        path = self.path(name)
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._notices.add(f"The weights {name[:12]}… could not be read: {error}.")
            return None
        with contextlib.suppress(SafetensorError):
            if hashlib.sha256(data).hexdigest() == name:
                load(data)
                return data
        self._set_aside(path)
        return None

    def _set_aside(self, path: Path) -> None:
        aside = self.root / "aside" / path.name
        with contextlib.suppress(OSError):
            aside.parent.mkdir(mode=0o700, exist_ok=True)
            path.replace(aside)
        self._notices.add(f"The weights {path.stem[:12]}… were damaged and were set aside as {aside}.")


def _metadata(data: bytes) -> dict[str, str]:
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return dict(header.get("__metadata__", {}))


def is_name(name: object) -> bool:
    """Whether this is a sha256, in hexadecimal."""
    return isinstance(name, str) and re.fullmatch("[0-9a-f]{64}", name) is not None
