"""Commands about the study that ships with the lab: making it, checking it, writing down what it found."""

from __future__ import annotations

import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from lab import starter_study
from lab.cli.app import app, spoken_errors
from lab.cli.training import train
from lab.commands import PROGRAM, run_command, study_command
from lab.errors import LabError
from lab.results import RunResult
from lab.store import Store
from lab.store.starter import Starter, starter_path, write_starter
from lab.tasks import get_task

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "docs" / "findings.template.md"


@app.command()
def starter(
    out: Annotated[Path | None, typer.Option(help="Where to write it; cache/starter if not given.")] = None,
    commit: Annotated[str, typer.Option(help="The commit that trained the runs, if it is not this checkout's.")] = "",
    only: Annotated[bool, typer.Option("--list", help="Only print the studies and their commands.")] = False,
) -> None:
    """Make the study that ships with the lab: train what is missing of it, then write its table."""
    with spoken_errors():
        store = Store()
        results: dict[str, RunResult] = {}
        if not only:  # the engine, a process of its own, must not count what is shipped as done
            store.train_anew(config.key for study in starter_study.studies() for config in study.configs())
        store.starter = Starter(None)  # what is shipped already is no evidence for what is made now
        for study in starter_study.studies():
            print(f"{study.key}  {len(study.configs()):3} runs  {study_command(study)}")
            if not only:
                results |= train(store, study.configs())
        if only:
            return
        folder = out or ROOT / "cache" / "starter"
        try:
            manifest = write_starter(
                folder,
                results.values(),
                [study_command(study) for study in starter_study.studies()],
                commit or starter_study.commit_of(ROOT),
                datetime.now(UTC).date().isoformat(),
            )
        except OSError as error:
            raise LabError(
                f"--out: {folder} cannot be written ({error.strerror}); the runs are in the cache."
            ) from None
        print(f"{manifest.runs} runs, {manifest.seconds / 60:.0f} minutes of training, written to {folder}")


@app.command()
def verify(
    sample: Annotated[int, typer.Option(min=1, help="How many runs to train again.")] = 5,
    seed: Annotated[
        int | None, typer.Option(help="Which ones: seed of the draw; another draw each time if not given.")
    ] = None,
) -> None:
    """Train random runs of the starter study again and report how far they are off; a mismatch is an error."""
    with spoken_errors():
        shipped = Starter(starter_path())
        results = list(shipped.results())
        if not results:
            raise LabError(shipped.problem or "There is no starter study here; `git` has it under cache/starter.")
        for task in sorted({r.config.task for r in results}):
            if reason := get_task(task).unavailable("mini"):
                print(f"{task} is left out. {reason}", file=sys.stderr)
                results = [r for r in results if r.config.task != task]
        draw = secrets.randbelow(2**31) if seed is None else seed
        wrong = 0
        for chosen in starter_study.sample(results, sample, draw):
            found = starter_study.drift(chosen, starter_study.train_here(chosen.config))
            wrong += not found.agrees
            print(
                f"{'agrees' if found.agrees else 'DIFFERS'}  accuracy off by {100 * found.accuracy:.2f} points, start by {found.start:.1e}"
                f" ({'exact' if found.exact else 'other machine'})  {run_command(chosen.config)}"
            )
        print(f"{PROGRAM} verify --sample {sample} --seed {draw}", file=sys.stderr)
        if wrong:
            raise LabError(f"{wrong} of the runs trained again differ by more than the tolerance.")


@app.command()
def findings(
    out: Annotated[Path, typer.Option(help="The page to write; its figures go into findings/ beside it.")] = ROOT
    / "docs"
    / "findings.md",
) -> None:
    """Write down what the starter study found: its numbers in the words of docs/findings.template.md, with figures."""
    from lab.findings import write  # the figures' libraries take a second that no other command needs

    with spoken_errors():
        shipped = Starter(starter_path())
        results = {result.config.key: result for result in shipped.results()}
        if not results or shipped.manifest is None:
            raise LabError(shipped.problem or "There is no starter study here; `git` has it under cache/starter.")
        if not TEMPLATE.exists():
            raise LabError(f"{TEMPLATE}, the words around the numbers, is not here; a checkout has it.")
        try:
            drawn = write(out, TEMPLATE.read_text(encoding="utf-8"), results, shipped.manifest)
        except OSError as error:
            raise LabError(f"--out: {out} cannot be written ({error.strerror}).", "out") from None
        print(f"{len(results)} runs, {drawn} figures, written to {out}")
