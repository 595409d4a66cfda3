"""The parts of the engine that need no process: whose turn it is, which scheduler is allowed, who is there."""

import asyncio
import contextlib
import json
import subprocess
import sys
from concurrent.futures import CancelledError
from itertools import islice
from pathlib import Path

import pytest
from made_results import result

from lab.config import RunConfig
from lab.engine import Engine
from lab.engine.address import scheduler_from_environment
from lab.engine.causes import cause, cause_elsewhere
from lab.engine.dispatch import Asked, fair_order, take_packs
from lab.engine.live import Live, Running, Worker, read_live, write_live
from lab.engine.presence import anyone_there, engine_alive, engine_lock, show_up
from lab.engine.process import EngineProcess
from lab.errors import LabError
from lab.results import CurvePoint
from lab.store import Store
from lab.study import Study
from lab.tasks import TaskError, get_task


def runs(start: int, stop: int, **changes) -> tuple[RunConfig, ...]:
    return tuple(RunConfig(seed=seed, **changes) for seed in range(start, stop))


def order(asked, taken=(), turns=None) -> list[tuple[str, int]]:
    return [(request, run.seed) for request, run in fair_order(asked, set(taken), turns or {})]


# whose turn it is


def test_one_request_keeps_its_own_order():
    study = Study(seeds=(0, 1))
    found = [run for _, run in fair_order([Asked("a", study.configs())], set(), {})]
    assert tuple(found) == study.configs()
    assert {run.seed for run in found[:8]} == {0}, "the first seed's full picture comes first"


def test_requests_take_turns():
    asked = [Asked("a", runs(0, 4)), Asked("b", runs(10, 12)), Asked("c", runs(20, 23))]
    assert order(asked) == [
        ("a", 0), ("b", 10), ("c", 20), ("a", 1), ("b", 11), ("c", 21), ("a", 2), ("c", 22), ("a", 3),
    ]  # fmt: skip


def test_turns_are_remembered_from_one_hand_out_to_the_next():
    asked, turns, taken, served = [Asked("a", runs(0, 50)), Asked("b", runs(50, 100))], {"a": 0, "b": 0}, set(), []
    for _ in range(10):
        [[(request, run)]] = take_packs(fair_order(asked, taken, turns), 1, 1)
        turns[request] += 1
        taken.add(run.key)
        served.append(request)
    assert served == ["a", "b"] * 5


def test_a_newcomer_starts_level_and_neither_waits_nor_takes_over():
    asked = [Asked("a", runs(0, 50)), Asked("b", runs(50, 100))]
    first = [request for request, _ in islice(fair_order(asked, set(), {"a": 20}), 6)]
    assert first == ["a", "b"] * 3


def test_a_run_that_two_want_comes_once_and_what_is_taken_not_at_all():
    asked = [Asked("a", runs(0, 4)), Asked("b", runs(2, 6))]
    assert order(asked, taken=[RunConfig(seed=0).key]) == [("a", 1), ("b", 2), ("a", 3), ("b", 4), ("b", 5)]


def test_stopping_one_leaves_what_the_other_wants():
    asked = [Asked("a", runs(0, 4)), Asked("b", runs(2, 6))]
    assert order(asked[1:]) == [("b", 2), ("b", 3), ("b", 4), ("b", 5)]


def test_forty_requests_for_one_study_are_one_study():
    study = runs(0, 24)
    found = order([Asked(f"{i:02d}", study) for i in range(40)])
    assert [seed for _, seed in found] == list(range(24))


def test_packs_hold_what_can_train_together():
    mixed = [run for pair in zip(runs(0, 6), runs(0, 6, steps=7), strict=True) for run in pair]
    packs = take_packs([("a", run) for run in mixed], 2, 4)
    assert [[(run.steps, run.seed) for _, run in pack] for pack in packs] == [
        [(300, 0), (300, 1), (300, 2), (300, 3)],
        [(7, 0), (7, 1), (7, 2), (7, 3)],
    ]
    alone = take_packs([("a", run) for run in mixed], 2, 4, solo={mixed[0].key})
    assert [len(pack) for pack in alone] == [1, 4]
    assert [len(pack) for pack in take_packs([("a", run) for run in mixed], 3, 1)] == [1, 1, 1]
    assert take_packs([("a", run) for run in mixed], 0, 1) == []


# which scheduler


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("tcp://127.0.0.1:8786", True),
        ("tcp://localhost:8786", True),
        ("tcp://[::1]:8786", True),
        ("tcp://10.0.0.5:8786", False),
        ("tcp://scheduler:8786", False),
        ("tcp://127.0.0.1.example.org:8786", False),
        ("tls://scheduler:8786", False),  # no certificates
        ("http://127.0.0.1:8786", False),
        ("127.0.0.1:8786", False),
        ("tcp://127.0.0.1", False),
        ("tcp://[::1", False),
    ],
)
def test_a_scheduler_without_tls_beyond_this_machine_is_refused(monkeypatch, address, allowed):
    monkeypatch.setenv("LAB_SCHEDULER", address)
    expected = contextlib.nullcontext() if allowed else pytest.raises(LabError)
    with expected as error:
        scheduler_from_environment()
    if error is not None:
        assert error.value.field.startswith("LAB_")


