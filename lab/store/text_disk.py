"""A diskcache ``Disk`` that holds text and bytes and refuses everything that would need pickle."""

from __future__ import annotations

import sqlite3
from typing import Any, NoReturn

from diskcache import Disk
from diskcache.core import MODE_RAW, UNKNOWN

from lab.errors import LabError


class PickleRefusedError(LabError):
    """A key or value that only pickle could hold, offered for storing or planted in the database."""


class TextDisk(Disk):
    """Keys are ``str``; values are ``str`` or ``bytes``, always inside the database.

    diskcache unpickles any row marked as pickled, whatever wrote it (CVE-2025-69872), and reads and deletes files at
    paths named in the row. This class does neither: a row says ``raw`` or it is refused, and no file is ever touched.
    """

    def __init__(self, directory: str, **_settings: object) -> None:
        super().__init__(directory)

    def put(self, key: object) -> tuple[str, bool]:
        """The key as stored; only ``str`` is taken."""
        if type(key) is not str:
            _refuse("key", key)
        return key, True

    def get(self, key: object, raw: bool) -> str:
        """The key as it was given to :meth:`put`."""
        if not raw or type(key) is not str:
            _refuse("key", key)
        return key

    def store(self, value: object, read: bool, key: object = UNKNOWN) -> tuple[int, int, None, Any]:  # noqa: ARG002
        """Size, mode, file name and value of a row; only ``str`` and ``bytes`` are taken."""
        if type(value) is str:
            return 0, MODE_RAW, None, value
        if type(value) is not bytes:
            _refuse("value", value)
        return 0, MODE_RAW, None, sqlite3.Binary(value)

    def fetch(self, mode: int, filename: str | None, value: object, read: bool) -> str | bytes:
        """The value of a row written by :meth:`store`."""
        if mode != MODE_RAW or filename is not None or read or type(value) not in (str, bytes):
            _refuse("value", value)
        return value  # type: ignore[return-value]

    def remove(self, file_path: str) -> None:
        """Do nothing: a row that names a file was not written by this class."""


def _refuse(what: str, thing: object) -> NoReturn:
    raise PickleRefusedError(f"The cache holds text, so a {what} of type {type(thing).__name__} is refused.", what)
