"""Beyond one machine: the services of compose.yaml as processes that share nothing but certificates."""

import asyncio
import collections
import contextlib
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import yaml
from cryptography import x509
from distributed.comm import connect
from distributed.security import Security
from test_engine_process import PATIENCE, SMALL, engine_on, free_port, kinds, until

from lab.config import RunConfig
from lab.engine import Engine, worker
from lab.engine.address import Scheduler
from lab.engine.certificates import FILES, main, make_certificates
from lab.engine.cluster import MOST_SENT, Cluster
from lab.engine.launch import KEEP_MEMORY, ONE_THREAD
from lab.tasks import TaskError, own_data, own_names
from lab.tasks.own_task import own_path, read_own, receive_own

HOME = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((HOME / "compose.yaml").read_text("utf-8"))
SERVICES = COMPOSE["services"]
DASK = ("scheduler", "worker", "gpu-worker")
CSV = "text,label\n" + "".join(f"the {word} film number {i},{word}\n" for i in range(20) for word in ("good", "bad"))


class Composed:
    """The services' own commands and environments, on the loopback, each with folders of its own."""

    def __init__(self, root: Path) -> None:
        self.root, self.port = root, free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.health: dict[str, list[str]] = {}

    def start(self, service: str, name: str = "") -> subprocess.Popen[bytes]:
        name = name or service
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        command = self._here(SERVICES[service]["command"], name)
        if "distributed.cli" in command[2]:
            command += ["--host", "127.0.0.1"]
        else:
            command.pop()
            command.append(str(self.root / "certificates"))
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("LAB_", "DASK_"))}
        environment = {**clean, **self.environment(service, name), "PYTHONPATH": str(HOME)}
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
        self.processes[name] = process
        return process

    def environment(self, service: str, name: str) -> dict[str, str]:
        asked = SERVICES[service].get("environment", {})
        return dict(zip(asked, self._here(list(asked.values()), name), strict=True))

    def is_healthy(self, service: str, name: str = "") -> bool:
        first, *command = SERVICES[service]["healthcheck"]["test"]
        assert first == "CMD"
        return subprocess.run(self._here(command, name or service), capture_output=True, check=False).returncode == 0

    def kill(self, name: str) -> None:
        """End a service and all it has started, at once."""
        process = self.processes.pop(name)
        if process.poll() is None:
            family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            for member in family:  # the nanny first, which would start the worker anew
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
            psutil.wait_procs(family, timeout=10)

    def restart(self, service: str, name: str) -> None:
        """What the service's restart policy does once its process has ended."""
        assert SERVICES[service]["restart"] == "unless-stopped"
        until(lambda: self.processes[name].poll() is not None, f"{name} has ended")
        self.start(service, name)

    def _here(self, words: list[str], name: str) -> list[str]:
        health = self.health.setdefault(name, [str(free_port()), str(free_port())])
        there = {
            "/lab/certificates": str(self.root / "certificates"),
            "/lab/cache": str(self.root / name / "cache"),
            "/tmp/dask": str(self.root / name / "scratch"),
            "scheduler:8786": f"127.0.0.1:{self.port}",
            "8786": str(self.port),
            "8787": health[0],
            "8788": health[1],
        }
        pattern = re.compile("|".join(map(re.escape, there)))
        return [sys.executable if w == "python" else pattern.sub(lambda m: there[m.group()], w) for w in words]


@pytest.fixture(scope="module")
def composed(tmp_path_factory) -> Iterator[Composed]:
    composed = Composed(tmp_path_factory.mktemp("composed"))
    try:
        assert composed.start("certificates").wait(PATIENCE) == 0
        del composed.processes["certificates"]
        composed.start("scheduler")
        for name in ("one", "two"):
            composed.start("worker", name)
        yield composed
    finally:
        for name in list(composed.processes):
            composed.kill(name)
        for log in sorted(composed.root.glob("*/log")):
            sys.stdout.write(f"{log.parent.name}: {log.read_text()[-2000:]}\n")


@pytest.fixture
def engine(composed, tmp_path, monkeypatch) -> Iterator[Engine]:
    for name, value in composed.environment("lab", "lab").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAB_ENGINE_GRACE", "3")
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "data"))
    with engine_on(tmp_path / "cache") as engine:
        yield engine


