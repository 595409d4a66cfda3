"""Where a long run stands, kept on disk, so that whoever trains it next goes on from there.

One safetensors file a pack, ``<sha256 of its configs' keys>.safetensors``: the arrays, and a JSON record in the metadata with the
version of the format, where the arrays were made, and a digest of it all. What is damaged, of another format, or made elsewhere is
removed and never used: elsewhere the bits would differ. Nothing here raises OSError: on a full disk a run goes on without a checkpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lab.files import write_whole

FORMAT = 1
"""Version of what a checkpoint holds. Raise it when another state, or another meaning of it, is written."""

SECONDS = 30.0
"""Least time between two checkpoints of a pack: a run that takes no longer writes none."""

KEPT_SECONDS = 7 * 24 * 3600
KEPT_BYTES = 2**32
"""Checkpoints of a folder that are older, or with the newer ones larger than this, are swept out."""

_OURS = re.compile(r"\.?[0-9a-f]{64}\.safetensors(\.\d+\.[0-9a-f]+)?")  # the second ending: a writer that was killed


@dataclass(frozen=True)
class Checkpoint:
    """The state of a pack: arrays by name, and a record that JSON can hold."""

    arrays: dict[str, NDArray[Any]]
    record: dict[str, Any]


class CheckpointFile:
    """The checkpoint of one pack, ``keys`` in order. ``origin`` says what the bits depend on: only its equal is read."""

    def __init__(self, folder: Path, keys: Sequence[str], origin: Mapping[str, str]) -> None:
        self.path = folder / f"{hashlib.sha256(' '.join(keys).encode()).hexdigest()}.safetensors"
        self._origin = dict(origin)
        sweep(folder)

    def read(self) -> Checkpoint | None:
        """The last state that was written; None if there is none, or, after removing it, none to be trusted."""
        try:
            with safe_open(self.path, framework="numpy") as file:
                metadata = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no mapping)
            return self._checked(arrays, metadata)
        except OSError:
            return None
        except (SafetensorError, ValueError, KeyError):
            self.remove()
            return None

    def write(self, checkpoint: Checkpoint) -> None:
        """Replace the file, whole or not at all; where it cannot be written, the one before stays."""
        arrays = {name: np.asarray(array, order="C") for name, array in checkpoint.arrays.items()}
        text = json.dumps({"format": FORMAT, "origin": self._origin, "record": checkpoint.record})
        with contextlib.suppress(OSError):
            write_whole(self.path, save(arrays, {"state": text, "sha256": _digest(arrays, text)}))
            sweep(self.path.parent, keep=self.path)

    def remove(self) -> None:
        """The pack is done, or the file is of no use."""
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _checked(self, arrays: dict[str, NDArray[Any]], metadata: Mapping[str, str]) -> Checkpoint:
        """Raises ValueError or KeyError for what this lab, on this machine, did not write."""
        text = metadata["state"]
        if metadata["sha256"] != _digest(arrays, text):
            raise ValueError("it is damaged")
        state = json.loads(text)
        if (state["format"], state["origin"]) != (FORMAT, self._origin):
            raise ValueError("it was made elsewhere")
        return Checkpoint(arrays, state["record"])


def sweep(folder: Path, keep: Path | None = None) -> None:
    """Remove checkpoints that are too old, then the oldest until the rest is small enough; never ``keep``, nor another's files."""
    found = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            with contextlib.suppress(OSError):  # it went in this moment
                status = path.stat()
                if _OURS.fullmatch(path.name) and stat.S_ISREG(status.st_mode):
                    found.append((path == keep, status.st_mtime, status.st_size, path))
    total, oldest = 0, time.time() - KEPT_SECONDS
    for kept, modified, size, path in sorted(found, reverse=True):
        total += size
        if not kept and (modified < oldest or total > KEPT_BYTES):
            with contextlib.suppress(OSError):
                path.unlink()


def _digest(arrays: Mapping[str, NDArray[Any]], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
