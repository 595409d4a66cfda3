"""The registry of tasks: one file a task, one line here."""

from __future__ import annotations

from lab.tasks.base import PAD, Split, Task, TaskData, TaskError, TaskInfo
from lab.tasks.digits import Digits
from lab.tasks.image import LraImage
from lab.tasks.listops import ListOps, LraListOps
from lab.tasks.lra_pathfinder import LraPathfinder, LraPathX
from lab.tasks.lra_retrieval import LraRetrieval
from lab.tasks.lra_text import LraText
from lab.tasks.own_task import PREFIX, SIZES, OwnTask, own_names
from lab.tasks.pathfinder import Pathfinder, PathX
from lab.tasks.retrieval import Retrieval
from lab.tasks.text import Text

TASKS: dict[str, Task] = {
    task.info.name: task
    for task in (
        *(Digits(), ListOps(), Text(), Retrieval(), Pathfinder(), PathX()),
        *(LraListOps(), LraText(), LraRetrieval(), LraImage(), LraPathfinder(), LraPathX()),
    )
}


def get_task(name: str) -> Task:
    """The task called ``name``. Raises :class:`TaskError` naming the ones there are."""
    if name.startswith(PREFIX):
        return OwnTask(name)
    try:
        return TASKS[name]
    except KeyError:
        raise TaskError(f"task is {name!r}; it must be one of {', '.join(TASKS)}.", "task") from None


def available() -> list[tuple[str, str, str]]:
    """Name, size and why it cannot be loaded here (empty if it can) of every task, the reader's own ones last."""
    rows = []
    for name in (*TASKS, *own_names()):
        try:
            task = get_task(name)
            rows += [(name, size, task.unavailable(size)) for size in task.info.sizes]
        except TaskError as error:  # a damaged file of the reader's own
            rows += [(name, size, str(error)) for size in SIZES]
    return rows


__all__ = ["PAD", "TASKS", "Split", "Task", "TaskData", "TaskError", "TaskInfo", "available", "get_task", "own_names"]
