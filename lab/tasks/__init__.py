"""The registry of tasks: one file a task, one line here."""

from __future__ import annotations

from lab.tasks.base import PAD, Split, Task, TaskData, TaskError, TaskInfo
from lab.tasks.digits import Digits
from lab.tasks.listops import ListOps

TASKS: dict[str, Task] = {task.info.name: task for task in (Digits(), ListOps())}


def get_task(name: str) -> Task:
    """The task called ``name``. Raises :class:`TaskError` naming the ones there are."""
    try:
        return TASKS[name]
    except KeyError:
        raise TaskError(f"task is {name!r}; it must be one of {', '.join(TASKS)}.", "task") from None


__all__ = ["PAD", "TASKS", "Split", "Task", "TaskData", "TaskError", "TaskInfo", "get_task"]
