"""What the engine says of itself while it works: one small JSON file, replaced whole."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from lab.results import CurvePoint
from lab.store import UNREADABLE

STARTING = "The engine is starting."


@dataclass
class Running:
    """A run that is being trained: where it is, and its learning curve so far."""

    step: int = 0
    steps: int = 0
    seconds: float = 0.0
    points: list[CurvePoint] = field(default_factory=list)
    worker: str = ""

    @property
    def whole(self) -> float | None:
        """Seconds that all of it will have taken, once it has made a step."""
        return self.seconds / self.step * self.steps if self.step else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds left, once it has made a step."""
        return None if self.whole is None else self.whole - self.seconds


@dataclass
class Worker:
    """A worker process; ``device`` and ``pid`` are known once it has begun its first run."""

    name: str
    address: str
    slots: int = 1
    device: str = ""
    pid: int = 0
    streamlit: bool = False  # never true: a worker that loads pages would run them


@dataclass
class Live:
    """The whole record.

    ``turns`` is how many runs each open request has had, for the places in the queue; ``pack`` how many runs a slot trains
    at a time; ``next`` the runs that workers have been given and have yet to begin; ``since`` when there began to be a
    ``message``, in seconds since 1970.
    """

    pid: int = 0
    message: str = ""
    slots: int = 0
    workers: list[Worker] = field(default_factory=list)
    turns: dict[str, int] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)
    pack: int = 1
    next: list[str] = field(default_factory=list)
    since: float = 0.0


def write_live(path: Path, live: Live) -> None:
    """Replace the file. On a full disk the message at least is told, in the room that the last record took."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(asdict(live)), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        short = replace(live, workers=[], turns={}, running={})
        with contextlib.suppress(OSError), path.open("r+", encoding="utf-8") as file:
            file.write(json.dumps(asdict(short)))
            file.truncate()


def read_live(path: Path) -> Live:
    """The last record, or an empty one if there is none that can be read."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        running = {
            key: Running(**{**run, "points": [CurvePoint(**point) for point in run["points"]]})
            for key, run in record.pop("running").items()
        }
        workers = [Worker(**worker) for worker in record.pop("workers")]
        return Live(**record, workers=workers, running=running)
    except (OSError, *UNREADABLE):
        return Live()
