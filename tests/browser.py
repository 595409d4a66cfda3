"""A running app and a real browser, for the tests that need both."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

needs_browser = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("LAB_REQUIRE_BROWSER"),
    reason="no Chromium or Chrome on this machine: install one to run the browser tests (Debian: apt install chromium)",
)


@contextmanager
def running_app(cache: Path, script: str = "app.py", **environment: str) -> Iterator[str]:
    """The app on a free port of the loopback, over a cache of its own; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # The home folder of the machine's user must not change what is tested.
    env = {**os.environ, "LAB_CACHE": str(cache), "HOME": str(cache), **environment}
    options = ["--server.port", str(port), "--server.address", "127.0.0.1", "--server.headless", "true"]
    log = cache / f"server-{port}.log"  # a file, not a pipe: nobody reads on, and a full pipe would stop the server
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", script, *options], cwd=ROOT, env=env, stdout=out, stderr=out
        )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_until_up(process, f"{address}/_stcore/health", log)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)
    said = log.read_text("utf-8", "replace")
    assert "Traceback" not in said, said[-3000:]


def _wait_until_up(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                assert answer.status == 200
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"the app did not come up: {log.read_text('utf-8', 'replace')[-2000:]}")


@contextmanager
def browser_page(width: int = 1440, height: int = 900, scheme: str = "light"):
    """A page of a fresh browser that fails the test if anything is asked of another machine, or a script breaks."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None, "a browser is required here (LAB_REQUIRE_BROWSER) and none was found"
    strangers: list[str] = []
    broken: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True
        )
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("request", lambda r: None if _is_local(r.url) else strangers.append(r.url))
        page.on("websocket", lambda socket: None if _is_local(socket.url) else strangers.append(socket.url))
        page.on("pageerror", lambda error: broken.append(str(error)))
        yield page
        browser.close()
    assert not strangers, f"requests left the machine: {strangers[:3]}"
    assert not broken, f"scripts broke: {broken[:3]}"


def _is_local(url: str) -> bool:
    return bool(re.match(r"(https?|wss?)://(127\.0\.0\.1|localhost)[:/]|data:|blob:|about:", url))


def settled(page) -> None:
    """Wait until the script has run through."""
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
