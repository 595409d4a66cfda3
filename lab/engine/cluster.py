"""The Dask cluster: an embedded one with TLS and one single-threaded worker a core, or an existing scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dask
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster
from distributed.security import Security

from lab.config import RunConfig
from lab.engine import worker
from lab.engine.address import Scheduler
from lab.engine.launch import KEEP_MEMORY, ONE_THREAD
from lab.engine.live import Worker
from lab.tasks.own_task import read_own

DEATHS = 3
"""How many workers may die under a run before it counts as failed."""

GPU_PACK = 24
MOST_SENT = 4
"""Of how many of the reader's own tasks the cluster keeps the bytes; what packs that are under way need stays in any case."""

dask.config.set(
    {
        "distributed.scheduler.allowed-failures": DEATHS - 1,
        "distributed.comm.timeouts.connect": "10s",
        "distributed.admin.system-monitor.interval": "5s",
        "distributed.worker.profile.enabled": False,  # it would stop the training every 10 ms to look at its stack
        # Before the process starts: both are read once, when libc and torch are loaded.
        "distributed.nanny.pre-spawn-environ": {**ONE_THREAD, **KEEP_MEMORY},
        # Dask listens for HTTP even without a dashboard: on a free port, with nothing to answer.
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
)


class Cluster:
    """Workers to hand packs to. ``on_event`` hears, in another thread, what :func:`lab.engine.worker.train` tells.

    Raises OSError, RuntimeError or CancelledError while a scheduler is away or does not answer. Where workers declare a ``GPU`` resource,
    only those are used, one pack a GPU.

    Configs, results and weights travel through the scheduler; no folder is shared. Generated tasks make their data where
    they run. The reader's own (``own:``) is sent as the bytes of its file, once to each worker that trains on it, which
    verifies it and keeps it in its own data folder. Fetched data and release files are read on the worker's machine, from
    the folders that ``LAB_DATA``, ``LAB_LRA_DIR`` and ``LAB_CIFAR_DIR`` name there. The embedded cluster's workers have
    the engine's environment, so they find what it finds.
    """

    def __init__(self, scheduler: Scheduler | None, scratch: Path, on_event: Callable[[dict[str, Any]], None]) -> None:
        self._scheduler, self._scratch, self._on_event = scheduler, scratch, on_event
        self._client: Client | None = None
        self._local: LocalCluster | None = None
        self._errands = ThreadPoolExecutor(4, thread_name_prefix="errand")
        self._looking: Future[None] | None = None
        self._telling: dict[str, Future[Any]] = {}
        self._sent: dict[str, Any] = {}  # own tasks whose bytes the cluster holds, the latest last: a Dask future each
        self.workers: list[Worker] = []
        self._gpus = False

    def connect(self) -> None:
        """Start the embedded cluster, or find the scheduler."""
        if self._scheduler is None:
            gpus = _gpu_count()
            self._local = LocalCluster(
                n_workers=gpus or CPU_COUNT,
                threads_per_worker=1,
                processes=True,
                security=True,
                host="127.0.0.1",
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                memory_limit=0,
                local_directory=str(self._scratch),
                resources={"GPU": 1} if gpus else None,
                env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            )
            self._client = Client(self._local, set_as_default=False)
        else:
            self._client = Client(
                self._scheduler.address, security=_security(self._scheduler), timeout=5, set_as_default=False
            )
        self._client.subscribe_topic(worker.TOPIC, lambda event: self._on_event(event[1]))
        self._look()

    @property
    def elsewhere(self) -> bool:
        """Whether the workers may be on other machines, with data folders of their own."""
        return self._scheduler is not None

    @property
    def connected(self) -> bool:
        """Whether the scheduler is there."""
        return self._client is not None and self._client.status == "running"

    @property
    def slots(self) -> int:
        """How many packs can be trained at a time."""
        return sum(w.slots for w in self.workers)

    @property
    def pack_size(self) -> int:
        """How many runs a pack may hold: one on a CPU, where packing brings nothing."""
        return GPU_PACK if self._gpus else 1

    def look(self) -> None:
        """Refresh :attr:`workers`, in the background."""
        if self._looking is None or self._looking.done():
            self._looking = self._errands.submit(self._look)

    def submit(self, configs: Sequence[RunConfig], attempt: str) -> Any:
        """Hand a pack over; a Dask future of what :func:`lab.engine.worker.train` returns."""
        assert self._client is not None
        return self._client.submit(
            worker.train,
            [config.json for config in configs],
            attempt,
            self._own_data(configs[0].task) if self.elsewhere else None,  # a pack has one task
            key=f"train-{attempt}",
            pure=False,
            resources={"GPU": 1} if self._gpus else None,
        )

    def stop(self, attempt: str, keys: Sequence[str]) -> None:
        """Tell every worker, in the background, that these runs shall end: nobody knows which is just starting them."""
        before = self._telling.get(attempt)
        # One at a time: it is said again and again, and a cluster that does not answer must not pile up what is to be said.
        if self._client is not None and (before is None or before.done()):
            self._telling = {name: told for name, told in self._telling.items() if not told.done()}
            self._telling[attempt] = self._errands.submit(
                self._client.run, worker.stop, attempt, list(keys), on_error="ignore"
            )

    def close(self) -> None:
        """Let go of the scheduler; the embedded one and its workers end."""
        for thing in (self._client, self._local):
            if thing is not None:
                with contextlib.suppress(Exception, asyncio.CancelledError):
                    thing.close(timeout=3)
        self._client = self._local = None
        self._sent.clear()
        self.workers = []

    def _own_data(self, name: str) -> Any:
        """A Dask future of the file of one of the reader's own tasks; None for other tasks, or where it is not on this machine.

        Dask hands it from worker to worker as they come to need it. A worker that dies may take the only copy with it:
        the packs that needed it are then lost as well, and handed out again with a new one.
        """
        sent = self._sent.pop(name, None)
        if sent is None or sent.status != "finished":
            data = read_own(name)
            assert self._client is not None
            sent = None if data is None else self._client.scatter(data, hash=False)
        if sent is not None:
            self._sent[name] = sent
            for old in list(self._sent)[:-MOST_SENT]:
                del self._sent[old]
        return sent

    def _look(self) -> None:
        client = self._client
        if client is None or client.status != "running":
            return
        described: Mapping[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
        gpus = {address: int(info.get("resources", {}).get("GPU", 0)) for address, info in described.items()}
        self._gpus = any(gpus.values())
        self.workers = [
            Worker(str(info["name"]), address, gpus[address] if self._gpus else info["nthreads"])
            for address, info in described.items()
            if gpus[address] or not self._gpus
        ]


def _security(scheduler: Scheduler) -> Security | None:
    if not scheduler.tls:
        return None
    return Security(
        tls_ca_file=scheduler.ca,
        tls_client_cert=scheduler.cert,
        tls_client_key=scheduler.key,
        require_encryption=True,
    )


def _gpu_count() -> int:
    """How many GPUs PyTorch can use; asked in a process of its own, so that the engine never loads PyTorch."""
    if shutil.which("nvidia-smi") is None:
        return 0
    code = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):  # a driver that hangs or babbles is none
        answer = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
        )
        return int(answer.stdout)
    return 0
