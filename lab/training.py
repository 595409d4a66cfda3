"""Training: a pack of configs in, one result for each out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch

from lab.batches import DeviceSplit
from lab.checkpoints import CheckpointFile
from lab.config import RunConfig
from lab.measures import depth_profile
from lab.memory import free_bytes, in_chunks, most_arms, peak_bytes, release
from lab.pack import EVAL_TOKENS, Pack, StaleCheckpointError, Trained, TrainingError, accuracy, provenance
from lab.results import Progress
from lab.tasks import Split, TaskData, get_task


def default_device() -> str:
    """``cuda`` if there is a GPU, else ``cpu``."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def train_pack(
    configs: Sequence[RunConfig],
    *,
    device: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[str], bool] | None = None,
    checkpoints: Path | None = None,
) -> list[Trained | TrainingError | None]:
    """Train configs that differ only in position, α, controls and seed, together; on a GPU as many at a time as its memory holds.

    ``on_progress`` hears of every measured point and otherwise about four times a second; ``should_stop(key)`` is asked before every
    step, and a run that it stops comes back as None. A run whose numbers are no longer finite, or that does not fit in memory, comes back
    as the :class:`TrainingError` that says so, and does not disturb the others; where every run's loss has ceased to be finite, the first
    one's error is raised.

    ``checkpoints`` is a folder in which runs over half a minute leave where they stand (:mod:`lab.checkpoints`). The same configs
    in the same order, trained again on a CPU after they were stopped or killed, come to the same bits as without interruption. Their
    seconds are those of all attempts, less what an attempt did after its last checkpoint.
    """
    where = torch.device(device or default_device())
    data = get_task(configs[0].task).load(configs[0].size)
    tell, stop = _Onwards(on_progress or (lambda _: None)), should_stop or (lambda _: False)
    finished: list[CheckpointFile] = []

    def train(chunk: Sequence[RunConfig]) -> list[Trained | TrainingError | None]:
        file = None
        if checkpoints is not None:
            file = CheckpointFile(
                checkpoints, [config.key for config in chunk], provenance(where, len(chunk), data.digest)
            )
        pack = Pack(chunk, data, where, tell, stop, file)
        try:
            runs = pack.train()
        except StaleCheckpointError:
            assert file is not None
            file.remove()
            pack = Pack(chunk, data, where, tell, stop, file)
            runs = pack.train()
        if file is not None and pack.finished:
            finished.append(file)
        return runs

    on_gpu = where.type == "cuda"
    with torch.cuda.device(where) if on_gpu else nullcontext():
        most = _most_that_fit(configs, data, where) if on_gpu else len(configs)
        runs = in_chunks(configs, most, train, _too_large)
    # Only now: a pack that is killed in a later chunk need not train this one again.
    for file in finished:
        file.remove()
    if all(isinstance(run, TrainingError) and run.step is not None for run in runs):
        assert isinstance(runs[0], TrainingError)
        raise runs[0]
    return runs


class _Onwards:
    """Progress that never goes back: what was told before a pack began again in smaller chunks is not told twice."""

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        self._on_progress = on_progress
        self._told: dict[str, int] = {}

    def __call__(self, progress: Progress) -> None:
        if progress.step > self._told.get(progress.key, 0):
            self._told[progress.key] = progress.step
            self._on_progress(progress)


def _most_that_fit(configs: Sequence[RunConfig], data: TaskData, device: torch.device) -> int:
    """How many of these runs fit in a GPU's memory together, from what the steps and measures of 1 and of 2 runs take."""
    # The longest sequences, as ragged batches differ; uncaptured steps, as a captured one keeps what such a step takes.
    longest = int(data.train.lengths.reshape(len(data.train), -1).max(1).argmax())
    held_out = int(data.test.lengths.reshape(len(data.test), -1).max(1).argmax())
    rows = np.full(min(len(data.test), max(1, EVAL_TOKENS[device.type] // data.length)), held_out)
    test = DeviceSplit(Split(data.test.tokens[rows], data.test.lengths[rows], data.test.labels[rows]), device)

    def peak(arms: int) -> int:
        pack: list[Pack] = []

        def steps() -> None:
            pack.append(Pack(configs[:arms], data, device, lambda _: None, lambda _: False))
            index = torch.full((arms, configs[0].batch), longest, device=device)
            for _ in range(2):  # the optimiser has its state from the second on
                pack[0]._update(*pack[0].train_split.batch(index))

        def measures() -> None:
            accuracy(pack[0].model, test)
            depth_profile(pack[0].model, test)

        return peak_bytes(device, steps, measures)

    most = most_arms(len(configs), peak, free_bytes(device))
    release()
    return most


def _too_large(config: RunConfig) -> TrainingError:
    return TrainingError(
        f"A run of {config.layers} layers of width {config.width} with batches of {config.batch} does not fit in the GPU's memory; "
        "a smaller batch or a smaller model may."
    )
