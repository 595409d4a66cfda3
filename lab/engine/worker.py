"""What runs inside a Dask worker: training one pack, telling how far it is, ending when asked to."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from distributed import get_worker
from numpy.typing import NDArray

from lab.config import RunConfig
from lab.engine.causes import cause
from lab.results import Progress
from lab.store import default_path
from lab.tasks.own_task import receive_own

TOPIC = "lab-progress"

Outcome = tuple[str, dict[str, NDArray[Any]]] | str | None
"""A result as JSON and its arrays; or why the run failed; or None for a run that was stopped."""

_stopping: dict[tuple[str, str], None] = {}


def stop(attempt: str, keys: Sequence[str]) -> None:
    """End these runs of an attempt at their next step, or at once when they have yet to begin."""
    _stopping.update(dict.fromkeys((attempt, key) for key in keys))
    for old in list(_stopping)[:-10_000]:  # attempts that ran elsewhere
        del _stopping[old]


def train(config_jsons: Sequence[str], attempt: str, data: bytes | None = None) -> list[Outcome]:
    """Train a pack: what became of each run. ``data`` is the file of the reader's own task that it trains on, where it was sent along."""
    configs = [RunConfig.from_json(text) for text in config_jsons]
    keys = [config.key for config in configs]
    if all((attempt, key) in _stopping for key in keys):
        return [None] * len(configs)
    if data is not None:
        receive_own(configs[0].task, data)

    from lab.training import Trained, default_device, train_pack

    worker = get_worker()
    device = _device(default_device(), worker.name)

    def tell(message: dict[str, object]) -> None:
        worker.log_event(TOPIC, {"attempt": attempt, **message})

    def on_progress(progress: Progress) -> None:
        point = progress.point and [progress.point.step, progress.point.loss, progress.point.accuracy]
        tell(
            {
                "key": progress.key,
                "step": progress.step,
                "steps": progress.steps,
                "seconds": progress.seconds,
                "point": point,
            }
        )

    tell(
        {
            "began": worker.address,
            "device": _in_words(device),
            "pid": os.getpid(),
            "streamlit": "streamlit" in sys.modules,
        }
    )
    trained = train_pack(
        configs,
        device=device,
        on_progress=on_progress,
        should_stop=lambda key: (attempt, key) in _stopping,
        checkpoints=default_path() / "checkpoints",
    )
    outcomes: list[Outcome] = []
    for run in trained:
        if isinstance(run, Trained):
            outcomes.append((run.result.to_json(), run.arrays))
        else:
            outcomes.append(None if run is None else cause(run))
    return outcomes


def _device(device: str, name: object) -> str:
    """One GPU a worker where there are several: worker number i takes GPU i."""
    if device == "cuda" and str(name).isdecimal():
        import torch

        return f"cuda:{int(str(name)) % torch.cuda.device_count()}"
    return device


def _in_words(device: str) -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else "CPU"