def stored(engine: Engine) -> collections.Counter[str]:
    """How often each result was written, by the engine's log."""
    return collections.Counter(re.findall("Stored (.*)", (engine.store.path / "engine.log").read_text()))


def sent(composed: Composed) -> list[Path]:
    return sorted(composed.root.glob("*/cache/data/own/*"))


# the services


@pytest.mark.engine
def test_the_services_come_up_and_their_health_checks_tell(composed):
    assert not composed.is_healthy("worker", "nobody")
    until(lambda: composed.is_healthy("scheduler"), "a healthy scheduler")
    for name in ("one", "two"):
        until(lambda name=name: composed.is_healthy("worker", name), f"worker {name} is healthy")


@pytest.mark.engine
def test_the_scheduler_listens_to_nobody_without_the_certificates(composed):
    ca, cert, key = (str(composed.root / "certificates" / name) for name in FILES)
    member = Security(tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key, require_encryption=True)

    async def knock(security: Security) -> bool:
        try:
            async with asyncio.timeout(10):
                comm = await connect(
                    f"tls://127.0.0.1:{composed.port}", timeout=5, **security.get_connection_args("client")
                )
        except (OSError, TimeoutError, RuntimeError):
            return False
        comm.abort()
        return True

    until(lambda: asyncio.run(knock(member)), "who has the certificates is let in")
    assert not asyncio.run(knock(Security.temporary()))


@pytest.mark.engine
def test_own_data_reaches_workers_by_itself_as_the_bytes_of_its_file(composed, engine):
    name = own_data.add(CSV.encode(), "films.csv")
    runs = [SMALL.with_(task=name, seed=seed) for seed in range(4)]
    assert sent(composed) == []
    engine.request(runs)
    until(lambda: not engine.open_requests(), "all over")
    assert kinds(engine, [run.key for run in runs]) == ["done"] * 4
    copies = sent(composed)
    assert 1 <= len(copies) <= 2, "a worker that trained has a copy, and nothing is left beside it"
    assert {copy.name for copy in copies} == {own_path(name).name}
    assert {copy.read_bytes() for copy in copies} == {own_path(name).read_bytes()}


@pytest.mark.engine
def test_own_data_that_is_not_what_its_name_says_is_refused_on_the_worker(composed, engine):
    name = own_data.add(CSV.replace("film", "book").encode(), "books.csv")
    path, before = own_path(name), sent(composed)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    run = SMALL.with_(task=name)
    engine.request([run])
    until(lambda: not engine.open_requests(), "over")
    state = engine.runs([run.key])[run.key]
    assert state.kind == "failed"
    assert f"The data that was sent for {name} is not what its name says" in state.cause
    assert sent(composed) == before


@pytest.mark.engine
def test_a_killed_worker_costs_nothing_but_time_and_every_result_is_stored_once(composed, engine):
    name = own_data.add(CSV.replace("film", "play").encode(), "plays.csv")
    # Own data and generated data: what the dead worker held of either must be found again.
    study = [
        SMALL.with_(task=task, seed=seed, steps=400, eval_every=400) for seed in range(5) for task in ("digits", name)
    ]
    keys = [run.key for run in study]
    engine.request(study)
    names = {_pid(composed, name): name for name in ("one", "two")}
    training: list[tuple[str, str]] = []

    def both_train() -> bool:
        workers = engine.status().workers
        training[:] = [(names[worker.pid], worker.runs[0]) for worker in workers if worker.runs and worker.pid in names]
        return len(training) == 2

    until(both_train, "both workers train")
    victim, lost = training[0]
    composed.kill(victim)
    until(lambda: kinds(engine, keys) == ["done"] * len(keys), "all done")
    until(lambda: not engine.open_requests(), "the request is closed")
    assert stored(engine) == dict.fromkeys(keys, 1)
    assert engine.store.get(lost) is not None
    assert {result.config.key for result in engine.store.results()} >= set(keys)
    assert len(list(engine.store.path.glob("blobs/*/*.safetensors"))) == len(keys)
    assert all(engine.store.arrays(key) for key in keys)
    assert engine.store.notices() == []


