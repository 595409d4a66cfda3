"""The app on a free port, and a browser to look at it with: for the benchmarks that need both."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Playwright

ROOT = Path(__file__).parents[1]
READY = "[data-testid=stApp][data-test-script-state=notRunning]"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@contextlib.contextmanager
def serve(script: str, cache: Path | str) -> Iterator[tuple[str, int]]:
    """A Streamlit server of one script over a cache: its address, and the number of its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", script, "--server.port", str(port)]
    command += ["--server.headless", "true", "--server.fileWatcherType", "none"]
    environment = {**os.environ, "LAB_CACHE": str(cache)}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/_stcore/health").close()
                break
            time.sleep(0.25)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait()


def browser(playwright: Playwright) -> Browser:
    """The machine's Chromium or Chrome."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    return playwright.chromium.launch(executable_path=found, args=list(FLAGS))
