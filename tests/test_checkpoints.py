"""Checkpoints: whatever interrupts a run, it ends with the bits of a run that nothing interrupted."""

import errno
import json
import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch

import lab.pack
from lab import checkpoints
from lab.checkpoints import Checkpoint, CheckpointFile, sweep
from lab.config import RunConfig
from lab.engine import worker
from lab.results import RunResult
from lab.training import Trained, TrainingError, provenance, train_pack

SMALL = {"width": 8, "ffn": 16, "batch": 8, "steps": 12, "eval_every": 5}
ROOT = Path(__file__).parents[1]


@pytest.fixture
def every_step(monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)


class Killed(BaseException):
    """Stands for the end of the process."""


def at_call(number, what):
    """A should_stop that does something at its n-th call."""
    calls = count(1)
    return lambda _: next(calls) == number and what()


def die():
    raise Killed


def trained(configs, **more):
    return train_pack(configs, device="cpu", **more)


def interrupted(configs, folder, step):
    """Train until just before a step, then die."""
    with pytest.raises(Killed):
        trained(configs, checkpoints=folder, should_stop=at_call((step - 1) * len(configs) + 1, die))


def same(one, other):
    """Whether two outcomes of a run are the same to the last bit, but for how long they took and where they were interrupted."""
    if not isinstance(one, Trained) or not isinstance(other, Trained):
        return type(one) is type(other) and str(one) == str(other)
    a, b = json.loads(one.result.to_json()), json.loads(other.result.to_json())
    for record in (a, b):
        del record["seconds"]
        record["provenance"].pop("resumed", None)
    equal = [one.arrays[name].tobytes() == other.arrays[name].tobytes() for name in one.arrays]
    return a == b and one.arrays.keys() == other.arrays.keys() and all(equal)


KILLED = """
import json, os, signal, sys
from pathlib import Path
import lab.checkpoints
from lab.config import RunConfig
from lab.training import train_pack

order = json.loads(sys.argv[1])
lab.checkpoints.SECONDS = 0.0
configs = [RunConfig.from_json(text) for text in order["configs"]]
steps = dict.fromkeys((config.key for config in configs), 0)

def should_stop(key):
    steps[key] += 1
    if key == configs[-1].key and steps[key] == order["killed_before"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return key == configs[0].key and steps[key] == order["stopped_before"]

train_pack(configs, device="cpu", checkpoints=Path(order["folder"]), should_stop=should_stop)
"""


def kill_a_process(configs, folder, killed_before, stopped_before=0):
    order = {"configs": [c.json for c in configs], "folder": str(folder)}
    order |= {"killed_before": killed_before, "stopped_before": stopped_before}
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads()), "PYTHONPATH": str(ROOT)}
    child = subprocess.run([sys.executable, "-c", KILLED, json.dumps(order)], env=environment, timeout=120, check=False)
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "fields",
    [
        {"position": "after_embedding"},
        {"position": "after_ffn", "dropout": 0.2},
        {"position": "between_layers", "learnable": True, "strides": (1, 2), "alpha": 0.2},
    ],
    ids=["fixed", "dropout", "learnable"],
)
def test_a_run_killed_in_one_process_ends_in_another_with_the_same_bits(tmp_path, fields):
    config = RunConfig(**SMALL, **fields)
    kill_a_process([config], tmp_path, killed_before=9)
    said, steps = [], count()
    resumed = trained(
        [config], checkpoints=tmp_path, on_progress=said.append, should_stop=lambda _: next(steps) and False
    )[0]
    assert next(steps) == 12 - 8  # steps 9 to 12
    assert resumed.result.provenance["resumed"] == "1"
    assert same(resumed, trained([config])[0])
    assert [p.point for p in said if p.point] == list(resumed.result.curve)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "fields", [{"task": "listops", "permuted": True, "position": "before_ln"}, {"precision": "bfloat16"}]
)
def test_padding_and_bfloat16_are_resumed_with_the_same_bits_too(tmp_path, every_step, fields):
    config = RunConfig(**SMALL, **fields)
    interrupted([config], tmp_path, 8)
    resumed = trained([config], checkpoints=tmp_path)[0]
    assert resumed.result.provenance["resumed"] == "1"
    assert same(resumed, trained([config])[0])


