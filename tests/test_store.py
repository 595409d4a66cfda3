"""The store: what goes in comes out, for many processes, without pickle."""

import json
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from diskcache import Cache

from lab.config import RunConfig
from lab.results import CurvePoint, DepthProfile, OrderSwap, RunResult
from lab.store import Store
from lab.store.text_disk import PickleRefusedError, TextDisk


def make_result(seed: int = 0, points: int = 12) -> RunResult:
    config = RunConfig(position="after_embedding", seed=seed)
    profile = DepthProfile((1.0, 0.5, 0.25), (2.0, 2.0, 2.0), (OrderSwap(0.1, 0.08, 0.05),) * 2)
    curve = tuple(CurvePoint(25 * i, 2.0 / i, i / 20) for i in range(1, points + 1))
    return RunResult(config, 0.5, 0.1, curve, profile, profile, (0.25,), 1000, 500, 1.5, {"device": "cpu"})


def make_arrays(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"weight": rng.normal(size=(8, 3)).astype(np.float32).T, "bias": np.float32([seed]), "scalar": np.array(2.5)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


def test_a_result_comes_back_with_its_arrays(store):
    result, arrays = make_result(), make_arrays()
    store.put(result, arrays)
    again = Store(store.path)
    assert again.get(result.config.key) == result
    read = again.arrays(result.config.key)
    assert read is not None
    assert {name: array.tolist() for name, array in read.items()} == {n: a.tolist() for n, a in arrays.items()}
    assert all(read[name].dtype == arrays[name].dtype and read[name].shape == arrays[name].shape for name in arrays)
    assert again.notices() == []


def test_what_is_not_there_is_missing(store):
    assert store.get("0" * 24) is None
    assert store.arrays("0" * 24) is None
    assert store.failure("0" * 24) is None
    assert list(store.results()) == []


def test_many_results_keep_the_order_asked_for(store):
    results = [make_result(seed) for seed in range(5)]
    for result in results:
        store.put(result, {})
    keys = [result.config.key for result in reversed(results)]
    assert list(store.get_many([*keys, "none"])) == keys
    assert store.done([*keys, "none"]) == set(keys)
    assert {result.config.seed for result in store.results()} == set(range(5))


def test_a_failure_is_kept_until_the_run_succeeds_or_is_asked_for_again(store):
    result = make_result()
    store.fail(result.config.key, "The loss was not a number.")
    assert store.failure(result.config.key) == "The loss was not a number."
    store.requests.add([result.config], "again")
    assert store.failure(result.config.key) is None
    store.fail(result.config.key, "Once more.")
    store.put(result, {})
    assert store.failure(result.config.key) is None


@pytest.mark.faults
def test_requests_are_listed_in_the_order_of_asking_though_the_clock_jumps(store, monkeypatch):
    first = store.requests.add([make_result(0).config], "first")
    monkeypatch.setattr("time.time", lambda: 1.0)
    second = store.requests.add([make_result(1).config, make_result(2).config], "second")
    assert [request.id for request in Store(store.path).requests.all()] == [first, second]
    assert store.requests.plan(second) == (make_result(1).config, make_result(2).config)


def test_closed_requests_are_bounded_and_open_ones_are_not_touched(store, monkeypatch):
    monkeypatch.setattr("lab.store.requests.CLOSED_KEPT", 3)
    config = make_result().config
    kept = store.requests.add([config], "open")
    for _ in range(6):
        store.requests.close(store.requests.add([config], ""), "done")
    store.requests.close(store.requests.add([config], ""), "stopped")
    states = [request.state for request in store.requests.all()]
    assert states == ["open", "done", "done", "stopped"]
    assert store.requests.plan(kept) == (config,)
    store.requests.close(store.requests.all()[1].id, "stopped")
    assert [request.state for request in store.requests.all()].count("stopped") == 1, "a closed request stays as it is"


def test_the_version_changes_with_every_write_and_with_nothing_else(store):
    store.put(make_result(0), {})
    before = store.version()
    store.get(make_result(0).config.key)
    assert Store(store.path).version() == store.version() == before
    Store(store.path).put(make_result(1), {})
    assert store.version() != before


def test_the_folder_is_for_its_owner_alone(store):
    store.put(make_result(), make_arrays())
    assert store.path.stat().st_mode & 0o777 == 0o700
    assert (store.path / "db").stat().st_mode & 0o077 == 0


# pickle


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("thing", [1, 1.5, None, ("a",), {"a": 1}, Path("a")])
def test_only_text_is_taken(tmp_path, thing):
    cache = Cache(str(tmp_path), disk=TextDisk)
    with pytest.raises(PickleRefusedError):
        cache.set("key", thing)
    with pytest.raises(PickleRefusedError):
        cache.set(thing, "value")
    cache.set("key", "value" * 100_000)
    cache.set("bytes", b"\0\1")
    assert cache.get("key") == "value" * 100_000
    assert cache.get("bytes") == b"\0\1"
    assert sorted(path.name for path in tmp_path.rglob("*") if not path.name.startswith("cache.db")) == []


@pytest.mark.faults
def test_a_planted_pickle_is_refused_and_never_runs(store, tmp_path):
    fired, config = tmp_path / "fired", make_result().config
    store.put(make_result(1), {})
    bomb = pickle.dumps(Bomb(fired))
    (store.path / "db" / "planted.val").write_bytes(bomb)
    (store.path / "keep.txt").write_text("kept")
    plant = "INSERT INTO Cache(key, raw, mode, filename, value) VALUES (?, ?, ?, ?, ?)"
    with sqlite3.connect(store.path / "db" / "cache.db") as connection:
        connection.execute(plant, (f"result/{config.key}", 1, 4, None, bomb))
        connection.execute(plant, (f"failure/{config.key}", 1, 4, "planted.val", None))
        connection.execute(plant, ("request/00000009-aaaaaaaa", 1, 3, "../keep.txt", None))
        connection.execute(plant, (bomb, 0, 1, None, "x"))
    connection.close()

    cache = Cache(str(store.path / "db"), disk=TextDisk)
    with pytest.raises(PickleRefusedError):
        cache.get(f"result/{config.key}")
    with pytest.raises(PickleRefusedError):
        list(cache)
    assert store.get(config.key) is None
    assert store.failure(config.key) is None
    assert store.requests.all() == []
    assert list(store.results()) == [make_result(1)]
    assert len(store.notices()) == 3
    store.put(make_result(), {})
    assert store.get(config.key) == make_result()
    assert (store.path / "keep.txt").read_text() == "kept"
    assert not fired.exists()
    pickle.loads(bomb)  # the bomb is live: this is what was refused
    assert fired.exists()


# several at once

WRITER = """
import sys
from test_store import make_arrays, make_result
from lab.store import Store
store = Store(sys.argv[1])
for seed in range(int(sys.argv[2]), int(sys.argv[3])):
    store.put(make_result(seed), make_arrays(seed))
    store.requests.add([make_result(seed).config], str(seed))
"""


def spawn(code: str, *args: object, **options) -> subprocess.Popen[str]:
    tests = Path(__file__).parent
    path = os.pathsep.join([str(tests), str(tests.parent)])
    command = [sys.executable, "-c", code, *map(str, args)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, **pipes, **options)


@pytest.mark.faults
def test_processes_and_threads_write_one_cache(store):
    writers = [spawn(WRITER, store.path, start, start + 20) for start in (0, 20)]
    threads = [
        threading.Thread(target=lambda start=start: [store.put(make_result(s), {}) for s in range(start, start + 20)])
        for start in (40, 60)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors
    assert {result.config.seed for result in store.results()} == set(range(80))
    ids = [request.id[:8] for request in store.requests.all()]
    assert ids == [f"{number:08d}" for number in range(1, 41)], "every request got a number of its own"
    assert store.notices() == []


def test_a_result_is_a_line_of_plain_json_in_the_database(store):
    store.put(make_result(), {})
    with sqlite3.connect(store.path / "db" / "cache.db") as connection:
        [(value,)] = connection.execute("SELECT value FROM Cache WHERE key LIKE 'result/%'").fetchall()
    connection.close()
    assert json.loads(value)["accuracy"] == 0.5