@pytest.mark.engine
def test_a_scheduler_that_goes_away_is_told_and_the_study_ends_when_it_is_back(composed, engine):
    study = [SMALL.with_(seed=seed, steps=300, eval_every=300) for seed in range(100, 106)]
    keys = [run.key for run in study]
    engine.request(study)
    until(lambda: "done" in kinds(engine, keys) and engine.status().running, "it is half done")
    composed.kill("scheduler")
    until(lambda: "away" in engine.status().message, "said to be away")
    status = engine.status()
    assert status.since is not None
    assert status.running == 0
    assert engine.overview().requests[0].seconds_left is None
    assert set(kinds(engine, keys)) == {"done", "queued"}
    assert all(engine.store.get(key) for key, kind in zip(keys, kinds(engine, keys), strict=True) if kind == "done")
    composed.start("scheduler")
    for name in ("one", "two"):  # a Dask worker ends when it has lost its scheduler
        if name in composed.processes:
            composed.restart("worker", name)
    until(lambda: kinds(engine, keys) == ["done"] * len(keys), "all done")
    assert stored(engine) == dict.fromkeys(keys, 1)
    until(lambda: engine.status().message == "", "no message any more")
    assert engine.status().since is None


def _pid(composed: Composed, worker: str) -> int:
    """The worker process below the nanny that the service is."""
    children = psutil.Process(composed.processes[worker].pid).children(recursive=True)
    return next((child.pid for child in children if "spawn_main" in " ".join(child.cmdline())), 0)


# what compose.yaml says


def test_nothing_but_the_lab_is_published_and_that_on_this_machine_alone():
    assert {name: service["ports"] for name, service in SERVICES.items() if "ports" in service} == {
        "lab": ["127.0.0.1:8501:8501"]
    }


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_reaped_has_its_volumes_and_waits_for_the_certificates(name):
    service = SERVICES[name]
    assert service["init"] is True
    volumes = dict(volume.split(":")[:2] for volume in service["volumes"])
    assert set(volumes) <= set(COMPOSE["volumes"])
    assert volumes["certificates"] == "/lab/certificates"
    if name != "certificates":
        assert service["depends_on"]["certificates"] == {"condition": "service_completed_successfully"}
        assert "certificates:/lab/certificates:ro" in service["volumes"]
    assert service["image"].startswith(SERVICES["lab"]["image"])
    folders = re.search(r"mkdir -p (.*) &&", (HOME / "Dockerfile").read_text("utf-8")).group(1).split()
    assert set(volumes.values()) <= set(folders), "a volume is given to whom its folder in the image belongs to"


@pytest.mark.parametrize("name", DASK)
def test_the_schedulers_and_workers_are_set_as_the_embedded_ones(name):
    service = SERVICES[name]
    assert service["environment"] | KEEP_MEMORY | ONE_THREAD == service["environment"]
    text = " ".join(service["command"])
    assert all(f"/lab/certificates/{file}" in text for file in FILES)
    assert service["healthcheck"]["test"][0] == "CMD"
    assert "--no-dashboard" in text
    assert "tls" in text
    if name != "scheduler":
        assert "--nthreads 1 --nworkers 1 --memory-limit 0" in text
        assert "container_name" not in service, "a name of its own would keep it from being scaled"
        assert "worker-cache:/lab/cache" in service["volumes"]


def test_a_gpu_worker_is_the_worker_with_one_gpu():
    plain, gpu = SERVICES["worker"], SERVICES["gpu-worker"]
    assert gpu["profiles"] == ["gpu"]
    place = gpu["command"].index("--resources")
    assert gpu["command"][place : place + 2] == ["--resources", "GPU=1"]
    assert gpu["command"][:place] + gpu["command"][place + 2 :] == plain["command"]
    assert gpu["environment"] == {**plain["environment"], "CUDA_VISIBLE_DEVICES": "0"}


# the certificates


