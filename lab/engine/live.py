"""What the engine says of itself while it works: one small JSON file, replaced whole."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.results import CurvePoint
from lab.store import UNREADABLE


@dataclass
class Running:
    """A run that is being trained: where it is, and its learning curve so far."""

    step: int = 0
    steps: int = 0
    seconds: float = 0.0
    points: list[CurvePoint] = field(default_factory=list)
    worker: str = ""


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
    """The whole record. ``turns`` is how many runs each open request has had, for the places in the queue."""

    pid: int = 0
    message: str = ""
    slots: int = 0
    workers: list[Worker] = field(default_factory=list)
    turns: dict[str, int] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)


def write_live(path: Path, live: Live) -> None:
    """Replace the file; a full disk is no reason to stop working."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        temporary.write_text(json.dumps(asdict(live)), encoding="utf-8")
        temporary.replace(path)


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
