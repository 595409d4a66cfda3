"""The engine as people meet it: a process that trains what was asked for, whatever dies meanwhile."""

import asyncio
import collections
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from distributed.comm import connect
from distributed.security import Security

from lab.config import RunConfig
from lab.engine import Engine
from lab.engine.live import read_live
from lab.engine.presence import engine_alive
from lab.store import Store

pytestmark = pytest.mark.engine

HOME = Path(__file__).parents[1]
SMALL = RunConfig(steps=3, eval_every=1, batch=4, width=8, heads=1, layers=1, ffn=8, warmup=0)
LONG = SMALL.with_(steps=1_000_000, eval_every=1_000_000)
PATIENCE = 180


def until(true: Callable[[], object], what: str, seconds: float = PATIENCE) -> float:
    """Poll until something is true; how long that took."""
    start = time.monotonic()
    while not true():
        assert time.monotonic() - start < seconds, f"after {seconds} s: not {what}"
        time.sleep(0.02)
    sys.stdout.write(f"{time.monotonic() - start:.2f} s: {what}\n")
    return time.monotonic() - start


def kinds(engine: Engine, keys: list[str]) -> list[str]:
    return [state.kind for state in engine.runs(keys).values()]


def handed_out(engine: Engine) -> collections.Counter[str]:
    """How often each run was handed to a worker, by the engine's log."""
    text = (engine.store.path / "engine.log").read_text()
    return collections.Counter(key for line in re.findall("Handing out (.*) as", text) for key in line.split())


def is_running(engine: Engine, key: str) -> bool:
    return engine.runs([key])[key].step > 0


def worker_of(engine: Engine, key: str) -> int:
    return next((worker.pid for worker in engine.status().workers if key in worker.runs), 0)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def engine_on(path: Path) -> Iterator[Engine]:
    engine = Engine(Store(path))
    try:
        yield engine
    finally:
        log = path / "engine.log"
        if log.exists():
            sys.stdout.write(log.read_text()[-4000:])
        end_engine(path)


def end_engine(path: Path) -> None:
    pid = read_live(path / "live.json").pid
    if pid and engine_alive(path):
        children = psutil.Process(pid).children(recursive=True)
        os.kill(pid, signal.SIGKILL)
        _, left = psutil.wait_procs(children, timeout=10)
        assert not left, "workers outlived their engine"


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_ENGINE_GRACE", "3")
        with engine_on(tmp_path_factory.mktemp("engine") / "cache") as engine:
            yield engine


def test_two_who_ask_for_the_same_share_one_run(engine):
    other = Engine(Store(engine.store.path))
    study = [SMALL.with_(seed=seed) for seed in range(4)]
    keys = [run.key for run in study]
    engine.request(study, "mine")
    other.request(reversed(study), "theirs")
    until(lambda: kinds(engine, keys) == ["done"] * 4, "all done")
    until(lambda: not other.open_requests(), "requests closed")
    assert handed_out(engine) == dict.fromkeys(keys, 1)
    result, arrays = other.store.get(keys[0]), other.store.arrays(keys[0])
    assert result is not None
    assert [point.step for point in result.curve] == [1, 2, 3]
    assert result.provenance["threads"] == "1"
    assert arrays
    assert [request.state for request in engine.store.requests.all()] == ["done", "done"]
    assert engine.status().device == "CPU"
    engine.request(study, "again")
    assert not engine.open_requests(), "what is in the cache is not asked for again"


def test_stop_ends_a_run_soon_but_not_one_that_others_want(engine):
    shared, mine = LONG.with_(seed=1), LONG.with_(seed=2)
    first, second = engine.request([mine, shared]), engine.request([shared])
    waiting = engine.request([LONG.with_(seed=9)])
    until(lambda: is_running(engine, shared.key) and is_running(engine, mine.key), "both run")
    assert engine.runs([LONG.with_(seed=9).key])[LONG.with_(seed=9).key].kind == "queued"
    engine.stop(waiting)
    assert kinds(engine, [LONG.with_(seed=9).key]) == ["stopped"]
    engine.stop(first)
    assert until(lambda: kinds(engine, [mine.key]) == ["stopped"], "mine stopped") < 5
    assert kinds(engine, [shared.key]) == ["running"]
    engine.stop(second)
    until(lambda: kinds(engine, [shared.key]) == ["stopped"], "shared stopped")
    assert handed_out(engine)[shared.key] == 1


