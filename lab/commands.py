"""The command line that makes a run or a study again: the other half of a link."""

from __future__ import annotations

import json
import shlex
from dataclasses import fields

from lab.config import RunConfig
from lab.positions import Position
from lab.study import Study
from lab.tasks.recipes import recipe

PROGRAM = "python -m lab"

_OPTIONS = ("task", "size", "position", "alpha", "seed", "steps", "permuted", "matched")
"""Fields of a run that have an option of their own; the others go by ``--set``."""


def run_command(config: RunConfig) -> str:
    """The command that makes one run, e.g. ``python -m lab run --task digits --position after_ffn --alpha 0.25 --seed 3``."""
    words = ["run", "--task", config.task, *_size(config), "--position", config.position.value]
    if config.position is not Position.BASELINE:
        words += ["--alpha", f"{config.alpha:.9g}"]
    words += ["--seed", str(config.seed), *_steps(config)]
    words += [f"--{name}" for name in ("permuted", "matched") if getattr(config, name)]
    return f"{PROGRAM} {shlex.join([*words, *_set(config)])}"


def study_command(study: Study, until: float = 0.0) -> str:
    """The command that makes a study, and goes on with one that was interrupted; ``until`` is its stop at a width, in points."""
    words = ["study", "--task", study.base.task, *_size(study.base)]
    for alpha in study.alphas:
        words += ["--alpha", f"{alpha:.9g}"]
    if study.seeds == tuple(range(len(study.seeds))):
        words += ["--seeds", str(len(study.seeds))]
    else:
        words += [word for seed in study.seeds for word in ("--seed", str(seed))]
    words += _steps(study.base)
    if study.positions != tuple(Position):
        words += [word for position in study.positions for word in ("--position", position.value)]
    words += [f"--{name}" for name in ("permuted", "matched") if getattr(study, name)]
    if until:
        words += ["--until", f"{until:.9g}"]
    return f"{PROGRAM} {shlex.join([*words, *_set(study.base)])}"


def _size(config: RunConfig) -> list[str]:
    return [] if config.size == "mini" else ["--size", config.size]


def _steps(config: RunConfig) -> list[str]:
    return [] if config.steps == recipe(config.task, config.size).steps else ["--steps", str(config.steps)]


def _set(config: RunConfig) -> list[str]:
    """``--set`` for every other field that is not what the task's recipe has."""
    usual = recipe(config.task, config.size, position=config.position)
    words = []
    for field in fields(RunConfig):
        value = getattr(config, field.name)
        if field.name not in _OPTIONS and value != getattr(usual, field.name):
            text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
            words += ["--set", f"{field.name}={text}"]
    return words
