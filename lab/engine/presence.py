"""Who is there: locks that the operating system releases when their holder dies, however it dies."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from filelock import FileLock, Timeout

_held: dict[tuple[int, Path], FileLock] = {}
_guard = threading.Lock()


def engine_lock(root: Path) -> FileLock:
    """The lock that the one engine of a cache holds while it lives."""
    return FileLock(root / "engine.lock", thread_local=False)


def engine_alive(root: Path) -> bool:
    """Whether an engine holds its lock."""
    lock = engine_lock(root)
    try:
        # Not at once: another process may be asking this very question.
        lock.acquire(timeout=0.02, poll_interval=0.005)
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False


def show_up(root: Path) -> None:
    """Hold a lock in ``clients/`` for as long as this process lives. Raises OSError in a folder that is only read."""
    with _guard:
        me = (os.getpid(), root)
        while me not in _held or not Path(_held[me].lock_file).exists():
            path = root / "clients" / f"{os.getpid()}-{os.urandom(4).hex()}.lock"
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = FileLock(path, thread_local=False)
            with contextlib.suppress(Timeout):  # the engine may have swept the file away before it was locked
                lock.acquire(timeout=0)
                _held[me] = lock


def anyone_there(root: Path) -> bool:
    """Whether any client lives; the lock files of those that died are removed."""
    found = False
    for path in (root / "clients").glob("*.lock"):
        try:
            with FileLock(path, timeout=0):
                path.unlink(missing_ok=True)
        except Timeout:
            found = True
        except OSError:
            continue
    return found
