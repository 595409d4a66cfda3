"""What the engine costs: per run, on the 24-run digits study, and on reading a cached study. Run by hand.

python benchmarks/engine.py            all three (a few minutes)
python benchmarks/engine.py --quick    without the 24-run study
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lab.config import RunConfig
from lab.engine import Engine
from lab.engine.launch import ONE_THREAD
from lab.positions import Position
from lab.store import Store
from lab.store.store import _result
from lab.study import Study

TINY = RunConfig(steps=1, eval_every=1, batch=4, width=8, heads=1, layers=1, ffn=8, warmup=0)
DIGITS = Study(RunConfig(task="digits", position=Position.AFTER_EMBEDDING, steps=300))


def finish(engine: Engine, configs: Sequence[RunConfig]) -> float:
    """Ask for runs and wait; the seconds that took."""
    keys, start = [config.key for config in configs], time.perf_counter()
    engine.request(configs)
    while engine.open_requests():
        time.sleep(0.02)
    seconds = time.perf_counter() - start
    assert engine.store.done(keys) == set(keys), engine.store.failures(keys)
    return seconds


def warm(engine: Engine) -> None:
    """Start the engine and have every worker load PyTorch."""
    seed = 10_000
    while len([w for w in engine.status().workers if w.device]) < max(1, engine.status().slots):
        finish(engine, [TINY.with_(seed=seed + i) for i in range(4)])
        seed += 4


def overhead(engine: Engine) -> None:
    runs = [TINY.with_(seed=seed) for seed in range(60)]
    wall, slots = finish(engine, runs), engine.status().slots
    training = sum(result.seconds for result in engine.store.get_many(run.key for run in runs).values())
    lost = (wall * slots - training) / len(runs)
    print(f"overhead per run, submit to stored, training excluded: {lost * 1000:.0f} ms of a slot (target 50)")
    print(f"  {len(runs)} runs, {slots} slots, {wall:.2f} s wall, {training:.2f} s of training")


SOLO = """
import sys, time
from lab.config import RunConfig
from lab.training import train_pack
configs = [RunConfig.from_json(line) for line in sys.stdin]
train_pack([configs[0].with_(steps=2)])
start = time.perf_counter()
for config in configs:
    train_pack([config])
print(time.perf_counter() - start)
"""


def study(engine: Engine) -> None:
    configs, slots = DIGITS.configs(), engine.status().slots
    wall = finish(engine, configs)
    lines = "\n".join(config.json for config in configs)
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", SOLO]
    done = subprocess.run(command, input=lines, env=environment, capture_output=True, text=True, check=True)
    solo = float(done.stdout)
    ratio = wall / (solo / slots)
    print(
        f"{len(configs)} digits runs at 300 steps: {wall:.1f} s; alone, one thread, one after the other: {solo:.1f} s"
    )
    print(f"  ratio to the sum divided by {slots} slots: {ratio:.2f} (target 1.15)")


def cached(engine: Engine, folder: Path) -> None:
    one = next(engine.store.results())
    store, keys = Store(folder / "read"), []
    curve = tuple(replace(one.curve[0], step=25 * i) for i in range(1, 13))
    for seed in range(1000):
        result = replace(one, config=DIGITS.base.with_(seed=seed), curve=curve)
        store.put(result, {})
        keys.append(result.config.key)
    for title in ("first", "again"):
        if title == "first":
            _result.cache_clear()
        fresh, start = Store(store.path), time.perf_counter()
        assert len(fresh.get_many(keys)) == 1000
        print(f"reading a cached study of 1,000 runs, {title}: {time.perf_counter() - start:.3f} s (target 0.3)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the 24-run study")
    quick = parser.parse_args().quick
    os.environ["LAB_ENGINE_GRACE"] = "1"
    with tempfile.TemporaryDirectory(prefix="lab-bench-", ignore_cleanup_errors=True) as folder:
        engine = Engine(Store(Path(folder) / "cache"))
        start = time.perf_counter()
        finish(engine, [TINY])
        print(f"a first run, engine started from nothing: {time.perf_counter() - start:.1f} s")
        warm(engine)
        overhead(engine)
        if not quick:
            study(engine)
        cached(engine, Path(folder))
        print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
