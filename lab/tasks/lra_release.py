"""The official release files of the Long Range Arena: where they are, and how their text is read.

``LAB_LRA_DIR`` names the folder that ``lra_release.gz`` unpacks to (it, or one of the two folders inside of which the
archive wraps its content): ``listops-1000/``, ``tsv_data/``, ``pathfinder32/``, ``pathfinder128/``. What is read from
it is somebody else's data: lines and images have a size limit, nothing outside the folder is followed, and whatever
is wrong is said with the file, the line and what was expected.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.tasks.base import TaskError
from lab.tasks.cache import data_folder
from lab.tasks.paths import exists, is_folder

MAX_LINE = 1 << 20
"""Bytes in a line, unless a reader allows more."""

WRAPPERS = ("", "lra_release", "lra_release/lra_release")


def named_by_environment() -> bool:
    """Whether the deployer has named the folder, so that a page may not."""
    return bool(os.environ.get("LAB_LRA_DIR"))


def release_folder() -> Path | None:
    """The folder ``LAB_LRA_DIR`` names, or else the one named on a page; None if neither names one."""
    named = os.environ.get("LAB_LRA_DIR")
    if not named:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            named = _note().read_text(encoding="utf-8").strip()
    return Path(named).absolute() if named else None


def name_release_folder(path: str) -> None:
    """Remember the folder for every process of this lab; an empty path forgets it. Raises :class:`TaskError` if there is no such folder,
    or it may not be read.
    """
    if path and not is_folder(Path(path)):
        raise TaskError(
            f"{path[:200]!r} is not a folder on the machine that runs the lab; it must be one, or empty.", "folder"
        )
    if path and not os.access(path, os.R_OK | os.X_OK):
        raise TaskError(
            f"{path[:200]!r} may not be read by the lab; its permissions must let the lab list and enter it.", "folder"
        )
    note = _note()
    try:
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = note.with_name(f".{note.name}.{os.getpid()}")
        temporary.write_text(str(Path(path).absolute()) if path else "", encoding="utf-8")
        temporary.replace(note)
    except OSError as error:
        raise TaskError(
            f"{note.parent} cannot be written ({error.strerror or error}); set LAB_LRA_DIR instead."
        ) from None


def _note() -> Path:
    return data_folder() / "lra_folder.txt"


def locate(folders: Sequence[str], name: str) -> Path | None:
    """The first ``<release>/<wrapper>/<folder>/<name>`` there is; None if there is none, or no release."""
    root = release_folder()
    if root is None:
        return None
    for wrapper in WRAPPERS:
        for folder in folders:
            path = root / wrapper / folder / name
            if exists(path):
                return path
    return None


def missing_file(folders: Sequence[str], names: Sequence[str]) -> str:
    """One sentence about what of a task's files is not there; empty if all are. Looks at names only."""
    root = release_folder()
    if root is None:
        return "LAB_LRA_DIR is not set and no folder is named on the page Tasks; one must name where lra_release was unpacked to."
    if not is_folder(root):
        return f"LAB_LRA_DIR is {str(root)[:200]}; there is no such folder."
    for name in names:
        if locate(folders, name) is None:
            return f"LAB_LRA_DIR is {root}; {'/'.join(filter(None, [folders[0], name]))} was expected in it and is not there."
    return ""


def find_files(folders: Sequence[str], names: Sequence[str]) -> list[Path]:
    """A task's files, each inside the release. Raises :class:`TaskError` for one that is missing or a link to elsewhere."""
    if reason := missing_file(folders, names):
        raise TaskError(reason)
    found = [path for name in names if (path := locate(folders, name))]
    for path in found:
        check_inside(path)
    return found


def check_inside(path: Path) -> Path:
    """``path`` with links resolved. Raises :class:`TaskError` if that lies outside the release's folder."""
    root = release_folder()
    try:
        real, top = path.resolve(), root and root.resolve()
    except (OSError, RuntimeError):  # links in a circle
        raise TaskError(f"{path} could not be followed; a file inside the release's folder was expected.") from None
    if top is None or not real.is_relative_to(top):
        raise TaskError(f"{path} leads to {real}, outside the release's folder; a file inside it was expected.")
    return real


def read_tsv(
    path: Path, columns: int, *, header: Sequence[str] | None = None, max_line: int = MAX_LINE
) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """Number and fields of every line of a tab-separated file, one line in memory at a time.

    Lines count from 1, the header included, which is checked if one is given. Fields are bytes, taken as they are: no
    quoting, as in LRA's own loaders. Ends of lines are LF or CR LF; empty lines are an error, except after the last.
    Raises :class:`TaskError` that names the file, the line and what was expected: for another number of columns, a
    line longer than ``max_line`` bytes, a NUL byte or text that is not UTF-8.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise TaskError(
            f"{path} could not be opened ({error.strerror}); a tab-separated text file was expected."
        ) from None
    with file:
        number = 0
        while raw := file.readline(max_line + 1):
            number += 1
            where = f"{path}, line {number}:"
            if len(raw) > max_line:
                raise TaskError(
                    f"{where} the line is longer than {max_line} bytes; {columns} fields between tabs were expected."
                )
            if b"\0" in raw:
                raise TaskError(
                    f"{where} the line holds a NUL byte; UTF-8 text with {columns} fields between tabs was expected."
                )
            try:
                raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise TaskError(
                    f"{where} byte {error.start + 1} is not UTF-8; UTF-8 text with {columns} fields between tabs was expected."
                ) from None
            fields = tuple(raw.removesuffix(b"\n").removesuffix(b"\r").split(b"\t"))
            if len(fields) != columns:
                raise TaskError(
                    f"{where} {len(fields)} field{'s' * (len(fields) != 1)} between tabs; {columns} were expected."
                )
            if header is not None and number == 1:
                if fields != tuple(name.encode() for name in header):
                    raise TaskError(f"{where} the header is not the expected {', '.join(header)}, separated by tabs.")
                continue
            yield number, fields
        if header is not None and number == 0:
            raise TaskError(f"{path}, line 1: the file is empty; the header {', '.join(header)} was expected.")
