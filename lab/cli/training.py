"""Commands that train, and those that say what there is."""

from __future__ import annotations

import csv
import json
import math
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from lab.arms import Arm, arms
from lab.cli.app import app, spoken_errors
from lab.commands import study_command
from lab.config import RunConfig
from lab.engine.client import Engine
from lab.errors import LabError
from lab.positions import Position
from lab.results import RunResult
from lab.store import Store
from lab.study import MAX_RUNS, Study
from lab.tasks import available, get_task
from lab.tasks.recipes import recipe

POLL_SECONDS = 0.2

Task = Annotated[str, typer.Option(help="The task; `python -m lab tasks` lists them.")]
Size = Annotated[str, typer.Option(help="mini, small or full.")]
Alpha = Annotated[float, typer.Option(help="Step size of the heat layer, 0 to 0.5.")]
Steps = Annotated[int | None, typer.Option(help="Optimiser steps; the task's own budget if not given.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Any other field of a run, e.g. --set width=64; repeatable."),
]
Permuted = Annotated[
    bool, typer.Option("--permuted", help="The permuted control: the same spectrum, random neighbours.")
]
Matched = Annotated[bool, typer.Option("--matched", help="Matched total α: α / N where the layer acts N times.")]


@app.command()
def run(
    task: Task = "digits",
    position: Annotated[str, typer.Option(help="baseline or one of the seven positions.")] = "baseline",
    alpha: Alpha = 0.25,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    steps: Steps = None,
    size: Size = "mini",
    permuted: Permuted = False,
    matched: Matched = False,
    set_: Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Train one run, or read it from the cache, and print its accuracy."""
    with spoken_errors():
        _check_task(task, size)
        arm = {"position": position, "alpha": alpha, "seed": seed, "permuted": permuted, "matched": matched}
        config = recipe(task, size, **arm, **_budget(steps), **_fields(set_))
        store = Store()
        cached = store.get(config.key) is not None
        result = train(store, [config])[config.key]
        if as_json:
            line = json.loads(result.to_json())
            print(json.dumps({"key": config.key, "cached": cached, **line}, sort_keys=True))
        else:
            origin = (
                "from the cache" if cached else f"trained in {result.seconds:.1f} s on {result.provenance['device']}"
            )
            print(
                f"{config.label}, seed {seed}: accuracy {result.accuracy:.1%}, chance {result.chance:.1%}, {origin}, key {config.key}"
            )


@app.command()
def study(
    task: Task = "digits",
    alpha: Annotated[
        list[float] | None, typer.Option(help="Step size, 0 to 0.5; repeat it for a grid. 0.25 if not given.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=MAX_RUNS, help="How many seeds, from 0.")] = 3,
    seed: Annotated[list[int] | None, typer.Option(help="These seeds instead; repeatable.")] = None,
    steps: Steps = None,
    size: Size = "mini",
    position: Annotated[
        list[str] | None, typer.Option(help="Only these positions; repeatable. All if not given.")
    ] = None,
    permuted: Annotated[bool, typer.Option("--permuted", help="Train the permuted control of every arm too.")] = False,
    matched: Matched = False,
    set_: Set = None,
    until: Annotated[
        float,
        typer.Option(
            min=0, help="Stop when every interval is ± so many points, from 5 seeds on; --seeds is then the most."
        ),
    ] = 0.0,
    out: Annotated[Path | None, typer.Option(help="Write a row per run to this CSV file.")] = None,
) -> None:
    """Train the baseline and all seven positions at several seeds, and print what the differences say."""
    with spoken_errors():
        _check_task(task, size)
        base = recipe(task, size, position=Position.AFTER_EMBEDDING, **_budget(steps), **_fields(set_))
        positions = _positions(position) if position else tuple(Position)
        asked = Study(base, positions, tuple(alpha or [0.25]), tuple(seed or range(seeds)), permuted, matched)
        print(f"study {asked.key}: {study_command(asked, until)}", file=sys.stderr)
        results = train(Store(), asked.configs(), until / 100)
        if out:
            _write_csv(out, results.values())
        for arm in arms(results.values()):
            print(_arm_line(arm))
        if out:
            print(f"{len(results)} runs written to {out}")


@app.command("list")
def list_() -> None:
    """The runs in the cache, one a line."""
    with spoken_errors():
        store = Store()
        found = sorted(store.results(), key=lambda r: (r.config.task, r.config.label, r.config.seed))
        for result in found:
            c = result.config
            print(f"{c.key}  {c.task}/{c.size}  {c.steps} steps  seed {c.seed}  {c.label:32}  {result.accuracy:.1%}")
        print(f"{len(found)} runs in {store.path}", file=sys.stderr)
        for notice in store.notices():
            print(notice, file=sys.stderr)


@app.command()
def tasks() -> None:
    """The tasks, their sizes, and why those that are not available here are not."""
    with spoken_errors():
        for name, size, reason in available():
            print(f"{name:18} {size:6} {reason or 'available'}")


@app.command()
def fetch(name: Annotated[str, typer.Argument(help="What to bring: text.")]) -> None:
    """Bring public data into the data folder; safe to interrupt and to repeat."""
    from lab.tasks.fetch import fetch as bring

    with spoken_errors():
        bring(name, lambda line: print(line, file=sys.stderr))


def _check_task(task: str, size: str) -> None:
    if reason := get_task(task).unavailable(size):
        raise LabError(reason, "size")


def _positions(names: Sequence[str]) -> tuple[Position, ...]:
    return tuple(RunConfig(position=name).position for name in names)  # type: ignore[arg-type]  # the config checks it


def _budget(steps: int | None) -> dict[str, Any]:
    return {} if steps is None else {"steps": steps}


_OWN_OPTIONS = ("task", "size", "position", "alpha", "seed", "steps", "permuted", "matched")


def _fields(pairs: Sequence[str] | None) -> dict[str, Any]:
    """``field=value`` pairs; a value is JSON where it can be read as such, else a word. The config checks the rest."""
    fields: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not equals:
            raise LabError(f"--set is {pair!r}; it must be FIELD=VALUE.", "set")
        if name in _OWN_OPTIONS:
            raise LabError(f"--set names {name!r}; it has an option of its own, --{name}.", "set")
        if name not in RunConfig.__dataclass_fields__:
            raise LabError(f"--set names {name!r}; the fields are {', '.join(RunConfig.__dataclass_fields__)}.", "set")
        try:
            fields[name] = json.loads(text)
        except json.JSONDecodeError:
            fields[name] = text
    return fields


def train(store: Store, configs: Sequence[RunConfig], until: float = 0.0) -> dict[str, RunResult]:
    """Ask the engine for what the store lacks, wait with progress on stderr, and return the results by key.

    With ``until``, only as many seeds as it takes for every interval to have that half-width.
    Interrupting takes the request back: what nobody else wants stops, what is done is kept.
    """
    keys = [config.key for config in configs]
    results = store.get_many(keys)
    if len(results) < len(keys):
        engine = Engine(store)
        request = engine.request(configs, label="command line", until=until)
        with _stopping(engine, request):
            _wait(engine, configs)
        results = store.get_many(keys)
    failures = store.failures(keys)
    for config in configs:
        if config.key in failures:
            raise LabError(f"{config.label}, seed {config.seed}, failed: {failures[config.key]}")
        if config.key not in results and not until:
            raise LabError(f"{config.label}, seed {config.seed}, was stopped; what is done is kept.")
    return results


@contextmanager
def _stopping(engine: Engine, request: str) -> Iterator[None]:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupted)
    try:
        yield
    except KeyboardInterrupt:
        engine.stop(request)
        raise LabError("Stopped; what is done is kept, and the same command goes on from there.") from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait(engine: Engine, configs: Sequence[RunConfig]) -> None:
    named = {config.key: config for config in configs}
    told: set[str] = set()
    shown = ""
    while True:
        states = engine.runs(list(named))
        for key, state in states.items():
            if state.kind in ("done", "failed", "stopped") and key not in told:
                told.add(key)
                config = named[key]
                line = f"{len(told)}/{len(named)}  {config.label}, seed {config.seed}: {state.kind}"
                print(f"\r{line}\033[K" if sys.stderr.isatty() else line, file=sys.stderr)
        if all(state.kind not in ("running", "queued") for state in states.values()):
            return
        running = [
            f"{named[key].label} {state.step}/{state.steps}" for key, state in states.items() if state.kind == "running"
        ]
        message = engine.status().message
        line = ", ".join(running) or message or "waiting for the engine"
        if line != shown:
            if sys.stderr.isatty():
                print(f"\r{line[:100]}\033[K", end="", file=sys.stderr, flush=True)
            elif message and not running:  # a log keeps what is wrong, not every step
                print(message, file=sys.stderr, flush=True)
            shown = line
        time.sleep(POLL_SECONDS)


def _arm_line(arm: Arm) -> str:
    line = f"{arm.config.label:34} {arm.mean:6.1%}  n = {len(arm.results)}"
    if arm.difference is None:
        return line
    d = arm.difference
    interval = "" if math.isnan(d.low) else f" [{100 * d.low:+.1f}, {100 * d.high:+.1f}]"
    return f"{line}  {100 * d.mean:+.1f} pp{interval}  {arm.verdict}"


def _write_csv(path: Path, results: Iterable[RunResult]) -> None:
    rows = [result.row() for result in results]
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise LabError(
            f"--out: {path} cannot be written ({error.strerror}); the runs are in the cache.", "out"
        ) from None