def test_stop_and_ask_again_at_once(engine):
    runs = [LONG.with_(seed=seed) for seed in (20, 21, 22)]
    for _ in range(3):
        engine.stop(engine.request(runs))
    until(lambda: engine.status().running == 0 and not engine.open_requests(), "nothing runs")
    again = engine.request(runs[:1])
    until(lambda: is_running(engine, runs[0].key), "the run goes again")
    engine.stop(again)
    until(lambda: engine.status().running == 0, "nothing runs")


def test_a_run_that_fails_is_recorded_with_its_cause_and_not_tried_again(engine):
    broken = SMALL.with_(task="no such task")
    engine.request([broken, SMALL.with_(seed=30)])
    until(lambda: not engine.open_requests(), "closed")
    state = engine.runs([broken.key])[broken.key]
    assert state.kind == "failed"
    assert "no such task" in state.cause
    assert handed_out(engine)[broken.key] == 1
    engine.request([broken])
    until(lambda: handed_out(engine)[broken.key] == 2, "tried again when asked")
    until(lambda: not engine.open_requests(), "closed again")


@pytest.mark.faults
def test_a_run_outlives_its_worker_but_not_three(engine):
    run = LONG.with_(seed=40)
    engine.request([run])
    seen: set[int] = set()
    for _ in range(3):
        until(lambda: is_running(engine, run.key) and worker_of(engine, run.key) not in seen | {0}, "it runs anew")
        seen.add(worker_of(engine, run.key))
        os.kill(worker_of(engine, run.key), signal.SIGKILL)
    until(lambda: kinds(engine, [run.key]) == ["failed"], "failed")
    assert "died" in engine.runs([run.key])[run.key].cause
    short = SMALL.with_(seed=41)
    engine.request([short])
    until(lambda: kinds(engine, [short.key]) == ["done"], "the engine goes on")