def test_a_pack_of_which_one_run_was_stopped_is_resumed_as_a_whole(tmp_path):
    configs = [RunConfig(**SMALL, dropout=0.1, seed=s) for s in range(3)]
    kill_a_process(configs, tmp_path, killed_before=8, stopped_before=4)
    resumed = trained(configs, checkpoints=tmp_path)
    calls = count(1)
    whole = trained(configs, should_stop=lambda key: key == configs[0].key and next(calls) == 4)
    assert resumed[0] is whole[0] is None
    assert [run.result.provenance["resumed"] for run in resumed[1:]] == ["1", "1"]
    assert all(map(same, resumed, whole))


def test_a_process_killed_in_the_middle_of_writing_leaves_the_checkpoint_before(tmp_path, every_step, monkeypatch):
    config = RunConfig(**SMALL)
    replace, writes = Path.replace, count(1)
    monkeypatch.setattr(Path, "replace", lambda *paths: die() if next(writes) == 4 else replace(*paths))
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # the dead clean nothing up
    with pytest.raises(Killed):
        trained([config], checkpoints=tmp_path)
    monkeypatch.undo()
    assert len(list(tmp_path.iterdir())) == 2
    resumed = trained([config], checkpoints=tmp_path)[0]
    assert resumed.result.provenance["resumed"] == "1"
    assert same(resumed, trained([config])[0])
    (left,) = tmp_path.iterdir()
    os.utime(left, (0, 0))
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_stays_failed_and_its_neighbour_goes_on(tmp_path, every_step, monkeypatch):
    configs = [RunConfig(**SMALL, seed=s) for s in (0, 1)]
    sound = lab.pack.per_arm_loss
    monkeypatch.setattr(lab.pack, "per_arm_loss", lambda *given: sound(*given) * torch.tensor([torch.nan, 1.0]))
    interrupted(configs, tmp_path, 8)
    failed, neighbour = trained(configs, checkpoints=tmp_path)
    assert isinstance(failed, TrainingError)
    assert "step 5" in str(failed)
    assert neighbour.result.provenance["resumed"] == "1"
    assert same(neighbour, trained(configs)[1])
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_run_keeps_its_checkpoint_and_goes_on_when_asked_for_again(tmp_path, every_step):
    config = RunConfig(**SMALL)
    for number in (4, 4):
        assert trained([config], checkpoints=tmp_path, should_stop=at_call(number, lambda: True)) == [None]
        assert len(list(tmp_path.iterdir())) == 1
    again = trained([config], checkpoints=tmp_path)[0]
    assert again.result.provenance["resumed"] == "2"
    assert same(again, trained([config])[0])
    assert list(tmp_path.iterdir()) == []


