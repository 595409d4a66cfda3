"""Sentences for people about what has been set aside."""

from __future__ import annotations

import contextlib
from pathlib import Path

KEPT = 50


class Notices:
    """The last sentences in ``aside/notices.txt``, and those that could not be written there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unwritten: dict[str, None] = {}

    def add(self, sentence: str) -> None:
        """Append one sentence."""
        line = " ".join(sentence.split())
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError:
            self._unwritten[line] = None

    def all(self) -> list[str]:
        """The last :data:`KEPT` sentences, oldest first, each once."""
        lines: list[str] = []
        with contextlib.suppress(OSError):
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        return list(dict.fromkeys([*lines, *self._unwritten]))[-KEPT:]
