"""How fast pages open with 10,000 runs in the store, beside a store with 100.

    python benchmarks/many_runs.py

Prints, for every page, the ratio of the median times from opening its address until it stands still; each is to be at most 1.3. The
default study is in both stores, so the pages draw the same.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.serving import READY, browser, serve
from lab.config import RunConfig
from lab.positions import Position
from lab.results import CurvePoint, DepthProfile, OrderSwap, RunResult
from lab.store import Store
from lab.study import Study

PAGES = ("", "heat", "energy", "commutator", "accuracy", "grid", "order", "claims", "engine", "tasks")


def made_up(config: RunConfig, rng: np.random.Generator) -> RunResult:
    """A result with all that a real one has, of random numbers: only its size matters here."""
    curve = tuple(CurvePoint(step, float(rng.random()), float(rng.random())) for step in range(25, 301, 25))
    swap = tuple(OrderSwap(*map(float, rng.random(3))) for _ in range(config.layers))
    profile = DepthProfile(tuple(map(float, rng.random(3))), tuple(map(float, 1 + rng.random(3))), swap)
    alphas = (config.alpha,) * config.position.applications(config.layers)
    on = {"torch": "x", "device": "cpu", "threads": "1"}
    return RunResult(config, curve[-1].accuracy, 0.1, curve, profile, profile, alphas, 20_000, 360, 4.0, on)


def configs(count: int) -> Iterator[RunConfig]:
    """The default study, then other seeds of it."""
    study = Study(seeds=tuple(range(5)), permuted=True).configs()
    yield from study
    others = (RunConfig(position=p, seed=s) for s in range(100, 100_000) for p in Position)
    for _, config in zip(range(count - len(study)), others, strict=False):
        yield config


def fill(folder: str, count: int) -> None:
    """Put so many runs into a store."""
    store, rng = Store(folder), np.random.default_rng(0)
    for config in configs(count):
        store.put(made_up(config, rng), {})


def opened(chromium: Browser, address: str) -> float:
    """Seconds until a page, opened in a session of its own, stands still."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    start = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_selector(READY, timeout=120_000)
    page.wait_for_selector("h1, h2, h3", timeout=120_000)
    seconds = time.perf_counter() - start
    context.close()
    return seconds


def main() -> None:
    """Measure turn by turn, so that whatever else the machine does hits both alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--runs", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as few, tempfile.TemporaryDirectory() as many:
        fill(few, 100)
        fill(many, options.runs)
        with serve("app.py", few) as (light, _), serve("app.py", many) as (heavy, _), sync_playwright() as playwright:
            chromium = browser(playwright)
            worst = 0.0
            for name in PAGES:
                times: tuple[list[float], list[float]] = ([], [])
                for turn in range(options.turns + 1):
                    for found, address in zip(times, (light, heavy), strict=True):
                        seconds = opened(chromium, f"{address}/{name}")
                        if turn:  # the first only warms up the server
                            found.append(seconds)
                less, more = map(statistics.median, times)
                worst = max(worst, more / less)
                print(
                    f"{name or 'home':12} 100 runs {less:.2f} s, {options.runs:,} runs {more:.2f} s, ratio {more / less:.2f}"
                )
            print(f"largest ratio {worst:.2f} (at most 1.30)")
            chromium.close()


if __name__ == "__main__":
    main()
