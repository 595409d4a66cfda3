"""Looking whether a file is there, without ever failing: where the lab may not look, and what no file can be called, is not there."""

from __future__ import annotations

import stat
from pathlib import Path


def exists(path: Path) -> bool:
    """Whether something is there that can be looked at."""
    return _mode(path) != 0


def is_folder(path: Path) -> bool:
    """Whether a folder is there."""
    return stat.S_ISDIR(_mode(path))


def is_file(path: Path) -> bool:
    """Whether a plain file is there."""
    return stat.S_ISREG(_mode(path))


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0
