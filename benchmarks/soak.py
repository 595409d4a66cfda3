"""Hours of use in minutes: pages that are opened and moved, studies that are asked for and stopped; does anything grow?

    python benchmarks/soak.py --minutes 15

Starts the app on a free port over a cache of its own. A few browser pages move the α slider, open other pages and ask for
studies, while a thread asks the engine for tiny studies with ever new seeds and takes every third back. Every few seconds:
memory, open files and threads of the server, the engine and its workers, and how long a page took to show a change.

The first fifth is warming up and left out. A quantity has grown beyond noise when the 95 % interval of its slope (Theil and
Sen's) lies above zero and its median in the last third is more than a tenth above that in the first. Exit status 1 then.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import psutil
from playwright.sync_api import Page, sync_playwright
from scipy.stats import theilslopes

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.serving import READY, browser, serve
from lab.config import RunConfig
from lab.engine import Engine
from lab.engine.live import read_live
from lab.store import Store

TINY = RunConfig(steps=20, eval_every=20, batch=4, width=8, heads=1, layers=1, ffn=8, warmup=0)
WARMING_UP = 0.2
GROWTH = 1.1
PATHS = ("heat", "energy", "commutator", "accuracy?v=1&task=digits&seeds=1&steps=5&seed={}", "tasks")


class Verdict(NamedTuple):
    """What became of one quantity: its median in the first and last third, its slope an hour with the 95 % interval."""

    first: float
    last: float
    slope: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """Last over first; 1 where both are nothing."""
        return self.last / self.first if self.first else 1.0 + self.last

    @property
    def grown(self) -> bool:
        """Beyond noise: by slope and by size."""
        return self.low > 0 and self.ratio > GROWTH


def judge(seconds: Sequence[float], values: Sequence[float]) -> Verdict:
    """The verdict on a quantity that was sampled at these times; at least three samples."""
    third = max(1, len(values) // 3)
    slope, _, low, high = theilslopes(values, [s / 3600 for s in seconds], 0.95)
    return Verdict(statistics.median(values[:third]), statistics.median(values[-third:]), slope, low, high)


def measure(server: psutil.Process, cache: Path) -> dict[str, float]:
    """Memory in MiB, open files and threads of the server, the engine and its workers. Raises psutil.Error."""
    engine = psutil.Process(read_live(cache / "live.json").pid)
    workers = [child for child in engine.children(recursive=True) if "spawn_main" in " ".join(child.cmdline())]
    found: dict[str, float] = {}
    for name, family in (("server", [server]), ("engine", [engine]), ("workers", workers)):
        found[f"{name}: memory, MiB"] = sum(process.memory_info().rss for process in family) / 2**20
        found[f"{name}: open files"] = sum(process.num_fds() for process in family)
        found[f"{name}: threads"] = sum(process.num_threads() for process in family)
    return found


def studies(engine: Engine, end: float, asked: list[str]) -> None:
    """Ask for tiny studies with ever new seeds until it is time, and take every third back."""
    seed = 0
    while time.monotonic() < end:
        request = engine.request([TINY.with_(seed=seed + i) for i in range(4)])
        seed += 4
        if seed % 12 == 0:
            engine.stop(request)
        asked.append(request)
        while len(engine.open_requests()) > 2 and time.monotonic() < end:
            time.sleep(0.1)


def move(page: Page, address: str, turn: int) -> float:
    """Open a page and press Train where there is something to train; the seconds from a key on the α slider to its answer."""
    page.goto(f"{address}/{PATHS[turn % len(PATHS)].format(turn)}")
    page.wait_for_selector(READY)
    train = page.locator(".st-key-train button:not([disabled])")
    if train.count():
        train.click()
    slider = page.locator(".st-key-alpha input[type=range]").first
    slider.focus()
    before, start = page.url, time.perf_counter()
    slider.press("ArrowRight")
    page.wait_for_function("before => location.href !== before", arg=before)  # the script has run and written the link
    return time.perf_counter() - start


def drive(address: str, server: psutil.Process, cache: Path, options: argparse.Namespace) -> list[dict[str, float]]:
    """Use the lab until it is time; the samples, each with its second."""
    engine, asked, start = Engine(Store(cache)), list[str](), time.monotonic()
    end = start + 60 * options.minutes
    asking = threading.Thread(target=studies, args=(engine, end, asked))
    samples: list[dict[str, float]] = []
    with sync_playwright() as playwright:
        chromium = browser(playwright)
        pages = [chromium.new_page() for _ in range(options.pages)]
        asking.start()
        for turn in itertools.count():
            page = pages[turn % len(pages)]
            page.bring_to_front()
            latency = move(page, address, turn)
            if time.monotonic() > end:
                break
            with contextlib.suppress(psutil.Error):  # a worker that is just starting, say
                now = {"seconds": time.monotonic() - start, "page: answer, s": latency}
                samples.append(now | measure(server, cache))
            time.sleep(options.pause)
        chromium.close()
    asking.join()
    trained = len(list(engine.store.results()))
    print(f"{options.minutes:g} minutes: {turn} pages opened, {len(asked)} studies asked for, {trained} runs trained")
    return samples


def report(samples: list[dict[str, float]]) -> bool:
    """One line for each quantity; whether any has grown beyond noise."""
    samples = [sample for sample in samples if sample["seconds"] > WARMING_UP * samples[-1]["seconds"]]
    seconds, grown = [sample["seconds"] for sample in samples], []
    print(f"{len(samples)} samples after warming up; medians of the first and the last third")
    for name in [name for name in samples[0] if name != "seconds"]:
        verdict = judge(seconds, [sample[name] for sample in samples])
        print(
            f"{name:22} {verdict.first:9.2f} → {verdict.last:9.2f}  ratio {verdict.ratio:.3f}  slope an hour "
            f"{verdict.slope:+.2f} [{verdict.low:+.2f}, {verdict.high:+.2f}]{'  GROWN' if verdict.grown else ''}"
        )
        if verdict.grown:
            grown.append(name)
    print(f"grown beyond noise: {', '.join(grown)}" if grown else "no growth beyond noise")
    return bool(grown)


def main() -> int:
    """Drive, report; 1 if anything has grown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--pages", type=int, default=3, help="browser pages that stay open")
    parser.add_argument("--pause", type=float, default=2, help="seconds between two turns")
    parser.add_argument("--samples", help="a CSV file for every sample")
    options = parser.parse_args()
    os.environ["LAB_ENGINE_GRACE"] = "2"
    with tempfile.TemporaryDirectory(prefix="lab-soak-", ignore_cleanup_errors=True) as folder:
        cache = Path(folder) / "cache"
        with serve("app.py", cache) as (address, pid):
            samples = drive(address, psutil.Process(pid), cache, options)
    if options.samples:
        pd.DataFrame(samples).to_csv(options.samples, index=False)
    if len(samples) < 15:
        print(f"only {len(samples)} samples: too few to tell; let it run longer")
        return 1
    return int(report(samples))


if __name__ == "__main__":
    sys.exit(main())
