"""Which run comes next: every open request in turn, each in its own order, each run once."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.config import RunConfig


@dataclass(frozen=True)
class Asked:
    """An open request and its runs, in the order they are wanted."""

    id: str
    runs: tuple[RunConfig, ...]


def fair_order(
    asked: Sequence[Asked], taken: Collection[str], turns: Mapping[str, int]
) -> Iterator[tuple[str, RunConfig]]:
    """The waiting runs in the order they will be started, each with the request whose turn it is.

    The request that has had the fewest turns comes next, the older one first; a request without any yet starts level
    with the one that has had the fewest. ``taken`` holds the keys of runs that are done, failed or running.
    """
    seen = set(taken)
    waiting = {request.id: iter(request.runs) for request in asked}
    least = min((turns[request.id] for request in asked if request.id in turns), default=0)
    heap = [(turns.get(request.id, least), request.id) for request in asked]
    heapq.heapify(heap)
    while heap:
        turn, request_id = heapq.heappop(heap)
        for run in waiting[request_id]:
            if run.key not in seen:
                seen.add(run.key)
                yield request_id, run
                heapq.heappush(heap, (turn + 1, request_id))
                break


def take_packs(
    order: Iterable[tuple[str, RunConfig]], count: int, size: int, solo: Collection[str] = ()
) -> list[list[tuple[str, RunConfig]]]:
    """The next ``count`` packs: runs that can train together, at most ``size`` each; ``solo`` keys each alone."""
    packs: list[list[tuple[str, RunConfig]]] = []
    kinds: list[tuple[object, ...] | None] = []  # None for a pack that takes no more
    if count <= 0:
        return packs
    for request_id, run in order:
        kind = run.pack_key() if size > 1 and run.key not in solo else None
        place = next((i for i, k in enumerate(kinds) if kind is not None and k == kind), None)
        if place is not None:
            packs[place].append((request_id, run))
            if len(packs[place]) == size:
                kinds[place] = None
        elif len(packs) < count:
            packs.append([(request_id, run)])
            kinds.append(kind)
        if len(packs) == count and all(k is None for k in kinds):
            break
    return packs
