"""Commands: what a page prints is what the command line reads as the same runs."""

import shlex

import pytest
from typer.testing import CliRunner

from lab.cli import training
from lab.cli.app import app
from lab.commands import PROGRAM, run_command, study_command
from lab.config import RunConfig
from lab.positions import Position
from lab.study import Study
from lab.tasks.recipes import recipe


class AskedError(Exception):
    """Raised in place of training, with what would have been trained."""


@pytest.fixture
def parsed(monkeypatch, tmp_path):
    """What the command line makes of a command, without training it."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    asked = []

    def train(store, configs, *_, **__):
        asked.append(tuple(configs))
        raise AskedError

    monkeypatch.setattr(training, "train", train)

    def parse(command):
        assert command.startswith(f"{PROGRAM} ")
        done = CliRunner().invoke(app, shlex.split(command.removeprefix(PROGRAM)))
        assert isinstance(done.exception, AskedError), done.output
        return asked.pop()

    return parse


RUNS = {
    "the default": recipe("digits"),
    "a baseline at a seed": recipe("listops", seed=3),
    "a position": recipe("digits", position=Position.AFTER_FFN, alpha=0.333333333, seed=2),
    "its controls": recipe("pathfinder", position=Position.BEFORE_LN, alpha=0.1, permuted=True, matched=True),
    "a size and its own budget": recipe("listops", "small", position=Position.BEFORE_HEAD),
    "another budget": recipe("pathfinder", position=Position.AFTER_FFN, steps=17),
    "everything else": recipe(
        "digits",
        position=Position.AFTER_ATTENTION,
        alpha=0.2,
        heat_steps=3,
        strides=(1, 2, 4),
        learnable=True,
        width=64,
        heads=4,
        dropout=0.1,
        learning_rate=0.0005,
        precision="bfloat16",
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_runs_command_is_read_as_the_same_run(name, parsed):
    assert parsed(run_command(RUNS[name])) == (RUNS[name],)


STUDIES = {
    "the default": Study(),
    "seeds, controls, a grid": Study(alphas=(0.1, 0.25), seeds=(0, 1, 2, 3, 4), permuted=True, matched=True),
    "other seeds": Study(seeds=(4, 7)),
    "some positions": Study(
        recipe("listops", position=Position.AFTER_EMBEDDING, strides=(1, 2)),
        positions=(Position.BASELINE, Position.AFTER_FFN),
    ),
    "learnable, another budget": Study(
        recipe("pathfinder", "small", position=Position.AFTER_EMBEDDING, learnable=True, steps=40, width=64), seeds=(0,)
    ),
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_studys_command_is_read_as_the_same_runs(name, parsed):
    assert parsed(study_command(STUDIES[name])) == STUDIES[name].configs()


def test_a_command_says_no_more_than_it_must():
    config = RunConfig(position=Position.AFTER_FFN, seed=3)
    assert run_command(config) == "python -m lab run --task digits --position after_ffn --alpha 0.25 --seed 3"
    assert run_command(RunConfig()) == "python -m lab run --task digits --position baseline --seed 0"
    assert study_command(Study()) == "python -m lab study --task digits --alpha 0.25 --seeds 3"
    assert study_command(Study(), until=1.5).endswith("--seeds 3 --until 1.5")


def test_words_with_spaces_are_quoted():
    command = run_command(RunConfig(task="my own; data"))
    assert shlex.split(command)[4:6] == ["--task", "my own; data"]
