"""The engine process: derives from the store what is to be done, hands it to the cluster, stores what comes back."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import queue
import shutil
import signal
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import Any

from filelock import Timeout
from numpy.typing import NDArray

from lab.config import RunConfig
from lab.engine.address import scheduler_from_environment
from lab.engine.causes import cause, cause_elsewhere, first_line
from lab.engine.dispatch import take_packs
from lab.engine.every import Every
from lab.engine.launch import cap_log
from lab.engine.live import STARTING, Live, Running, write_live
from lab.engine.presence import anyone_there, engine_lock
from lab.engine.wanted import Wanted
from lab.results import CurvePoint, RunResult
from lab.store import UNREADABLE, Store, StoreError

TICK = 0.05
STOP_AGAIN = 0.3
AWAY_SECONDS = 2.0
LIVE = 0.25

LOST: tuple[type[BaseException], ...] = (OSError, RuntimeError, CancelledError, asyncio.CancelledError)
"""What Dask raises where the scheduler is gone, restarted or does not answer; TimeoutError is an OSError."""

log = logging.getLogger("lab.engine")


@dataclass
class Attempt:
    """A pack that has been handed to the cluster."""

    configs: list[RunConfig]
    future: Any
    progress: dict[str, Running]
    stopping: set[str] = field(default_factory=set)
    told: float = 0.0


class EngineProcess:
    """One loop in one thread. Everything the engine must not forget is in the store; this is only what is under way."""

    def __init__(self, store: Store) -> None:
        from lab.engine.cluster import Cluster

        self.store = store
        self.inbox: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        scratch = store.path / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)  # of an engine that was killed
        self.cluster = Cluster(scheduler_from_environment(), scratch, lambda event: self.inbox.put(("event", event)))
        self.attempts: dict[str, Attempt] = {}
        self.orphans: dict[
            str, list[str]
        ] = {}  # attempts that went on when the scheduler was lost, if their workers live
        self.wanted = Wanted(store)
        self.solo: set[str] = set()
        self.unsaved: list[tuple[RunResult, Mapping[str, NDArray[Any]]] | tuple[str, str]] = []
        self.known: dict[str, dict[str, Any]] = {}  # what workers have told of themselves, by address
        self.message = self.trouble = ""  # about the cluster; about the store
        self.since = 0.0  # when one of them began
        self.ending = False
        self.number = itertools.count(1)
        self.grace = float(os.environ.get("LAB_ENGINE_GRACE", "15"))
        self.seen = time.monotonic()
        self._connect, self._look = Every(AWAY_SECONDS), Every(2.0)
        self._publish, self._clients, self._tidy, self._save = Every(LIVE), Every(0.5), Every(60), Every(2.0)

    def run(self) -> None:
        """Work until nobody is there any more."""
        try:
            while not self.ending:
                try:
                    self.tick()
                    if not self.unsaved:
                        self.trouble = ""
                except StoreError as error:  # a full disk, say: nothing new is begun until it is over
                    self.trouble = str(error)
                    self.publish()
                    time.sleep(0.5)
        finally:
            self.message = "The engine is ending."
            self.publish()
            self.cluster.close()
            shutil.rmtree(self.store.path / "scratch", ignore_errors=True)
            (self.store.path / "live.json").unlink(missing_ok=True)

    def tick(self) -> None:
        """One round: what came in, what is wanted now, what to hand out."""
        self.listen()
        if self._clients():
            if anyone_there(self.store.path):
                self.seen = time.monotonic()
            self.ending |= time.monotonic() - self.seen > self.grace
        if self.unsaved and self._save():
            self.save()
        self.wanted.look(self.held())
        self.solo &= self.wanted.keys
        try:
            if self.connected():
                self.stop_unwanted()
                if not self.unsaved:
                    self.hand_out()
        except LOST as error:
            self.let_go(error)
        if self._publish():
            self.publish()
        if self._tidy():
            cap_log(self.store.path)

    # the cluster

    def connected(self) -> bool:
        """Whether there is a cluster; tries to get one every other second. Raises one of :data:`LOST`."""
        if self.cluster.connected:
            if self._look():
                self.cluster.look()
            return True
        if not self._connect():
            return False
        self.forget()
        self.cluster.close()
        self.cluster.connect()
        for name, keys in self.orphans.items():
            self.cluster.stop(name, keys)
        self.orphans.clear()
        self.message = ""
        return True

    def let_go(self, error: BaseException) -> None:
        """The scheduler is away or does not answer: forget what was under way, and try to find it again."""
        log.warning("The scheduler is away: %r", error)
        self.message = (
            f"The scheduler is away ({first_line(error)}); it is tried again every {AWAY_SECONDS:.0f} seconds."
        )
        self.forget()
        self.cluster.close()

    def forget(self) -> None:
        """Give up all attempts: their futures died with the connection, and what is wanted is handed out again.

        A worker may have kept on, on a cluster that only we were cut off from: it is told to stop once we are back, so that it does not
        hold a slot to the end of a run that somebody else trains too.
        """
        self.orphans |= {name: [c.key for c in attempt.configs] for name, attempt in self.attempts.items()}
        self.attempts.clear()

    def hand_out(self) -> None:
        """Keep every slot busy, and one more pack waiting for each so that none idles between two runs."""
        free = 2 * self.cluster.slots - len(self.attempts)
        if free <= 0 or not self.wanted.asked:
            return
        under_way = {config.key for attempt in self.attempts.values() for config in attempt.configs}
        order = self.wanted.order(under_way)
        for pack in take_packs(order, free, self.cluster.pack_size, self.solo):
            for request_id, _ in pack:
                self.wanted.turns[request_id] += 1
            self.submit([config for _, config in pack])

    def submit(self, configs: list[RunConfig]) -> None:
        """Hand one pack to the cluster."""
        name = f"{os.getpid()}-{next(self.number)}-{os.urandom(3).hex()}"
        log.info("Handing out %s as %s", " ".join(config.key for config in configs), name)
        future = self.cluster.submit(configs, name)
        self.attempts[name] = Attempt(configs, future, {})
        future.add_done_callback(lambda _: self.inbox.put(("finished", name)))

    def stop_unwanted(self) -> None:
        """Tell workers to end what no open request wants; again and again, since a worker may die and forget."""
        wanted = self.wanted.keys
        for name, attempt in self.attempts.items():
            attempt.stopping |= {config.key for config in attempt.configs} - wanted
            if attempt.stopping and time.monotonic() - attempt.told > STOP_AGAIN:
                self.cluster.stop(name, sorted(attempt.stopping))
                attempt.told = time.monotonic()

    # what comes in

    def listen(self) -> None:
        """Wait a moment for something to come in, then take all there is."""
        with contextlib.suppress(queue.Empty):
            kind, what = self.inbox.get(timeout=TICK)
            while True:
                if kind == "event":
                    self.hear(what)
                elif kind == "finished":
                    self.finish(what)
                kind, what = self.inbox.get_nowait()

    def hear(self, event: Mapping[str, Any]) -> None:
        """A worker tells how far it is."""
        attempt = self.attempts.get(str(event.get("attempt")))
        if attempt is None:
            return
        if "began" in event:  # it begins, perhaps anew after another worker died
            self.known[event["began"]] = {k: event[k] for k in ("device", "pid", "streamlit")}
            attempt.progress = {
                config.key: Running(0, config.steps, worker=event["began"]) for config in attempt.configs
            }
        elif (running := attempt.progress.get(event["key"])) is not None:
            running.step, running.steps, running.seconds = event["step"], event["steps"], event["seconds"]
            if event["point"]:
                running.points.append(CurvePoint(*event["point"]))

    def finish(self, name: str) -> None:
        """A pack is over: store what it gave, or why it gave nothing."""
        attempt = self.attempts.pop(name, None)
        if attempt is None:
            return
        status, outcomes = attempt.future.status, []
        try:
            if status == "error":
                self.fail(attempt, attempt.future.exception(timeout=30))
            elif status == "finished":
                outcomes = attempt.future.result(timeout=60)
        except (
            Exception,
            asyncio.CancelledError,
        ) as error:  # its worker died before it had sent the result: it is wanted again
            log.warning("A result did not arrive: %r", error)
            return
        if status == "finished":
            for config, outcome in zip(attempt.configs, outcomes, strict=True):
                if isinstance(outcome, str):
                    self.unsaved.append((config.key, outcome))
                elif outcome is not None:
                    self.take(config, *outcome)
        self.save()

    def take(self, config: RunConfig, text: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep a result for storing, unless it is none: a worker may run another version of the lab."""
        try:
            result = RunResult.from_json(text)
            if result.config != config:  # else it would be stored as another run, and this one handed out for ever
                raise ValueError("it is the result of another run")
            self.unsaved.append((result, arrays))
        except UNREADABLE as error:
            self.unsaved.append((config.key, f"The worker's result could not be read: {first_line(error)}"))

    def fail(self, attempt: Attempt, error: BaseException) -> None:
        """Record the cause; the runs of a larger pack are first tried alone, so that one does not fail for another."""
        workers = [running.worker for running in attempt.progress.values()]
        said = cause_elsewhere(error, next(iter(workers), "")) if self.cluster.elsewhere else cause(error)
        for config in attempt.configs:
            if len(attempt.configs) > 1:
                self.solo.add(config.key)
            else:
                self.unsaved.append((config.key, said))

    def save(self) -> None:
        """Store results and failures; what cannot be stored now is kept and tried again."""
        while self.unsaved:
            first, second = self.unsaved[0]
            if isinstance(first, RunResult):
                self.store.put(first, second)  # type: ignore[arg-type]
                log.info("Stored %s", first.config.key)
                self.wanted.settled.add(first.config.key)
            else:
                self.store.fail(first, str(second))
                self.wanted.settled.add(first)
            self.unsaved.pop(0)

    def held(self) -> set[str]:
        """The runs that are over and that a full disk, say, keeps from being stored: they are not trained again."""
        return {first.config.key if isinstance(first, RunResult) else first for first, _ in self.unsaved}

    def publish(self) -> None:
        """Tell the clients how things are."""
        running = {key: run for attempt in self.attempts.values() for key, run in attempt.progress.items()}
        workers = [replace(w, **self.known.get(w.address, {})) for w in self.cluster.workers]
        # A worker that has just been started may tell of itself before the list of workers names it.
        there = {w.address for w in workers} | {run.worker for run in running.values()}
        self.known = {address: told for address, told in self.known.items() if address in there}
        given = [config.key for attempt in self.attempts.values() if not attempt.progress for config in attempt.configs]
        message, slots, pack = self.trouble or self.message, self.cluster.slots, self.cluster.pack_size
        self.since = (self.since or time.time()) if message else 0.0
        live = Live(os.getpid(), message, slots, workers, self.wanted.turns, running, pack, given, self.since)
        write_live(self.store.path / "live.json", live)


def main() -> None:
    """Be the engine of this cache, unless there is one already."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    store = Store()
    lock = engine_lock(store.path)
    try:
        lock.acquire(timeout=1)  # those who ask whether there is an engine hold it for a moment
    except Timeout:
        return
    write_live(store.path / "live.json", Live(os.getpid(), STARTING))
    process = EngineProcess(store)
    logging.getLogger("distributed").setLevel(logging.WARNING)  # which its import has set

    def end(*_: object) -> None:
        process.ending = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    process.run()