@pytest.mark.faults
def test_nobody_without_the_credentials_can_submit_work(engine):
    engine.start()
    until(lambda: engine.status().slots == len(engine.status().workers) > 0, "workers are there")
    process = psutil.Process(read_live(engine.store.path / "live.json").pid)
    family = [process, *process.children(recursive=True)]
    open_ports = [c.laddr for p in family for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert open_ports
    assert {address.ip for address in open_ports} == {"127.0.0.1"}
    assert all(worker.address.startswith("tls://") for worker in read_live(engine.store.path / "live.json").workers)
    addresses = [f"{scheme}://127.0.0.1:{address.port}" for scheme in ("tcp", "tls") for address in open_ports]
    stranger = Security.temporary().get_connection_args("client")

    async def knock(address: str) -> bool:
        try:
            async with asyncio.timeout(5):
                comm = await connect(address, timeout=2, **stranger)
        except (OSError, TimeoutError, RuntimeError):
            return False
        comm.abort()
        return True

    async def knock_everywhere() -> list[bool]:
        return await asyncio.gather(*map(knock, addresses))

    assert not any(asyncio.run(knock_everywhere()))
    with socket.create_connection(("127.0.0.1", open_ports[0].port), 5) as plain:
        assert plain, "the port itself is open: what keeps strangers out is TLS"


@pytest.mark.faults
def test_after_kill_9_the_rest_is_done_by_itself_and_nothing_twice(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_ENGINE_GRACE", "3")
    path = tmp_path / "cache"
    study = [SMALL.with_(seed=seed, steps=40) for seed in range(8)]
    keys = [run.key for run in study]
    with engine_on(path) as engine:
        engine.request(study)
        until(lambda: kinds(engine, keys).count("done") >= 2, "some done")
        pid = read_live(path / "live.json").pid
        workers = psutil.Process(pid).children(recursive=True)
        os.kill(pid, signal.SIGKILL)
        psutil.Process(pid).wait(10)
        finished = {key for key, state in engine.runs(keys).items() if state.kind == "done"}
        before = handed_out(engine)
        until(lambda: set(kinds(engine, keys)) == {"done", "queued"}, "nothing shown as running", 5)
        server = Engine(Store(path))  # as a server does when it starts
        assert server.resume()
        until(lambda: kinds(server, keys) == ["done"] * 8, "all done")
        assert read_live(path / "live.json").pid != pid
        again = {key for key, count in handed_out(server).items() if count > before[key]}
        assert again == set(keys) - finished
        _, left = psutil.wait_procs(workers, timeout=10)
        assert not left
        assert server.store.notices() == []


PAGE = """
import sys, time
from pathlib import Path
with open(sys.argv[2], "a") as file:  # a page runs from top to bottom, unguarded, whenever it is loaded
    file.write("loaded\\n")
import streamlit
from lab.config import RunConfig
from lab.engine import Engine
from lab.store import Store
engine = Engine(Store(Path(sys.argv[1])))
run = RunConfig.from_json(sys.argv[3])
engine.request([run])
while engine.runs([run.key])[run.key].kind != "done":
    time.sleep(0.05)
"""


def test_workers_load_no_page_and_the_engine_ends_when_nobody_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_ENGINE_GRACE", "1")
    monkeypatch.setenv("PYTHONPATH", str(HOME))
    cache, loaded, page = tmp_path / "cache", tmp_path / "loaded", tmp_path / "page.py"
    page.write_text(PAGE)
    command = [sys.executable, str(page), str(cache), str(loaded), SMALL.json]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as server:
        until(lambda: server.poll() is not None or read_live(cache / "live.json").pid, "an engine")
        pids: set[int] = set()
        workers = []
        while server.poll() is None:
            live = read_live(cache / "live.json")
            pids.add(live.pid)
            workers = [worker for worker in live.workers if worker.pid] or workers
            time.sleep(0.02)
        assert server.returncode == 0, server.stderr.read()
    assert loaded.read_text() == "loaded\n", "only the page itself has run it"
    until(lambda: not engine_alive(cache), "the engine has ended", 30)
    assert workers
    assert not any(worker.streamlit for worker in workers)
    assert len(pids - {0}) == 1
    until(lambda: not any(is_alive(worker.pid) for worker in workers), "its workers have ended", 10)
    assert not (cache / "live.json").exists()
    assert "Traceback" not in (cache / "engine.log").read_text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.faults
def test_an_existing_scheduler_is_used_and_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_ENGINE_GRACE", "3")
    address = f"tcp://127.0.0.1:{free_port()}"
    monkeypatch.setenv("LAB_SCHEDULER", address)
    environment = {**os.environ, "PYTHONPATH": str(HOME), "OMP_NUM_THREADS": "1"}
    processes: list[subprocess.Popen[bytes]] = []

    def dask(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *arguments]
        process = subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL)
        processes.append(process)
        return process

    def scheduler() -> subprocess.Popen[bytes]:
        return dask("scheduler", "--host", address, "--no-dashboard")

    study = [SMALL.with_(seed=seed) for seed in range(4)]
    keys = [run.key for run in study]
    try:
        with engine_on(tmp_path / "cache") as engine:
            engine.request(study)
            until(lambda: "away" in engine.status().message, "said to be away")
            first = scheduler()
            dask("worker", address, "--nthreads", "1", "--no-dashboard", "--name", "one", "--no-nanny")
            until(lambda: kinds(engine, keys) == ["done"] * 4, "all done")
            assert {worker.name for worker in engine.status().workers} == {"one"}
            long = LONG.with_(seed=50)
            request = engine.request([long])
            until(lambda: is_running(engine, long.key), "a long run")
            first.kill()
            until(lambda: "away" in engine.status().message, "said to be away again")
            assert kinds(engine, [long.key]) == ["queued"]
            engine.stop(request)
            scheduler()
            dask("worker", address, "--nthreads", "1", "--no-dashboard", "--name", "two", "--no-nanny")
            more = SMALL.with_(seed=51)
            engine.request([more])
            until(lambda: kinds(engine, [more.key]) == ["done"], "work has resumed")
            assert engine.status().message == ""
    finally:
        for process in processes:
            process.kill()
            process.wait()
