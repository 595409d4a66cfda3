"""Doing a thing once in so many seconds, by a clock that never jumps."""

from __future__ import annotations

import time


class Every:
    """Called, true once in so many seconds; by the monotonic clock, because the other one may jump."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self._next = seconds, float("-inf")

    def __call__(self) -> bool:
        """Whether it is time again."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self.seconds
        return True
