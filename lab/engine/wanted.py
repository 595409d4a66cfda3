"""What the open requests want that is neither done nor failed, and whose turn it is: read from the store, again and again."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator

from lab.config import RunConfig
from lab.engine.dispatch import Asked, fair_order
from lab.engine.every import Every
from lab.engine.width import complete_seeds, narrow_enough, width_of
from lab.store import Store

log = logging.getLogger("lab.engine")


class Wanted:
    """The open requests with runs left, ``asked``; the runs that are over, ``settled``; how many runs each has had, ``turns``."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.asked: list[Asked] = []
        self.settled: set[str] = set()
        self.turns: dict[str, int] = {}
        self._widths: dict[str, int] = {}  # at how many seeds a request's intervals were last looked at
        self._version: tuple[int, ...] = ()
        self._again = Every(1.0)

    @property
    def keys(self) -> set[str]:
        """The runs of the open requests, those that are over too."""
        return {run.key for request in self.asked for run in request.runs}

    def order(self, taken: Collection[str]) -> Iterator[tuple[str, RunConfig]]:
        """The waiting runs in the order they are to be started, each with the request whose turn it is, less those ``taken``."""
        return fair_order(self.asked, {*self.settled, *taken}, self.turns)

    def look(self, held: Collection[str]) -> None:
        """:meth:`refresh` if somebody has written to the store, and once a second in any case."""
        if self.store.version() != self._version or self._again():
            self.refresh(held)

    def refresh(self, held: Collection[str]) -> None:
        """Read the open requests; close those that have all they asked for. What is ``held`` is over, and has yet to be stored."""
        version = self.store.version()
        requests = [request for request in self.store.requests.all() if request.state == "open"]
        asked = [Asked(request.id, self.store.requests.plan(request.id)) for request in requests]
        untils = {request.id: request.until for request in requests}
        keys = list({run.key for request in asked for run in request.runs})
        stored = (self.store.done(keys) | set(self.store.failures(keys))) - set(held)
        self.settled = stored | set(held)
        for request in asked:
            if all(run.key in stored for run in request.runs) or self._narrow(request, untils[request.id], stored):
                self.store.requests.close(request.id, "done")
                untils.pop(request.id)
        self.asked = [r for r in asked if r.id in untils and any(run.key not in self.settled for run in r.runs)]
        turns = {request.id: self.turns[request.id] for request in self.asked if request.id in self.turns}
        # A newcomer need not wait until all have had as many turns as the oldest.
        level = min(turns.values(), default=0)
        self.turns = {request.id: turns.get(request.id, level) for request in self.asked}
        self._widths = {request_id: seeds for request_id, seeds in self._widths.items() if request_id in untils}
        self._version = version

    def _narrow(self, request: Asked, until: float, stored: Collection[str]) -> bool:
        """Whether a request's intervals are as narrow as was asked for; looked at once for each seed that becomes complete."""
        seeds = len(complete_seeds(request.runs, stored)) if until else 0
        if not seeds or self._widths.get(request.id) == seeds:
            return False
        self._widths[request.id] = seeds
        n, width = width_of(request.runs, stored, self.store.get_many(run.key for run in request.runs).values())
        if narrow_enough(n, width, until):
            log.info("Request %s ends at n = %d: its intervals are narrow enough", request.id, n)
            return True
        return False
