"""What pages and commands see of the engine: ask for runs, stop, look how far things are."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from lab.config import RunConfig
from lab.engine.address import scheduler_from_environment
from lab.engine.estimate import seconds_left
from lab.engine.launch import launch
from lab.engine.live import STARTING, Live, read_live
from lab.engine.overview import Overview, Queue, overview, read_queue, times_left
from lab.engine.presence import engine_alive, show_up
from lab.errors import LabError
from lab.results import CurvePoint
from lab.store import Request, Store, StoreError
from lab.study import Study

ALIVE_SECONDS = 0.5
"""How long an answer to "is the engine alive?" is good for."""

Kind = Literal["done", "running", "queued", "failed", "stopped", "unknown"]


@dataclass(frozen=True)
class RunState:
    """How far a run is. ``place`` counts from 1 among the queued; ``cause`` says why a run failed."""

    kind: Kind
    step: int = 0
    steps: int = 0
    seconds: float = 0.0
    points: tuple[CurvePoint, ...] = ()
    place: int | None = None
    cause: str = ""

    @property
    def seconds_left(self) -> float | None:
        """Seconds left of a running run, once it has made a step."""
        return self.seconds / self.step * (self.steps - self.step) if self.kind == "running" and self.step else None


@dataclass(frozen=True)
class WorkerState:
    """A worker: its name, its device in words (empty before its first run) and the keys of what it trains."""

    name: str
    device: str
    pid: int
    slots: int
    runs: tuple[str, ...]


@dataclass(frozen=True)
class EngineStatus:
    """The engine at a glance. ``message`` is empty, or a sentence about what is wrong or under way.

    ``since`` says when there began to be a message, in seconds since 1970, if it is the engine's own.
    """

    alive: bool
    message: str
    device: str
    slots: int
    workers: tuple[WorkerState, ...]
    running: int
    queued: int
    since: float | None = None


class Engine:
    """A client of the one engine process of a cache.

    Make one a process and keep it: while it lives, the engine does. Safe for many threads. On start-up call
    :meth:`resume`, so that what was asked for before a crash goes on.
    """

    def __init__(self, store: Store | None = None) -> None:
        self.store = store or Store()
        self._live_path = self.store.path / "live.json"
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._started: list[float] = []
        self._alive = (float("-inf"), False)
        self._queued: tuple[object, Queue] | None = None
        with contextlib.suppress(OSError):  # a cache that is only read
            show_up(self.store.path)

    # asking

    def request(
        self, wanted: Study | Iterable[RunConfig], label: str = "", *, weights: bool = False, until: float = 0.0
    ) -> str:
        """Ask for runs and return at once; the request's id, with which its owner can stop it.

        The request is on disk before anything runs. A run that somebody else wants too is trained once. Earlier
        failures of these runs are forgotten. With ``weights``, runs of which only the starter study has a result are trained too; with
        ``until`` above 0 the request ends as soon as every interval has that half-width, as a share of 1. Raises
        :class:`LabError` where the cache cannot be written or ``LAB_SCHEDULER`` is refused.
        """
        configs = wanted.configs() if isinstance(wanted, Study) else tuple(dict.fromkeys(wanted))
        scheduler_from_environment()
        if weights:
            self.store.train_anew(config.key for config in configs)
        missing = len(self.store.done(config.key for config in configs)) < len(configs)
        request_id = self.store.requests.add(configs, label, "open" if missing else "done", until)
        if missing:
            self.start()
        return request_id

    def stop(self, request_id: str) -> None:
        """Take a request back: what waits is dropped, what runs ends at its next step, unless others want it too."""
        self.store.requests.close(request_id, "stopped")

    def open_requests(self) -> list[Request]:
        """The requests that are not yet done or stopped, in the order of asking."""
        return [request for request in self.store.requests.all() if request.state == "open"]

    # the process

    def start(self) -> None:
        """Make sure that an engine runs; returns at once. Raises :class:`StoreError` if the cache cannot be written."""
        with self._guard:
            if self._is_alive():
                return
            if self._process is not None and self._process.poll() is None:
                return  # on its way
            try:
                show_up(self.store.path)
                self._process = launch(self.store.path)
            except OSError as error:
                raise StoreError(f"The engine could not be started in {self.store.path}: {error}.", "cache") from None
            self._started = [*self._started[-9:], time.monotonic()]
            self._alive = (float("-inf"), False)

    def resume(self) -> bool:
        """Start an engine if something is open and none runs; whether something is open.

        An engine that keeps dying is started less and less often, at most every minute then.
        """
        if not self.open_requests():
            return False
        recent = [at for at in self._started if time.monotonic() - at < 300]
        gap = min(60.0, 2.0 ** len(recent)) if recent else 0.0
        if not recent or time.monotonic() - recent[-1] > gap:
            with contextlib.suppress(LabError):
                self.start()
        return True

    def _is_alive(self) -> bool:
        at, alive = self._alive
        if time.monotonic() - at > ALIVE_SECONDS:
            alive = engine_alive(self.store.path)
            self._alive = (time.monotonic(), alive)
            if self._process is not None:
                self._process.poll()  # so that an engine that ended is no zombie
        return alive

    # looking

    def runs(self, keys: Sequence[str]) -> dict[str, RunState]:
        """The state of each of these runs. Cheap enough to ask once a second."""
        done = self.store.done(keys)
        rest = [key for key in keys if key not in done]
        if not rest:
            return {key: RunState("done") for key in keys}
        failures, live = self.store.failures(rest), self._live()
        queue = self._queue(live)
        places = queue.places
        if any(key in places for key in rest) and not self._is_alive():
            self.resume()
        # Wanted with their weights, and taken back: their shipped results are there as before.
        shipped = self.store.shipped(key for key in rest if key not in places)

        def state(key: str) -> RunState:
            if key in done:
                return RunState("done")
            if key in failures:
                return RunState("failed", cause=failures[key])
            if key in live.running:
                run = live.running[key]
                return RunState("running", run.step, run.steps, run.seconds, tuple(run.points))
            if key in places:
                return RunState("queued", place=places[key])
            if key in shipped:
                return RunState("done")
            return RunState("stopped" if key in queue.stopped else "unknown")

        return {key: state(key) for key in keys}

    def status(self) -> EngineStatus:
        """What the engine does, or why it does not."""
        live = self._live()
        queue = self._queue(live)
        workers = tuple(
            WorkerState(
                worker.name,
                worker.device,
                worker.pid,
                worker.slots,
                tuple(key for key, run in live.running.items() if run.worker == worker.address),
            )
            for worker in live.workers
        )
        alive = self._is_alive()
        device = ", ".join(sorted({worker.device for worker in live.workers if worker.device}))
        message = self._message(live)
        since = live.since if live.since and message == live.message else None
        return EngineStatus(alive, message, device, live.slots, workers, len(live.running), len(queue.waiting), since)

    def overview(self) -> Overview:
        """The open requests in the order of their turns, what waits, what failed lately. Starts nothing."""
        live = self._live()
        return overview(self.store, self._queue(live), live)

    def seconds_left(self, keys: Iterable[str]) -> float | None:
        """Seconds until these runs are done, with all that is started before them; None while nothing is known.

        Runs that are done, failed or not asked for take no time.
        """
        live = self._live()
        queue = self._queue(live)
        return seconds_left(
            [key for key in keys if key in queue.places or key in live.running], times_left(queue, live)
        )

    def _message(self, live: Live) -> str:
        try:
            scheduler_from_environment()
        except LabError as error:
            return str(error)
        if self._is_alive():
            return live.message if live.pid else STARTING
        if self._process is not None and self._process.poll() is None:
            return STARTING
        if self._process is not None and self._process.returncode:
            return f"The engine stopped unexpectedly; {self.store.path / 'engine.log'} says why."
        return ""

    def _live(self) -> Live:
        return read_live(self._live_path) if self._is_alive() else Live()

    def _queue(self, live: Live) -> Queue:
        """What is asked for and waits; read anew only where something has changed."""
        mark = (self.store.version(), tuple(live.running), tuple(live.turns.items()), tuple(live.next))
        queued = self._queued
        if queued is None or queued[0] != mark:
            queued = self._queued = (mark, read_queue(self.store, live))
        return queued[1]
