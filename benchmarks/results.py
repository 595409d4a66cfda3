"""Does the baseline learn? Trains it at every mini task's default budget, five seeds, and writes benchmarks/RESULTS.md.

    python benchmarks/results.py            # every mini task that is available here
    python benchmarks/results.py digits     # only these

Through the lab's own store and engine, so a second call trains nothing again.
"""

from __future__ import annotations

import platform
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from lab.engine import Engine  # noqa: E402
from lab.results import RunResult  # noqa: E402
from lab.statistics import paired_difference  # noqa: E402
from lab.store import Store  # noqa: E402
from lab.tasks import available, get_task  # noqa: E402
from lab.tasks.cache import data_folder  # noqa: E402
from lab.tasks.recipes import recipe  # noqa: E402

SEEDS = range(10, 15)
"""Not the seeds from 0 that budgets were tried out with: a budget chosen by a seed flatters that seed."""

HEAD = """# What the baseline learns at `mini`

Written by `python benchmarks/results.py`; not edited by hand. The baseline (no heat layer) of each mini task after its default budget,
over {n} seeds ({first} to {last}; budgets were tried out with seeds 0 to 2): mean held-out
accuracy with its 95 % t interval, beside chance, which is the accuracy of always answering the most frequent training class.
Nothing is selected on the held-out split: it is the accuracy after the last step.

| task | steps | accuracy, 95 % interval | chance | beats chance | seconds a run |
|---|---|---|---|---|---|
"""


def train(store: Store, task: str) -> list[RunResult]:
    """The five runs of one task, from the store or through the engine."""
    configs = [recipe(task, "mini", seed=seed) for seed in SEEDS]
    engine = Engine(store)
    engine.request(configs, label="benchmark")
    keys = [config.key for config in configs]
    while any(state.kind in ("running", "queued") for state in engine.runs(keys).values()):
        time.sleep(0.5)
    found = store.get_many(keys)
    if len(found) < len(keys):
        sys.exit(f"{task}: {store.failures(keys) or 'some runs were stopped'}")
    return list(found.values())


def row(task: str, results: list[RunResult]) -> str:
    """One line of the table."""
    above = paired_difference([r.accuracy - r.chance for r in results])
    chance = results[0].chance
    mean = above.mean + chance
    beats = "yes" if above.low > 0 else "not distinguishable from chance" if above.high > 0 else "no"
    seconds = statistics.median(r.seconds for r in results)
    interval = f"{mean:.1%} [{above.low + chance:.1%}, {above.high + chance:.1%}]"
    return f"| {task} | {results[0].config.steps} | {interval} | {chance:.1%} | {beats} | {seconds:.0f} |\n"


def main(names: list[str]) -> None:
    """Train, then write the table."""
    store = Store()
    listed = [(name, reason) for name, size, reason in available() if size == "mini" and not name.startswith("own:")]
    lines, missing, made = [], [], None
    for name, reason in listed:
        if names and name not in names:
            continue
        if reason:
            missing.append(f"- {name}: {reason.replace(str(data_folder()), 'cache/data')}\n")
            continue
        results = train(store, name)
        made = results[0].provenance
        lines.append(row(name, results))
        print(lines[-1], end="", flush=True)
    text = HEAD.format(n=len(SEEDS), first=SEEDS[0], last=SEEDS[-1]) + "".join(lines)
    lacking = [
        t.info.name for t in map(get_task, dict.fromkeys(n for n, *_ in available())) if "mini" not in t.info.sizes
    ]
    if lacking:
        text += f"\nWithout a `mini` size, so not in the table: {', '.join(n for n in lacking if not n.startswith('own:'))}.\n"
    if missing:
        text += "\nNot available on the machine that wrote this:\n\n" + "".join(missing)
    if made:
        text += f"\nMade with torch {made['torch']}, Python {made['python']}, {made['device']} ({platform.machine()}), one thread a run.\n"
    if not names:
        (ROOT / "benchmarks" / "RESULTS.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