def test_certificates_are_made_once_and_are_for_their_owner_alone(tmp_path, capsys):
    folder = tmp_path / "new" / "certificates"
    assert main([str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert not make_certificates(folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    (folder / "cert.pem").unlink()
    assert make_certificates(folder), "a set that is not whole is made anew"
    authority, member = (x509.load_pem_x509_certificate((folder / name).read_bytes()) for name in FILES[:2])
    member.verify_directly_issued_by(authority)
    assert (folder / "ca.pem").read_bytes() != before[folder / "ca.pem"]
    assert main([]) == 2
    (tmp_path / "file").touch()
    assert main([str(tmp_path / "file")]) == 1
    assert "could not be written" in capsys.readouterr().err


# the data that is sent


@pytest.fixture
def data(tmp_path, monkeypatch):
    def folder(name: str) -> None:
        monkeypatch.setenv("LAB_DATA", str(tmp_path / name))

    folder("here")
    return folder


def test_a_task_that_was_received_is_the_task_that_was_sent(data):
    name = own_data.add(CSV.encode(), "films.csv")
    sent = read_own(name)
    data("there")
    assert own_names() == []
    receive_own(name, sent)
    assert own_names() == [name]
    assert own_path(name).read_bytes() == sent
    stamp = own_path(name).stat().st_mtime_ns
    receive_own(name, b"not looked at, since the file is there")
    assert own_path(name).stat().st_mtime_ns == stamp
    own_path(name).write_bytes(b"damaged")
    receive_own(name, sent)
    assert own_path(name).read_bytes() == sent


@pytest.mark.parametrize("name", ["own:0123456789abcdef", "own:../../etc/passwd", "digits"])
def test_bytes_with_another_name_are_refused_and_leave_nothing(data, tmp_path, name):
    with pytest.raises(TaskError):
        receive_own(name, b"anything")
    assert not (tmp_path / "here").exists()
    assert read_own(name) is None


def test_a_worker_without_room_says_so(data, tmp_path):
    name = own_data.add(CSV.encode(), "films.csv")
    sent = read_own(name)
    shutil.rmtree(tmp_path / "here")
    (tmp_path / "here").touch()  # a file where the folder should be
    with pytest.raises(TaskError, match="cannot be written"):
        receive_own(name, sent)


class Holder:
    """A Dask client that counts what it is given to hold, and futures of it whose status a test sets."""

    def __init__(self) -> None:
        self.status, self.held, self.needed = "running", [], []

    def scatter(self, data: bytes, hash: bool) -> SimpleNamespace:  # noqa: A002
        assert not hash, "a key of its own each time: the lost one's is spoilt"
        self.held.append(data)
        return SimpleNamespace(status="finished")

    def submit(self, function, configs, attempt, data, **options) -> None:
        self.needed.append(data)


@pytest.fixture
def cluster(tmp_path, data) -> Cluster:
    cluster = Cluster(Scheduler("tcp://127.0.0.1:1", None, None, None), tmp_path, lambda event: None)
    cluster._client = Holder()
    return cluster


def test_data_is_sent_once_and_again_only_when_it_was_lost(cluster):
    name = own_data.add(CSV.encode(), "films.csv")
    for _ in range(3):
        cluster.submit([RunConfig(task=name)], "attempt")
    client = cluster._client
    assert client.held == [own_path(name).read_bytes()]
    assert len({id(future) for future in client.needed}) == 1
    client.needed[-1].status = "cancelled"
    cluster.submit([RunConfig(task=name)], "attempt")
    assert len(client.held) == 2
    assert client.needed[-1].status == "finished"


def test_only_the_data_of_own_tasks_that_is_here_is_sent_and_only_elsewhere(cluster, tmp_path):
    for name in ("digits", "own:0123456789abcdef", "own:nonsense"):
        cluster.submit([RunConfig(task=name)], "attempt")
    name = own_data.add(CSV.encode(), "films.csv")
    embedded = Cluster(None, tmp_path, lambda event: None)
    embedded._client = Holder()
    embedded.submit([RunConfig(task=name)], "attempt")
    assert (cluster._client.held, cluster._client.needed) == ([], [None] * 3)
    assert (embedded._client.held, embedded._client.needed) == ([], [None])


def test_the_cluster_lets_go_of_data_that_was_not_needed_for_long(cluster):
    names = [own_data.add(CSV.replace("film", f"film{i}").encode(), "films.csv") for i in range(MOST_SENT + 1)]
    for name in (*names, names[-1], names[0]):
        cluster.submit([RunConfig(task=name)], "attempt")
    assert len(cluster._client.held) == MOST_SENT + 2
    assert list(cluster._sent) == [*names[2:], names[0]]


@pytest.mark.parametrize(
    ("name", "gpus", "device"),
    [("tls://172.18.0.3:41235", 1, "cuda"), ("gpu-worker", 8, "cuda"), ("5", 4, "cuda:1"), ("1", 1, "cuda:0")],
)
def test_a_worker_takes_its_number_of_gpu_or_the_one_it_is_given(monkeypatch, name, gpus, device):
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    assert worker._device("cuda", name) == device
    assert worker._device("cpu", name) == "cpu"
