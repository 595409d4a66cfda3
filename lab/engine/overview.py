"""What lies before the engine: the open requests, how far each is, and all that waits, in the order of its turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass

from lab.config import RunConfig
from lab.engine.dispatch import Asked, fair_order
from lab.engine.estimate import finish_times, seconds_left, typical_seconds
from lab.engine.live import Live, Running
from lab.store import Request, Store

LATELY = 20
"""Of how many stopped requests the runs are told apart from unknown ones."""

LATEST_FAILURES = 5
"""Of how many requests that are over the failures are still shown."""

MEASURED = 10
"""From how many results of a kind its typical time is taken."""


@dataclass(frozen=True)
class Queue:
    """What the store holds of the open requests, and the order of what waits: each run once, with the request whose turn it is."""

    requests: tuple[Request, ...]
    asked: tuple[Asked, ...]
    runs: Mapping[str, RunConfig]
    done: Collection[str]
    failures: Mapping[str, str]
    waiting: tuple[tuple[str, RunConfig], ...]
    places: Mapping[str, int]
    stopped: Collection[str]
    measured: tuple[tuple[RunConfig, float], ...]


@dataclass(frozen=True)
class OpenRequest:
    """A request under way; how many of its runs are done, failed and running.

    ``ahead`` is how many waiting runs come before the next of its own; ``seconds_left`` is None while nothing is known.
    """

    request: Request
    runs: tuple[RunConfig, ...]
    done: int
    failed: int
    running: int
    ahead: int
    seconds_left: float | None


@dataclass(frozen=True)
class Overview:
    """The open requests, those whose turn comes first before the others; what trains, what waits in its order, what failed lately."""

    requests: tuple[OpenRequest, ...]
    running: Mapping[str, tuple[RunConfig, Running]]
    waiting: tuple[tuple[str, RunConfig], ...]
    failures: tuple[tuple[RunConfig, str], ...]


def read_queue(store: Store, live: Live) -> Queue:
    """Read the open requests from the store."""
    requests = store.requests.all()
    opened = tuple(request for request in requests if request.state == "open")
    asked = tuple(Asked(request.id, store.requests.plan(request.id)) for request in opened)
    runs = {run.key: run for request in asked for run in request.runs}
    done, failures = store.done(runs), store.failures(runs)
    taken = {*done, *failures, *live.running}
    # What workers have been given is beyond the turns: it is begun as soon as one is free.
    owners = {run.key: request.id for request in reversed(asked) for run in request.runs}
    given = {key: (owners[key], runs[key]) for key in live.next if key in runs and key not in taken}
    waiting = (*given.values(), *fair_order(asked, {*taken, *given}, live.turns))
    lately = [request.id for request in requests if request.state == "stopped"][-LATELY:]
    return Queue(
        opened,
        asked,
        runs,
        done,
        failures,
        waiting,
        {run.key: place for place, (_, run) in enumerate(waiting, 1)},
        {run.key for request_id in lately for run in store.requests.plan(request_id)},
        _measured(store, (run for key, run in runs.items() if key in done)),
    )


def _measured(store: Store, done: Iterable[RunConfig]) -> tuple[tuple[RunConfig, float], ...]:
    """The wall times of some results of each kind."""
    kinds: dict[Hashable, deque[str]] = {}
    for run in done:
        kinds.setdefault(run.pack_key(), deque(maxlen=MEASURED)).append(run.key)
    results = store.get_many(key for keys in kinds.values() for key in keys)
    return tuple((result.config, result.seconds) for result in results.values())


def times_left(queue: Queue, live: Live) -> dict[str, float]:
    """In how many seconds each unfinished run will be done, by key; see :func:`lab.engine.estimate.finish_times`."""
    under_way = {queue.runs[key]: run for key, run in live.running.items() if key in queue.runs}
    so_far = [(config, run.whole) for config, run in under_way.items() if run.whole is not None]
    slots: dict[str, dict[RunConfig, float | None]] = {}
    for config, run in under_way.items():
        slot = run.worker if live.pack > 1 else config.key  # the runs of a pack share their slot
        slots.setdefault(slot, {})[config] = run.seconds_left
    typical = typical_seconds([*queue.measured, *so_far])
    return finish_times(list(slots.values()), [run for _, run in queue.waiting], typical, live.slots, live.pack)


def overview(store: Store, queue: Queue, live: Live) -> Overview:
    """All of it at a glance."""
    times = times_left(queue, live)

    def far(request: Request, asked: Asked) -> OpenRequest:
        keys = [run.key for run in asked.runs]
        left = [key for key in keys if key not in queue.done and key not in queue.failures]
        running = sum(key in live.running for key in left)
        first = min((queue.places[key] for key in left if key in queue.places), default=1)
        return OpenRequest(
            request,
            asked.runs,
            sum(key in queue.done for key in keys),
            sum(key in queue.failures for key in keys),
            running,
            0 if running else first - 1,
            seconds_left(left, times),
        )

    # One whose runs cannot be read has none; the engine closes it.
    found = [far(request, asked) for request, asked in zip(queue.requests, queue.asked, strict=True) if asked.runs]
    found.sort(key=lambda one: (one.running == 0, one.ahead, one.request.id))
    running = {key: (queue.runs[key], run) for key, run in live.running.items() if key in queue.runs}
    return Overview(tuple(found), running, queue.waiting, _failures(store, queue))


def _failures(store: Store, queue: Queue) -> tuple[tuple[RunConfig, str], ...]:
    """Each failed run of the open and of the latest requests, once, the latest request first."""
    ids = [request.id for request in store.requests.all() if request.state != "open"][-LATEST_FAILURES:]
    plans = [store.requests.plan(request_id) for request_id in (*ids, *(request.id for request in queue.requests))]
    runs = {run.key: run for plan in reversed(plans) for run in plan}
    causes = store.failures(runs)
    return tuple((run, causes[key]) for key, run in runs.items() if key in causes)
