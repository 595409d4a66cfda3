"""The lab's table of texts: a diskcache that survives damage, full disks, read-only folders and other processes."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import filelock
from diskcache import Cache, Timeout
from diskcache.core import MODE_RAW

from lab.errors import LabError
from lab.store.notices import Notices
from lab.store.text_disk import TextDisk

BUSY_SECONDS = 20
RETRY_SECONDS = 2
"""How long a database that could not be opened for writing is only read before the next try."""

SETTINGS = {
    "eviction_policy": "none",
    "cull_limit": 0,
    "size_limit": 2**62,
    "statistics": 0,
    "tag_index": 0,
    "sqlite_mmap_size": 0,  # a file cut short under a memory map kills the process
}

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What making sense of a damaged or planted text can raise."""

T = TypeVar("T")


class StoreError(LabError):
    """The store cannot do what was asked: a full disk, a folder without write permission, a busy database."""


class Row(NamedTuple):
    """One row; ``text`` is None where the value is not text, and ``key`` may then be anything."""

    rowid: int
    key: str
    text: str | None


class Database:
    """Texts by key, in ``<root>/db``.

    A database that is damaged, on opening or at any later read, is renamed into ``aside/`` with a notice, and
    ``rebuild`` fills the fresh one with what can be had elsewhere. Other processes notice by the file's identity.
    """

    def __init__(self, root: Path, notices: Notices, rebuild: Callable[[Cache], None]) -> None:
        self.root, self.folder = root, root / "db"
        self.path = self.folder / "cache.db"
        self._notices, self._rebuild = notices, rebuild
        self._opened: tuple[int | None, Cache] | None = None
        self._refused: tuple[float, StoreError] | None = None

    # reading

    def rows(self, keys: Sequence[str]) -> list[Row]:
        """The rows with these keys, in any order."""
        found: list[Row] = []
        for start in range(0, len(keys), 500):
            part = keys[start : start + 500]
            found += self._select(f"key IN ({','.join('?' * len(part))})", part)
        return found

    def scan(self, prefix: str) -> list[Row]:
        """The rows whose key starts with ``prefix``, in the order of their keys."""
        return self._select("key >= ? AND key < ? ORDER BY key", (prefix, prefix + "\U0010ffff"))

    def known(self, keys: Sequence[str]) -> set[str]:
        """Which of these keys have a row."""
        found: set[str] = set()
        for start in range(0, len(keys), 500):
            part = keys[start : start + 500]
            query = f"SELECT key FROM Cache WHERE raw = 1 AND key IN ({','.join('?' * len(part))})"  # noqa: S608
            found.update(key for (key,) in self._read(query, part))
        return found

    def version(self) -> tuple[int, ...]:
        """Changes when anything has been written by anyone; costs two ``stat`` calls."""
        marks: list[int] = []
        for path in (self.path, self.path.with_name("cache.db-wal")):
            with contextlib.suppress(OSError):
                stat = path.stat()
                marks += [stat.st_ino, stat.st_mtime_ns, stat.st_size]
        return tuple(marks)

    def _select(self, where: str, args: Sequence[str]) -> list[Row]:
        # Cast, because one text that is not UTF-8 would otherwise fail the whole query.
        columns = "rowid, CAST(key AS BLOB), mode, filename, typeof(value), CAST(value AS BLOB)"
        query = f"SELECT {columns} FROM Cache WHERE raw = 1 AND {where}"  # noqa: S608
        return [_row(*values) for values in self._read(query, args)]

    def _read(self, query: str, args: Sequence[str]) -> list[Any]:
        for _ in range(3):
            identity = _identity(self.path)
            try:
                cache = self._open()
            except StoreError:
                return self._read_only(query, args)
            try:
                return list(cache._sql(query, args).fetchall())
            except sqlite3.Error as error:
                self._recover(error, identity)
        raise StoreError(f"The database {self.path} could not be read.", "cache")

    def _read_only(self, query: str, args: Sequence[str]) -> list[Any]:
        """Read without writing anything: the disk is full, or the folder belongs to somebody else."""
        if not self.path.exists():
            return []
        failure: sqlite3.Error | None = None
        for option in ("mode=ro", "immutable=1"):  # the first sees what has been written since the last checkpoint
            try:
                uri = f"file:{quote(str(self.path))}?{option}"
                with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)) as connection:
                    return connection.execute(query, args).fetchall()
            except sqlite3.Error as error:
                failure = error
        assert failure is not None
        raise self._explain(failure)

    # writing

    def ready(self) -> None:
        """Raise :class:`StoreError` now if the database could not be written later."""
        self._open()

    def write(self, action: Callable[[Cache], T]) -> T:
        """Run ``action`` in one transaction, for everybody to see or not at all."""
        for _ in range(3):
            identity = _identity(self.path)
            cache = self._open()
            try:
                with cache.transact():
                    outcome = action(cache)
            except (sqlite3.Error, Timeout) as error:
                self._recover(error, identity)
                continue
            if self._opened and self._opened[0] == _identity(self.path):  # nobody set the database aside meanwhile
                return outcome
        raise StoreError(f"The database {self.path} was replaced again and again while being written.", "cache")

    def set_aside(self, row: Row, notice: str) -> None:
        """Keep a row that cannot be read under ``aside/<key>``, out of everybody's way."""
        args = (f"aside/{row.key}/{time.time_ns()}", row.rowid, row.key.encode())
        update = "UPDATE Cache SET key = ? WHERE rowid = ? AND CAST(key AS BLOB) = ?"
        with contextlib.suppress(StoreError):  # a store that is only read reports the row and leaves it
            if self.write(lambda cache: cache._sql(update, args).rowcount) == 0:
                return  # another process was faster
        self._notices.add(notice)

    # opening

    def close(self) -> None:
        """Close this thread's connection; the next use opens it again."""
        if self._opened:
            self._opened[1].close()

    def _open(self) -> Cache:
        if self._opened and self._opened[0] is not None and self._opened[0] == _identity(self.path):
            return self._opened[1]
        if self._refused and time.monotonic() - self._refused[0] < RETRY_SECONDS:
            raise self._refused[1]
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._lock():
                cache = self._open_sound()
                self._opened = _identity(self.path), cache
        except (OSError, sqlite3.Error, Timeout) as error:
            self._refused = time.monotonic(), self._explain(error)
            raise self._refused[1] from None
        self._refused = None
        return cache

    def _open_sound(self) -> Cache:
        """Open the database; a damaged one is set aside first. The caller holds the lock."""
        if self.path.exists() and self.path.stat().st_size == 0:
            self._move("was empty")
        try:
            return self._connect()
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            if not _damaged(error):
                raise
            self._move(f"was damaged ({error})")
            return self._connect()

    def _connect(self) -> Cache:
        cache = Cache(str(self.folder), timeout=BUSY_SECONDS, disk=TextDisk, **SETTINGS)
        if cache._sql("SELECT 1 FROM Cache LIMIT 1").fetchone() is None:
            self._rebuild(cache)
            cache.set("begun", time.strftime("%Y-%m-%d %H:%M:%S"))  # so that this happens once
        return cache

    def _recover(self, error: Exception, identity: int | None) -> None:
        """Set the database aside if ``error`` means damage; raise the reason in words if it does not."""
        if not _damaged(error):
            raise self._explain(error) from None
        try:
            with self._lock():
                if _identity(self.path) == identity and identity is not None:
                    self._move(f"was damaged ({error})")
                    cache = self._connect()
                    self._opened = _identity(self.path), cache
        except (OSError, sqlite3.Error, Timeout) as failure:
            raise self._explain(failure) from None

    def _move(self, what: str) -> None:
        aside = self.root / "aside" / f"db-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        self.folder.rename(aside)  # one rename takes the write-ahead log along
        self.folder.mkdir(mode=0o700)
        self._notices.add(f"The database {what}; it was set aside as {aside} and a fresh one was started.")

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        with filelock.FileLock(self.root / "db.lock", timeout=BUSY_SECONDS):
            yield

    def _explain(self, error: Exception) -> StoreError:
        name, number = getattr(error, "sqlite_errorname", None) or "", getattr(error, "errno", None)
        return StoreError(explain(name, number, self.root, error), "cache")


def explain(name: str, number: int | None, root: Path, error: Exception) -> str:
    """One sentence for a failure of SQLite (by ``name``) or of the file system (by ``number``)."""
    if name.startswith("SQLITE_FULL") or number in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk that holds {root} is full; free some space. What is stored can still be read."
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")) or number in (
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
    ):
        return f"The folder {root} cannot be written; make it writable or set LAB_CACHE to another one."
    if isinstance(error, Timeout) or name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"The database in {root} has been busy for {BUSY_SECONDS} seconds; try again."
    return f"The store in {root} failed: {error}."


def _row(rowid: int, key: bytes, mode: int, filename: str | None, kind: str, value: bytes | None) -> Row:
    name, text = key.decode(errors="replace"), None
    if mode == MODE_RAW and filename is None and kind == "text" and value is not None:
        with contextlib.suppress(UnicodeDecodeError):
            text = value.decode()
    return Row(rowid, name, text)


def _damaged(error: Exception) -> bool:
    if isinstance(error, TypeError | ValueError):  # settings in the file that diskcache cannot take
        return True
    name = getattr(error, "sqlite_errorname", None) or ""
    missing = name == "SQLITE_ERROR" and "no such" in str(error)
    return missing or name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def _identity(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
