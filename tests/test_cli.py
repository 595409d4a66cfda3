"""The command line: one JSON line, a CSV, sentences instead of tracebacks, the cache shared with the pages."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.config import RunConfig
from lab.positions import Position
from lab.store import Store

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def lab(cache, *arguments):
    env = {**os.environ, "LAB_CACHE": str(cache), "NO_COLOR": "1", "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-m", "lab", *arguments], cwd=ROOT, env=env, capture_output=True, text=True, timeout=240
    )


@pytest.mark.engine
def test_run_prints_one_json_line_and_the_second_time_it_is_cached(cache):
    words = (
        "run",
        "--task",
        "digits",
        "--position",
        "after_embedding",
        "--alpha",
        "0.25",
        "--seed",
        "0",
        "--steps",
        "5",
        "--json",
    )
    first, second = lab(cache, *words), lab(cache, *words)
    assert first.returncode == second.returncode == 0, first.stderr
    assert first.stdout.count("\n") == 1
    said, again = json.loads(first.stdout), json.loads(second.stdout)
    assert (said.pop("cached"), again.pop("cached")) == (False, True)
    assert said == again
    config = RunConfig(position=Position.AFTER_EMBEDDING, steps=5)
    assert said["key"] == config.key
    assert said["config"] == json.loads(config.json)
    assert Store(cache).get(config.key).accuracy == said["accuracy"]


@pytest.mark.engine
def test_study_writes_every_run_and_says_what_the_differences_are(cache, tmp_path):
    out = tmp_path / "results.csv"
    done = lab(cache, "study", "--task", "digits", "--alpha", "0.25", "--seeds", "2", "--steps", "5", "--out", str(out))
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(out.open(encoding="utf-8")))
    assert len(rows) == 16
    assert {row["position"] for row in rows} == set(Position)
    assert {row["seed"] for row in rows} == {"0", "1"}
    assert "at n = 2" in done.stdout
    assert "16/16" in done.stderr
    listed = lab(cache, "list")
    assert listed.stdout.count("\n") >= 16


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--task", "chess"), ("task", "digits")),
        (("run", "--alpha", "0.7", "--position", "after_ffn"), ("alpha", "0.5")),
        (("run", "--set", "width=33"), ("width", "heads")),
        (("run", "--set", "colour=red"), ("colour", "width")),
        (("run", "--set", "width"), ("FIELD=VALUE",)),
        (("run", "--set", "seed=1"), ("seed", "--seed")),
        (("study", "--set", "alpha=0.1"), ("alpha", "--alpha")),
        (("run", "--position", "nowhere"), ("position", "after_embedding")),
        (("run", "--steps", "0"), ("steps", "1")),
        (("run", "--size", "vast"), ("size", "mini")),
        (("run", "--size", "full"), ("digits", "mini")),
        (("study", "--position", "nowhere"), ("position",)),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(cache, arguments, words):
    done = lab(cache, *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_the_command_line_loads_no_torch(cache):
    code = "import sys, lab.cli; assert not {'torch', 'streamlit', 'plotly', 'distributed'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
