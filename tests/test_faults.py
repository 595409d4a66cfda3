"""A study while something breaks under the engine: the disk fills up, the database is cut short, the clock jumps."""

import contextlib
import dataclasses
import os
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from test_engine import process  # noqa: F401  a fixture
from test_engine_process import SMALL, engine_on, handed_out, kinds, until
from test_store import make_result
from test_store_faults import small_disk  # noqa: F401  a fixture

from lab.engine import Engine
from lab.engine.live import read_live
from lab.store import Store, StoreError

pytestmark = [pytest.mark.engine, pytest.mark.faults]

DAY = 86_400.0
BRIEF = SMALL.with_(steps=200, eval_every=200)


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch):
    monkeypatch.setenv("LAB_ENGINE_GRACE", "3")


def fill(path: Path) -> None:
    """Write until the disk has no block left."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"0" * 4096)


def test_a_disk_that_fills_up_while_a_study_trains_costs_nothing(small_disk):  # noqa: F811
    study = [BRIEF.with_(seed=seed) for seed in range(12)]
    keys = [run.key for run in study]
    log = small_disk.parent / "engine.log"  # elsewhere, because a full disk would lose lines of it
    (small_disk / "cache").mkdir()
    (small_disk / "cache" / "engine.log").symlink_to(log)
    with engine_on(small_disk / "cache") as engine:
        engine.request(study)
        until(lambda: "done" in kinds(engine, keys), "one done")
        fill(small_disk / "filler")
        until(lambda: "full" in engine.status().message, "said to be full")
        kept = engine.store.done(keys)
        assert 0 < len(kept) < len(keys)
        assert engine.store.get_many(kept).keys() == kept, "what is stored can be read"
        (small_disk / "filler").unlink()
        until(lambda: kinds(engine, keys) == ["done"] * len(keys), "all done, with nobody asking again")
        until(lambda: engine.status().message == "", "nothing is wrong any more")
        assert all(handed_out(engine)[key] == 1 for key in kept), "what was stored before is not trained again"
        assert all(engine.store.arrays(key) for key in keys)
        assert engine.store.notices() == []


def test_what_cannot_be_stored_is_kept_and_not_trained_again(process, monkeypatch):  # noqa: F811
    """One run, and the disk full when its result comes in: the first try to store it is not the last."""
    process.tick()
    process.wanted._again = lambda: False  # what the store lacks is handed out from memory, until the next look
    [attempt] = process.attempts.values()
    result = dataclasses.replace(make_result(), config=attempt.configs[0])
    process.cluster.result = lambda timeout: [(result.to_json(), {})]

    def full(*_: object) -> None:
        raise StoreError("The disk is full.", "cache")

    with monkeypatch.context() as patch:
        patch.setattr(process.store, "put", full)
        process.cluster.finish("finished")
        for _ in range(3):
            with contextlib.suppress(StoreError):
                process.tick()
        assert process.cluster.handed_out == 1
    process.save()
    assert process.store.get(result.config.key) == result


def test_a_database_cut_short_while_a_study_trains_costs_no_result(tmp_path):
    study = [BRIEF.with_(seed=seed) for seed in range(12)]
    keys = [run.key for run in study]
    with engine_on(tmp_path / "cache") as engine:
        engine.request(study)
        until(lambda: kinds(engine, keys).count("done") >= 2, "some done")
        finished, before = engine.store.done(keys), handed_out(engine)
        path = engine.store.path / "db" / "cache.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)
        until(lambda: any("database was damaged" in notice for notice in engine.store.notices()), "it is told")
        assert engine.store.done(keys) >= finished
        engine.request(study)  # what had been asked for was lost with the database
        until(lambda: kinds(engine, keys) == ["done"] * len(keys), "all done")
        again = {key for key, count in handed_out(engine).items() if count > before[key]}
        assert not again & finished, "what was done before is not trained again"
        assert all(engine.store.arrays(key) for key in keys)


def test_forty_clients_ask_for_the_same_study_at_the_same_moment(tmp_path):
    """As forty pages do whose visitors press Train before any of them sees that the study is under way."""
    study = [BRIEF.with_(seed=seed) for seed in range(4)]
    keys = [run.key for run in study]
    with engine_on(tmp_path / "cache") as engine:
        together = threading.Barrier(40)

        def ask(_: int) -> str:
            client = Engine(Store(engine.store.path))
            together.wait(60)
            return client.request(study)

        with ThreadPoolExecutor(40) as threads:
            asked = list(threads.map(ask, range(40)))
        until(lambda: not engine.open_requests(), "all served")
        assert sorted(asked) == [request.id for request in engine.store.requests.all()]
        assert kinds(engine, keys) == ["done"] * len(keys)
        assert handed_out(engine) == dict.fromkeys(keys, 1)


CLOCK = """
import os
import time

real = time.time

def shifted():
    with open(os.environ["TEST_CLOCK"]) as file:
        return real() + float(file.read())

time.time = shifted
time.time_ns = lambda: int(shifted() * 1e9)
"""


def test_a_jumping_clock_changes_neither_order_nor_lifetimes_nor_estimates(tmp_path, monkeypatch):
    """``time.time`` of the engine and its workers is shifted by what a file says; here it is patched alike."""
    (tmp_path / "sitecustomize.py").write_text(CLOCK)
    clock, real = tmp_path / "clock", time.time

    def jump(days: float) -> str:
        """Set the clock; the date it shows from now on."""
        replacement = tmp_path / "clock.new"
        replacement.write_text(str(days * DAY))
        replacement.replace(clock)
        monkeypatch.setattr("time.time", lambda: real() + days * DAY)
        return time.strftime("%Y-%m-%d", time.localtime(time.time()))

    monkeypatch.setenv("TEST_CLOCK", str(clock))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    today = jump(0)
    start = time.monotonic()
    studies = [[BRIEF.with_(seed=10 * number + seed) for seed in range(4)] for number in range(3)]
    keys = [run.key for study in studies for run in study]
    with engine_on(tmp_path / "cache") as engine:
        asked = [engine.request(studies[0])]
        until(lambda: "running" in kinds(engine, keys), "the first runs")
        pid = read_live(engine.store.path / "live.json").pid
        seen: list[float] = []
        for days, study in ((30, studies[1]), (-60, studies[2])):
            date = jump(days)
            asked.append(engine.request(study))

            def told(date: str = date) -> bool:
                states = engine.runs(keys).values()
                seen.extend(s.seconds for s in states if s.kind == "running")
                seen.extend(s.seconds_left for s in states if s.seconds_left is not None)
                return f"{date} " in (engine.store.path / "engine.log").read_text()

            assert date != today
            until(told, f"the engine's clock shows {date}")
        until(lambda: kinds(engine, keys) == ["done"] * len(keys), "all done")
        assert [request.id for request in engine.store.requests.all()] == asked
        assert handed_out(engine) == dict.fromkeys(keys, 1)
        assert read_live(engine.store.path / "live.json").pid == pid, "the engine has outlived the jumps"
        took = [result.seconds for result in engine.store.get_many(keys).values()]
    assert seen
    assert all(0 <= seconds < DAY for seconds in seen)
    assert all(0 < seconds <= time.monotonic() - start for seconds in took)