def test_the_deployer_can_allow_a_scheduler_without_tls_by_name(monkeypatch):
    monkeypatch.setenv("LAB_SCHEDULER", "tcp://scheduler:8786")
    monkeypatch.setenv("LAB_ALLOW_INSECURE_SCHEDULER", "1")
    assert scheduler_from_environment().address == "tcp://scheduler:8786"


def test_certificates_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_SCHEDULER", "tls://scheduler:8786")
    for name in ("CA", "CERT", "KEY"):
        (tmp_path / name).touch()
        monkeypatch.setenv(f"LAB_TLS_{name}", str(tmp_path / name))
    scheduler = scheduler_from_environment()
    assert scheduler.tls
    assert (scheduler.ca, scheduler.key) == (str(tmp_path / "CA"), str(tmp_path / "KEY"))


def test_a_refused_scheduler_is_said_before_anything_is_stored(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_SCHEDULER", "tcp://10.0.0.5:8786")
    engine = Engine(Store(tmp_path))
    with pytest.raises(LabError, match="LAB_ALLOW_INSECURE_SCHEDULER"):
        engine.request(runs(0, 1))
    assert engine.store.requests.all() == []
    assert "LAB_ALLOW_INSECURE_SCHEDULER" in engine.status().message


# what the engine says of itself


def test_the_live_record_comes_back(tmp_path):
    running = {"k": Running(3, 10, 1.5, [CurvePoint(2, 0.5, 0.25)], "tls://w")}
    live = Live(1, "", 2, [Worker("0", "tls://w")], {"a": 1}, running)
    write_live(tmp_path / "live.json", live)
    assert read_live(tmp_path / "live.json") == live
    for text in ("", "[]", "{}", '{"running": {}, "workers": [], "more": 1}', "[" * 3, "[" * 100_000):
        (tmp_path / "live.json").write_text(text)
        assert read_live(tmp_path / "live.json") == Live()


def test_a_cause_is_one_short_sentence():
    assert cause(LabError("α is too large.")) == "α is too large."
    assert cause(ValueError("first\nsecond")) == "ValueError: first"
    assert cause(RuntimeError()) == "RuntimeError: RuntimeError"
    assert len(cause(ValueError("x" * 10_000))) < 400


# the scheduler is away


class Away:
    """A cluster of two slots, and the future of what it is given; raises where it is told to."""

    elsewhere = True

    def __init__(self, *_: object) -> None:
        self.raises: dict[str, BaseException] = {}
        self.connected, self.slots, self.pack_size, self.workers = False, 1, 1, []
        self.handed_out, self.status, self.done = 0, "pending", []
        self.error: BaseException | None = None
        self.stopped: list[tuple[str, list[str]]] = []

    def connect(self) -> None:
        self._may("connect")
        self.connected = True

    def close(self) -> None:
        self.connected = False

    def look(self) -> None:
        self._may("look")

    def stop(self, attempt: str, keys: list[str]) -> None:
        self._may("stop")
        self.stopped.append((attempt, keys))

    def submit(self, configs: list[RunConfig], attempt: str) -> "Away":
        self._may("submit")
        self.handed_out += 1
        return self

    def add_done_callback(self, callback) -> None:
        self.done.append(callback)

    def finish(self, status: str) -> None:
        self.status = status
        for callback in self.done:
            callback(self)
        self.done.clear()

    def exception(self, timeout: float) -> BaseException | None:
        self._may("exception")
        return self.error

    def result(self, timeout: float) -> list[object]:
        self._may("result")
        return [None]

    def _may(self, what: str) -> None:
        if what in self.raises:
            raise self.raises[what]


@pytest.fixture
def process(tmp_path, monkeypatch):
    monkeypatch.setattr("lab.engine.cluster.Cluster", Away)
    monkeypatch.setattr("lab.engine.process.AWAY_SECONDS", 0)
    process = EngineProcess(Store(tmp_path))
    process._look = lambda: True
    process.store.requests.add(runs(0, 1), "")
    return process


TROUBLE = [OSError("closed"), TimeoutError(), RuntimeError("no loop"), CancelledError("lost"), asyncio.CancelledError()]


@pytest.mark.parametrize("error", TROUBLE, ids=repr)
@pytest.mark.parametrize("where", ["connect", "submit", "look", "stop"])
@pytest.mark.faults
def test_a_scheduler_that_does_not_answer_is_away_and_found_again(process, where, error):
    if where in ("stop", "look"):
        process.tick()
        assert len(process.attempts) == 1
    if where == "stop":
        process.store.requests.close(process.store.requests.all()[0].id, "stopped")
    process.cluster.raises[where] = error
    process.tick()
    assert "away" in process.message
    assert not process.cluster.connected
    assert process.attempts == {}
    process.cluster.raises.clear()
    process.tick()
    assert process.message == ""
    assert process.cluster.connected
    assert len(process.attempts) == (where != "stop")
    lost = [[runs(0, 1)[0].key]] * (where in ("stop", "look"))
    assert [keys for _, keys in process.cluster.stopped] == lost, "a worker that has kept on is told to stop"


@pytest.mark.parametrize("error", TROUBLE, ids=repr)
@pytest.mark.parametrize(("status", "where"), [("error", "exception"), ("finished", "result")])
@pytest.mark.faults
def test_what_does_not_arrive_is_handed_out_again(process, status, where, error):
    process.tick()
    assert process.cluster.handed_out == 1
    process.cluster.raises[where] = error
    process.cluster.finish(status)
    process.tick()
    assert process.cluster.handed_out == 2
    assert process.store.failures([run.key for run in runs(0, 1)]) == {}


def test_the_result_of_another_run_is_a_failure_and_not_handed_out_for_ever(process):
    mine, other = runs(0, 2)
    process.take(mine, result(other, 0.5).to_json(), {})
    process.save()
    assert "another run" in process.store.failure(mine.key)
    assert not process.store.done([mine.key, other.key])


def test_data_that_is_missing_on_a_workers_machine_is_told_with_what_to_do(process):
    process.tick()
    [attempt] = process.attempts.values()
    attempt.progress = {runs(0, 1)[0].key: Running(worker="tls://10.0.0.7:4000")}
    with pytest.raises(TaskError) as missing:
        get_task("own:" + "0" * 16)
    process.cluster.error = missing.value
    process.cluster.finish("error")
    process.tick()
    told = process.store.failure(runs(0, 1)[0].key)
    assert told.startswith("On the machine of the worker tls://10.0.0.7:4000: task is 'own:0000000000000000'")
    assert "LAB_DATA" in told
    assert "their own machine" in told
    assert cause_elsewhere(LabError("α is too large."), "") == "α is too large."


def test_what_a_new_worker_tells_before_it_is_listed_is_kept(process):
    process.tick()
    [name] = process.attempts
    process.hear({"attempt": name, "began": "tls://new", "device": "CPU", "pid": 7, "streamlit": False})
    process.publish()
    assert process.known["tls://new"]["pid"] == 7
    process.cluster.workers = [Worker("0", "tls://new")]
    process.publish()
    assert [worker.pid for worker in read_live(process.store.path / "live.json").workers] == [7]
    process.attempts.clear()
    process.cluster.workers = []
    process.publish()
    assert process.known == {}


# who is there


def test_a_client_is_there_until_its_process_ends(tmp_path):
    code = "import sys; from pathlib import Path; from lab.engine.presence import show_up\n"
    code += "show_up(Path(sys.argv[1])); print('here', flush=True); sys.stdin.read()"
    command, home = [sys.executable, "-c", code, str(tmp_path)], Path(__file__).parents[1]
    assert not anyone_there(tmp_path)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=home, **pipes) as client:
        assert client.stdout.readline() == b"here\n"
        assert anyone_there(tmp_path)
        client.kill()
    assert not anyone_there(tmp_path)
    assert list((tmp_path / "clients").iterdir()) == []


