"""The store: results and weights of runs, what failed, what was asked for."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from diskcache import Cache
from numpy.typing import NDArray

from lab.results import RunResult
from lab.store.blobs import Arrays, Blobs, is_name
from lab.store.database import UNREADABLE, Database, Row, StoreError, explain
from lab.store.notices import Notices
from lab.store.requests import Requests
from lab.store.starter import Starter, starter_path


def default_path() -> Path:
    """``LAB_CACHE``, or ``cache/`` beside the package."""
    return Path(os.environ.get("LAB_CACHE") or Path(__file__).parents[2] / "cache").absolute()


_result = lru_cache(maxsize=5000)(RunResult.from_json)
"""Pages read the same results again and again, and a result never changes."""


class Store:
    """Results by the key of their config; safe for many threads and processes on one folder.

    The results of the starter study that ships with the lab, ``starter``, count as done here until this folder has its own.
    What cannot be read, be it a row, a file of weights or the whole database, is kept in ``aside/``, told in
    :meth:`notices` and treated as missing. Raises :class:`StoreError` where the folder cannot be written.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = Path(path).absolute() if path is not None else default_path()
        with contextlib.suppress(OSError):  # a folder that is only read still serves what it holds
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
        self._notices = Notices(self.path / "aside" / "notices.txt")
        self._blobs = Blobs(self.path, self._notices)
        self._database = Database(self.path, self._notices, self._rebuild)
        self.requests = Requests(self._database)
        self.starter = Starter(starter_path())

    # results

    def get(self, key: str) -> RunResult | None:
        """The result of one run."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, RunResult]:
        """The results there are, by key, in the order of ``keys``."""
        keys = list(keys)
        rows = self._database.rows([f"result/{key}" for key in keys])
        found = {result.config.key: result for row in rows if (result := self._parse(row)) is not None}
        for key in keys:
            if key not in found and (shipped := self.starter.get(key)) is not None:
                found[key] = shipped
        return {key: found[key] for key in keys if key in found}

    def results(self) -> Iterator[RunResult]:
        """Every result, those of the starter study last."""
        own = set()
        for row in self._database.scan("result/"):
            if (result := self._parse(row)) is not None:
                own.add(result.config.key)
                yield result
        yield from (shipped for shipped in self.starter.results() if shipped.config.key not in own)

    def done(self, keys: Iterable[str]) -> set[str]:
        """Which of these runs have a result; does not read those of this folder."""
        keys = list(keys)
        done = {row[7:] for row in self._database.known([f"result/{key}" for key in keys])}
        # Read, because nothing sets a shipped result aside that cannot be: it would never be trained.
        shipped = [key for key in keys if key not in done and self.starter.get(key) is not None]
        anew = self._database.known([f"anew/{key}" for key in shipped])
        return done | {key for key in shipped if f"anew/{key}" not in anew}

    def shipped(self, keys: Iterable[str]) -> set[str]:
        """Which of these runs have no result of this folder's own, only that of the starter study."""
        candidates = [key for key in keys if key in self.starter.texts]
        return set(candidates) - {row[7:] for row in self._database.known([f"result/{key}" for key in candidates])}

    def train_anew(self, keys: Iterable[str]) -> None:
        """From now on the starter study's results of these runs do not count as done: somebody wants them with their weights."""
        wanted = self.shipped(keys)
        if wanted:
            self._database.write(lambda cache: [cache.set(f"anew/{key}", "1") for key in wanted])

    def put(self, result: RunResult, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep a result and its arrays, and forget an earlier failure of the run."""
        key, text = result.config.key, result.to_json()
        self._database.ready()
        try:
            blob = self._blobs.put(arrays, text)
        except OSError as error:
            raise StoreError(explain("", error.errno, self.path, error), "cache") from None

        def action(cache: Cache) -> None:
            cache.set(f"result/{key}", text)
            cache.set(f"blob/{key}", json.dumps(blob))
            cache.delete(f"failure/{key}")
            cache.delete(f"anew/{key}")

        self._database.write(action)

    def arrays(self, key: str) -> Arrays | None:
        """The arrays of a run; None if there are none. A result whose arrays are gone or damaged is set aside.

        So the run can be trained again; weights that only cannot be read at the moment are left as they are.
        """
        # Both rows in one query: another process may be storing this run.
        rows = {row.key: row for row in self._database.rows([f"result/{key}", f"blob/{key}"])}
        result, blob = rows.get(f"result/{key}"), rows.get(f"blob/{key}")
        name = _name(blob)
        arrays = self._blobs.get(name) if name else None
        if arrays is None and result is not None and not (name and self._blobs.has(name)):
            self._database.set_aside(result, f"The result of run {key} was set aside: its weights are gone or damaged.")
        return arrays

    def set_aside(self, key: str, why: str) -> None:
        """Treat a result as missing from now on, so that asking for the run trains it again."""
        for row in self._database.rows([f"result/{key}"]):
            self._database.set_aside(row, f"The result of run {key} was set aside: {why}")

    # failures

    def fail(self, key: str, cause: str) -> None:
        """Record that a run failed, and why; it is not tried again until somebody asks for it anew."""
        self._database.write(lambda cache: cache.set(f"failure/{key}", json.dumps({"cause": cause})))

    def failure(self, key: str) -> str | None:
        """Why a run failed, if it did."""
        return self.failures([key]).get(key)

    def failures(self, keys: Iterable[str]) -> dict[str, str]:
        """The causes of the runs that failed, by key."""
        causes: dict[str, str] = {}
        for row in self._database.rows([f"failure/{key}" for key in keys]):
            try:
                causes[row.key[8:]] = str(json.loads(row.text or "")["cause"])
            except UNREADABLE:
                self._database.set_aside(row, f"The failure of run {row.key[8:]} could not be read; it was set aside.")
        return causes

    # the rest

    def notices(self) -> list[str]:
        """Sentences about what has been set aside, the latest last."""
        problem = [self.starter.problem] if self.starter.problem else []
        return [*self._notices.all(), *problem]

    def version(self) -> tuple[int, ...]:
        """Changes whenever somebody has written to the database."""
        return self._database.version()

    def close(self) -> None:
        """Close this thread's connection; the next use opens it again."""
        self._database.close()

    def _parse(self, row: Row) -> RunResult | None:
        key = row.key[7:]
        try:
            if row.text is None:
                raise ValueError("it is not text")
            result = _result(row.text)
            if result.config.key != key:
                raise ValueError("it is the result of another run")
        except UNREADABLE as error:
            self._database.set_aside(row, f"The result of run {key} could not be read and was set aside: {error}")
            return None
        return result

    def _rebuild(self, cache: Cache) -> None:
        """Fill a fresh database with the results that the files of weights repeat."""
        count = 0
        for name, text in self._blobs.results():
            with contextlib.suppress(*UNREADABLE):
                key = RunResult.from_json(text).config.key
                with cache.transact():
                    cache.set(f"result/{key}", text)
                    cache.set(f"blob/{key}", json.dumps(name))
                count += 1
        if count:
            self._notices.add(f"{count} results were found again beside their weights.")


def _name(row: Row | None) -> str | None:
    """The name of a blob that a row holds; None if it holds none."""
    with contextlib.suppress(*UNREADABLE):
        name = json.loads((row and row.text) or "")
        return name if is_name(name) else None
    return None
