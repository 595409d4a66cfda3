"""Why a run failed, in one short sentence for people."""

from __future__ import annotations

from lab.errors import LabError


def cause(error: BaseException) -> str:
    """The sentence that is stored with a failed run."""
    name, line = type(error).__name__, first_line(error)
    if name == "KilledWorker":
        return "Its worker process died again and again, perhaps for want of memory."
    if isinstance(error, LabError) or name == "TrainingError":  # written to be read
        return line
    return f"{name}: {line}"


def first_line(error: BaseException) -> str:
    """The first line of what an exception says, or its name if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