def test_a_worker_keeps_checkpoints_in_the_folder_of_its_cache(tmp_path, every_step, monkeypatch):
    told = []

    class Worker:
        name, address, dies_at = "0", "tcp://here", 8

        def log_event(self, topic, message):
            told.append(message)
            if message.get("step") == Worker.dies_at:
                die()

    config = RunConfig(**SMALL)
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    monkeypatch.setattr(lab.pack, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(worker, "get_worker", Worker)
    with pytest.raises(Killed):
        worker.train([config.json], "an attempt")
    (path,) = (tmp_path / "checkpoints").iterdir()
    assert path == file_of([config], tmp_path / "checkpoints").path
    told.clear()
    Worker.dies_at = 99
    ((text, _),) = worker.train([config.json], "another")
    assert RunResult.from_json(text).provenance["resumed"] == "1"
    assert [m["step"] for m in told if "step" in m] == [5, 8, 9, 10, 11, 12]


def test_the_seconds_of_all_attempts_count(tmp_path, every_step):
    config = RunConfig(**SMALL)
    interrupted([config], tmp_path, 8)
    file = file_of([config], tmp_path)
    found = file.read()
    file.write(Checkpoint(found.arrays, {**found.record, "seconds": 5000.0}))
    assert 5000 < trained([config], checkpoints=tmp_path)[0].result.seconds < 6000


def test_a_run_that_takes_less_than_the_interval_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(CheckpointFile, "write", lambda *_: die())
    assert isinstance(trained([RunConfig(**SMALL)], checkpoints=tmp_path)[0], Trained)
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    with pytest.raises(Killed):
        trained([RunConfig(**SMALL)], checkpoints=tmp_path)


def test_a_checkpoint_belongs_to_one_order_of_the_runs(tmp_path, every_step):
    configs = [RunConfig(**SMALL, seed=s) for s in (0, 1)]
    interrupted(configs, tmp_path, 6)
    turned = trained(configs[::-1], checkpoints=tmp_path)
    assert all(map(same, turned, trained(configs[::-1])))
    assert "resumed" not in turned[0].result.provenance


def file_of(configs, folder, **origin):
    made_here = provenance(torch.device("cpu"), len(configs))
    return CheckpointFile(folder, [c.key for c in configs], {**made_here, **origin})


DAMAGE = {
    "a bit of the arrays": lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
    "a digit of the record": lambda data: data.replace(b"7654", b"7655", 1),
    "a name": lambda data: data.replace(b"weights", b"waights", 1),
    "cut short": lambda data: data[: len(data) // 2],
    "cut by one byte": lambda data: data[:-1],
    "empty": lambda data: b"",
    "no safetensors": lambda data: b"PK\x03\x04" + data,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
def test_a_damaged_checkpoint_is_removed_and_not_used(tmp_path, damage):
    file = file_of([RunConfig(**SMALL)], tmp_path)
    state = Checkpoint({"weights": np.arange(9, dtype=np.float32), "step": np.float32(3)}, {"step": 7654})
    file.write(state)
    sound = file.path.read_bytes()
    assert file.read().record == state.record
    assert damage(sound) != sound
    file.path.write_bytes(damage(sound))
    assert file.read() is None
    assert not file.path.exists()


def test_a_run_whose_checkpoint_is_damaged_begins_anew(tmp_path, every_step):
    config = RunConfig(**SMALL)
    interrupted([config], tmp_path, 8)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    anew = trained([config], checkpoints=tmp_path)[0]
    assert "resumed" not in anew.result.provenance
    assert same(anew, trained([config])[0])


@pytest.mark.parametrize("change", ["name", "shape", "record"])
def test_a_checkpoint_that_other_code_wrote_is_removed_and_the_run_begins_anew(tmp_path, every_step, change):
    configs = [RunConfig(**SMALL, seed=1)]
    whole = trained(configs)[0]
    interrupted(configs, tmp_path, 6)
    file = file_of(configs, tmp_path)
    kept = file.read()
    name = "parameter.free"
    if change == "name":
        kept.arrays["parameter.other"] = kept.arrays.pop(name)
    elif change == "shape":
        kept.arrays[name] = kept.arrays[name][:, 1:]
    else:
        del kept.record["curves"]
    file.write(kept)
    again = trained(configs, checkpoints=tmp_path)[0]
    assert same(whole, again)
    assert "resumed" not in again.result.provenance
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_made_elsewhere_or_in_another_format_is_removed_and_not_used(tmp_path, monkeypatch):
    config = RunConfig(**SMALL)
    state = Checkpoint({"x": np.arange(3, dtype=np.float32)}, {"step": 1})
    here = file_of([config], tmp_path)
    for origin in ({"torch": "0.1"}, {"threads": "64"}, {"capability": "none"}, {"arms": "2"}, {"data": "own"}):
        file_of([config], tmp_path, **origin).write(state)
        assert here.path.exists()
        assert here.read() is None
        assert not here.path.exists()
    monkeypatch.setattr(checkpoints, "FORMAT", 0)
    here.write(state)
    assert here.read().record == state.record
    monkeypatch.undo()
    assert here.read() is None
    here.write(state)
    assert np.array_equal(here.read().arrays["x"], state.arrays["x"])


def test_a_run_goes_on_where_no_checkpoint_can_be_written(tmp_path, every_step, monkeypatch):
    config = RunConfig(**SMALL)
    alone = trained([config])[0]
    (tmp_path / "a file").touch()
    assert same(trained([config], checkpoints=tmp_path / "a file")[0], alone)
    tried = []

    def full(path, data):
        tried.append(path)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoints, "write_whole", full)
    assert same(trained([config], checkpoints=tmp_path)[0], alone)
    assert len(tried) == config.steps


def _fill(folder, number, size, age):
    path = folder / f"{number:064x}.safetensors"
    path.write_bytes(bytes(size))
    now = path.stat().st_mtime
    os.utime(path, (now - age, now - age))
    return path


def test_old_checkpoints_are_swept_and_the_folder_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "KEPT_BYTES", 1000)
    stranger = tmp_path / "thesis.safetensors"
    stranger.write_bytes(bytes(5000))
    os.utime(stranger, (0, 0))
    week_old = _fill(tmp_path, 1, 10, 8 * 24 * 3600)
    oldest, middle, newest = (_fill(tmp_path, n, 400, age) for n, age in ((2, 300), (3, 200), (4, 100)))
    sweep(tmp_path)
    assert not week_old.exists()
    assert [p.exists() for p in (oldest, middle, newest, stranger)] == [False, True, True, True]
    sweep(tmp_path, keep=_fill(tmp_path, 5, 900, 9 * 24 * 3600))
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / f"{5:064x}.safetensors", stranger])
