"""How many arms train at a time where memory is scarce: measured, extrapolated, and fewer when that was too many.

The two functions that decide know nothing of a GPU; the two below them ask it.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

MARGIN = 0.85
"""Share of the free memory that a pack may be expected to take: the rest is for what is not linear in the arms."""

Item = TypeVar("Item")
Done = TypeVar("Done")


def most_arms(arms: int, peak: Callable[[int], int], free: int) -> int:
    """The most of ``arms`` that fit into ``free`` bytes, at least 1, if memory is ``fixed + k each`` bytes for k arms.

    ``peak(k)`` measures k arms, and is asked for 1 and 2. If 2 do not fit (:class:`torch.OutOfMemoryError`), the answer is 1.
    """
    if arms == 1:
        return 1
    try:
        one, two = peak(1), peak(2)
    except torch.OutOfMemoryError:
        return 1
    more = (MARGIN * free - one) // max(1, two - one)
    return max(1, min(arms, 1 + int(more)))


def in_chunks(
    items: Sequence[Item], most: int, work: Callable[[Sequence[Item]], list[Done]], give_up: Callable[[Item], Done]
) -> list[Done]:
    """``work`` on at most ``most`` items at a time, one chunk after the other: what came of each, in order.

    A chunk that runs out of memory (:class:`torch.OutOfMemoryError`) is tried again in halves, and chunks after it are no larger;
    what does not fit alone is given up.
    """
    done: list[Done] = []
    while left := items[len(done) :]:
        chunk = left[: math.ceil(len(left) / math.ceil(len(left) / most))]  # even chunks: the last is no remnant
        try:
            done += work(chunk)
            fits = True
        except torch.OutOfMemoryError:
            fits = False
        # Not within the except: there, the traceback still holds what did not fit.
        if not fits:
            most = max(1, len(chunk) // 2)
            if len(chunk) == 1:
                done.append(give_up(chunk[0]))
        if len(done) < len(items):
            release()
    return done


def free_bytes(device: torch.device) -> int:
    """Memory of a GPU that nobody uses."""
    release()
    return int(torch.cuda.mem_get_info(device)[0])


def peak_bytes(device: torch.device, *phases: Callable[[], object]) -> int:
    """The most memory of a GPU that each phase takes beyond what was taken before the first, summed over the phases.

    The sum, since a captured step keeps its memory while the next phase runs.
    """
    before, total = torch.cuda.memory_allocated(device), 0
    for phase in phases:
        torch.cuda.reset_peak_memory_stats(device)
        phase()
        total += torch.cuda.max_memory_allocated(device) - before
    return total


def release() -> None:
    """Give back the memory of tensors that nobody holds any more."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
