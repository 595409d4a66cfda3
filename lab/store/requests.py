"""What people have asked for, kept until it is done: requests survive the server, the engine and the machine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from diskcache import Cache

from lab.config import RunConfig
from lab.store.database import UNREADABLE, Database, Row

CLOSED_KEPT = 100
"""How many requests that are done or stopped stay listed."""

RequestState = Literal["open", "done", "stopped"]


@dataclass(frozen=True)
class Request:
    """One press of Train: some runs, in the order they are wanted. ``id`` sorts by the order of asking.

    ``until`` above 0 is the half-width at which the request ends though runs are left: see :mod:`lab.engine.width`.
    """

    id: str
    state: RequestState
    label: str
    created: float
    runs: int
    until: float = 0.0


class Requests:
    """The requests in a database: a small changing row for the state, a fixed one for the runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._plan = lru_cache(maxsize=256)(self._read_plan)

    def add(self, configs: Sequence[RunConfig], label: str, state: RequestState = "open", until: float = 0.0) -> str:
        """Store a request, and forget earlier failures of its runs; its id."""
        plan = "[" + ",".join(config.json for config in configs) + "]"

        def action(cache: Cache) -> str:
            # A number, not the time: the order holds though the clock may jump.
            last = cache._sql("SELECT MAX(key) FROM Cache WHERE key >= 'request/' AND key < 'request0'").fetchone()[0]
            number = int(last[8:16]) + 1 if last and last[8:16].isdecimal() else 1
            request = Request(f"{number:08d}-{os.urandom(4).hex()}", state, label, time.time(), len(configs), until)
            cache.set(f"plan/{request.id}", plan)
            cache.set(f"request/{request.id}", _json(request))
            for config in configs:
                cache.delete(f"failure/{config.key}")
            return request.id

        return self._database.write(action)

    def close(self, request_id: str, state: RequestState) -> None:
        """Mark an open request as done or stopped, and forget the oldest of those that are closed."""
        closed = [request.id for request in self.all() if request.state != "open"]
        old = closed[: max(0, len(closed) + 1 - CLOSED_KEPT)]

        def action(cache: Cache) -> None:
            request = _parse(cache.get(f"request/{request_id}"))
            if request is not None and request.state == "open":
                changed = replace(request, state=state)
                cache.set(f"request/{request_id}", _json(changed))
            for gone in old:
                cache.delete(f"request/{gone}")
                cache.delete(f"plan/{gone}")

        self._database.write(action)

    def all(self) -> list[Request]:
        """Every listed request, in the order of asking. An unreadable one is set aside."""
        return [request for row in self._database.scan("request/") if (request := self._checked(row)) is not None]

    def plan(self, request_id: str) -> tuple[RunConfig, ...]:
        """The runs of a request, in order; empty if it is not listed or was made by another version of the lab."""
        return self._plan(request_id)

    def _read_plan(self, request_id: str) -> tuple[RunConfig, ...]:
        for row in self._database.rows([f"plan/{request_id}"]):
            try:
                return tuple(RunConfig.from_json(json.dumps(record)) for record in json.loads(row.text or ""))
            except UNREADABLE as error:
                self._database.set_aside(row, f"The runs of request {request_id} could not be read: {error}")
        return ()

    def _checked(self, row: Row) -> Request | None:
        request = _parse(row.text)
        if request is None or row.key != f"request/{request.id}":
            self._database.set_aside(row, f"The request {row.key[8:]} could not be read and was set aside.")
            return None
        return request


def _json(request: Request) -> str:
    return json.dumps(vars(request), sort_keys=True)


def _parse(text: object) -> Request | None:
    try:
        request = Request(**json.loads(text))  # type: ignore[arg-type]
        fits = isinstance(request.id, str) and isinstance(request.label, str) and isinstance(request.runs, int)
        fits &= isinstance(request.until, int | float)
        time.localtime(request.created)  # a number, and a time that can be shown
    except (OSError, *UNREADABLE):
        return None
    return request if fits and request.state in ("open", "done", "stopped") else None
