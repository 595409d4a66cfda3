"""Starting the engine process: apart from whoever starts it, so that it outlives a page, a reload, a command."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Two processes with two threads each are a hundred times slower than two with one (measured, 2 cores)."""

KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(2**28),
    "MALLOC_MMAP_THRESHOLD_": str(2**28),
    "MALLOC_TOP_PAD_": str(2**26),
}
"""Workers keep the memory that a step frees, for the next one. Dask's own setting gives it back to the system above 64 KiB,
which doubles the time of a step of a small model (measured: 16.3 against 8.2 ms, one thread)."""

LOG_BYTES = 2_000_000


def launch(root: Path) -> subprocess.Popen[bytes]:
    """Start ``python -m lab.engine`` on the cache ``root`` in a session of its own. Raises OSError."""
    home = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, **ONE_THREAD, "LAB_CACHE": str(root), "PYTHONPATH": path}
    cap_log(root)
    with (root / "engine.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "lab.engine"],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def cap_log(root: Path) -> None:
    """Empty ``engine.log`` once it is too long; everybody who writes it appends, so nobody minds."""
    log = root / "engine.log"
    with contextlib.suppress(OSError):
        if log.stat().st_size > LOG_BYTES:
            os.truncate(log, 0)
