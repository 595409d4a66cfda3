"""Why a run failed, in one short sentence for people."""

from __future__ import annotations

from lab.errors import LabError
from lab.tasks import TaskError


def cause(error: BaseException) -> str:
    """The sentence that is stored with a failed run."""
    name, line = type(error).__name__, first_line(error)
    if name == "KilledWorker":
        return "Its worker process died again and again, perhaps for want of memory."
    if isinstance(error, LabError) or name == "TrainingError":  # written to be read
        return line
    return f"{name}: {line}"


def cause_elsewhere(error: BaseException, worker: str) -> str:
    """The same for a worker on an existing scheduler, which reads data from its own machine: says where, and what to do."""
    if not isinstance(error, TaskError):
        return cause(error)
    return (
        f"On the machine of {f'the worker {worker}' if worker else 'the worker'}: {first_line(error)} Workers of LAB_SCHEDULER load "
        "fetched data and release files from their own machine, where LAB_DATA, LAB_LRA_DIR or LAB_CIFAR_DIR leads there; "
        "your own data is sent to them."
    )


def first_line(error: BaseException) -> str:
    """The first line of what an exception says, or its name if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