def test_a_client_whose_lock_file_was_swept_away_shows_up_again(tmp_path):
    show_up(tmp_path)
    for path in (tmp_path / "clients").iterdir():
        path.unlink()
    show_up(tmp_path)
    assert len(list((tmp_path / "clients").iterdir())) == 1


def test_asking_whether_the_engine_lives_does_not_keep_it_from_starting(tmp_path):
    assert not engine_alive(tmp_path)
    with engine_lock(tmp_path):
        assert engine_alive(tmp_path)
    assert not engine_alive(tmp_path)


# the client, with no engine at all


@pytest.fixture
def engine(tmp_path, monkeypatch) -> Engine:
    monkeypatch.setattr(Engine, "start", lambda self: None)
    return Engine(Store(tmp_path))


def test_states_of_runs(engine):
    first, second = engine.request(runs(0, 3), "first"), engine.request(runs(2, 5), "second")
    keys = [run.key for run in runs(0, 6)]
    states = engine.runs(keys)
    assert [states[key].kind for key in keys] == ["queued"] * 5 + ["unknown"]
    assert [states[key].place for key in keys] == [1, 3, 2, 4, 5, None]
    engine.stop(second)
    engine.store.fail(keys[0], "It broke.")
    states = engine.runs(keys)
    assert [states[key].kind for key in keys] == ["failed", "queued", "queued", "stopped", "stopped", "unknown"]
    assert states[keys[0]].cause == "It broke."
    assert [request.id for request in engine.open_requests()] == [first]
    assert engine.status().queued == 2


def test_what_is_done_already_opens_nothing(engine):
    assert engine.store.requests.all() == []
    engine.request([])
    assert engine.open_requests() == []
    assert engine.resume() is False


def test_importing_the_client_loads_neither_torch_nor_dask_nor_streamlit():
    code = "import sys, json, lab.engine, lab.store; print(json.dumps(sorted(sys.modules)))"
    home = Path(__file__).parents[1]
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], cwd=home, capture_output=True, check=True).stdout)
    assert not {"torch", "dask", "distributed", "streamlit", "pandas"} & set(loaded)
