"""Sentences for people about what has been set aside."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

KEPT = 50
MAX_LINE = 1000
MAX_BYTES = 100_000
"""The file's size; its older half goes when it is reached."""


class Notices:
    """The last sentences in ``aside/notices.txt``, and those that could not be written there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unwritten: dict[str, None] = {}

    def add(self, sentence: str) -> None:
        """Append one sentence, unless it is there already."""
        line = " ".join(sentence.encode("utf-8", "replace").decode().split())[:MAX_LINE]
        lines = self._written()
        if line in lines or line in self._unwritten:
            return
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.path.exists() and self.path.stat().st_size > MAX_BYTES - 4 * MAX_LINE:
                self._shorten(lines)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError:
            self._unwritten[line] = None
            for old in list(self._unwritten)[:-KEPT]:
                del self._unwritten[old]

    def all(self) -> list[str]:
        """The last :data:`KEPT` sentences, oldest first, each once."""
        return list(dict.fromkeys([*self._written(), *self._unwritten]))[-KEPT:]

    def _written(self) -> list[str]:
        with contextlib.suppress(OSError), self.path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - MAX_BYTES))  # of a file that was let grow before
            return file.read().decode("utf-8", "replace").splitlines()
        return []

    def _shorten(self, lines: list[str]) -> None:
        kept: list[str] = []
        room = MAX_BYTES // 2
        for line in reversed(lines):
            room -= len(line.encode()) + 1
            if room < 0:
                break
            kept.insert(0, line)
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.{os.urandom(4).hex()}")
        temporary.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        temporary.replace(self.path)
