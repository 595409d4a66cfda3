"""How long is left: from what has been measured of the runs at hand, never from a promise."""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

from lab.config import RunConfig
from lab.engine.dispatch import take_packs


def typical_seconds(measured: Iterable[tuple[RunConfig, float]]) -> dict[Hashable, float]:
    """The median time of each kind of run, by :meth:`RunConfig.pack_key`: runs that differ in arm and seed alone cost the same."""
    seconds: dict[Hashable, list[float]] = {}
    for config, took in measured:
        seconds.setdefault(config.pack_key(), []).append(took)
    return {kind: statistics.median(times) for kind, times in seconds.items()}


def finish_times(
    running: Sequence[Mapping[RunConfig, float | None]],
    waiting: Sequence[RunConfig],
    typical: Mapping[Hashable, float],
    slots: int,
    pack: int = 1,
) -> dict[str, float]:
    """In how many seconds each run will be done, by key, if every run takes as long as others of its kind have.

    ``running`` holds the seconds left of what each busy slot trains, None for a run that has not made a step; ``waiting`` the other runs in
    the order in which they will be started, whoever asked for them: each slot that becomes free takes the next up to ``pack`` of them.
    A run of a kind that nothing is known of yet takes its place in the queue, at the mean of the known kinds, and gets no time itself.
    """
    if not typical or slots < 1:
        return {}
    guess = statistics.fmean(typical.values())
    times: dict[str, float] = {}

    def occupy(start: float, left: Mapping[RunConfig, float | None]) -> float:
        """When a slot is free again that trains these runs from ``start`` on."""
        end = start
        for config, seconds in left.items():
            known = typical.get(config.pack_key()) if seconds is None else seconds
            if known is not None:
                times[config.key] = start + known
            end = max(end, start + (guess if known is None else known))
        return end

    free = [occupy(0.0, left) for left in running]
    free += [0.0] * (slots - len(free))
    heapq.heapify(free)
    for runs in take_packs((("", config) for config in waiting), len(waiting), pack):
        heapq.heapreplace(free, occupy(free[0], dict.fromkeys(config for _, config in runs)))
    return times


def seconds_left(keys: Collection[str], times: Mapping[str, float]) -> float | None:
    """Seconds until the last of these unfinished runs is done; None while one is of a kind that nothing is known of."""
    return max((times[key] for key in keys), default=0.0) if all(key in times for key in keys) else None


def in_words(seconds: float) -> str:
    """``about 40 s``, ``about 3 min``, ``about 2 h``."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"
