"""How long is left: from what has been measured of the runs at hand, never from a promise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping

from lab.engine.client import RunState


def seconds_left(states: Mapping[str, RunState], finished: Iterable[float], slots: int) -> float | None:
    """Seconds until all of these runs are done; None while nothing has been measured yet.

    ``finished`` are the wall times of like runs. What waits ahead in the queue is counted at the typical time of ours, and the work is
    shared by ``slots`` workers; never less than the longest run that is under way.
    """
    running = [state for state in states.values() if state.kind == "running"]
    left = [state.seconds_left for state in running if state.seconds_left is not None]
    whole = list(finished) or [s.seconds / s.step * s.steps for s in running if s.step]
    if not whole:
        return None
    typical = statistics.median(whole)
    # A run that has not made a step yet is as good as whole.
    left += [typical] * (len(running) - len(left))
    ahead = max((state.place for state in states.values() if state.place), default=0)
    return max([math.fsum([*left, typical * ahead]) / max(1, slots), *left])


def in_words(seconds: float) -> str:
    """``about 40 s``, ``about 3 min``, ``about 2 h``."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"
