"""The study that ships with the lab: how it is written and read, what a store makes of it, and how it is checked by training again."""

import hashlib
import json
import lzma
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from made_results import result
from typer.testing import CliRunner

from lab import starter_study
from lab.cli import evidence, training
from lab.cli.app import app
from lab.commands import PROGRAM, run_command
from lab.config import RunConfig
from lab.engine import Engine
from lab.positions import Position
from lab.results import RunResult
from lab.starter_study import LARGEST_DRIFT, LARGEST_START, drift, sample, studies
from lab.store import Store
from lab.store import starter as shipped_files
from lab.store.starter import MANIFEST, RUNS, Starter, write_starter
from lab.tasks.recipes import recipe

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "cache" / "starter"
ONE, OTHER, THIRD = (recipe("digits", position=Position.AFTER_FFN, alpha=0.25, seed=seed) for seed in range(3))


TWO_RESULTS = (result(ONE, 0.5), result(OTHER, 0.6))


def at(path: Path, results=TWO_RESULTS):
    return write_starter(path, results, ["python -m lab study"], "abc", "2026-01-02")


def by_hand(path: Path, data: bytes) -> None:
    """A starter study whose manifest vouches for whatever ``data`` is."""
    manifest = at(path)
    record = {**vars(manifest), "sha256": hashlib.sha256(data).hexdigest()}
    (path / RUNS).write_bytes(data)
    (path / MANIFEST).write_text(json.dumps(record), encoding="utf-8")


# -- the files ---------------------------------------------------------------------------------------------------


def test_what_is_written_reads_back(tmp_path):
    results = [result(ONE, 0.5), result(OTHER, 0.6, chi=None)]
    written = at(tmp_path, results)
    starter = Starter(tmp_path)
    assert starter.manifest == written
    assert {run.config.key: run for run in starter.results()} == {run.config.key: run for run in results}
    assert starter.get(THIRD.key) is None
    assert (written.runs, written.seconds, written.on, written.commands) == (
        2,
        4.0,
        {"device": "cpu"},
        ("python -m lab study",),
    )
    assert not starter.problem


def test_the_manifest_tells_only_what_all_runs_share(tmp_path):
    runs = [replace(result(c, 0.5), provenance={"torch": "1", "device": d}) for c, d in ((ONE, "cpu"), (OTHER, "cuda"))]
    assert at(tmp_path, runs).on == {"torch": "1"}


def test_the_same_results_give_the_same_bytes(tmp_path):
    one, other = result(ONE, 0.5), result(OTHER, 0.6)
    at(tmp_path / "a", [one, other])
    at(tmp_path / "b", [other, one])
    assert (tmp_path / "a" / RUNS).read_bytes() == (tmp_path / "b" / RUNS).read_bytes()


def test_nothing_is_no_starter_study(tmp_path):
    with pytest.raises(ValueError, match="needs results"):
        at(tmp_path, [])
    for path in (None, tmp_path / "nowhere"):
        starter = Starter(path)
        assert (starter.manifest, starter.texts, list(starter.results()), starter.problem) == (None, {}, [], "")


def test_another_table_than_the_manifest_names_is_not_read(tmp_path, monkeypatch):
    at(tmp_path / "starter")
    other = lzma.compress(f"{ONE.key} {result(ONE, 0.99).to_json()}\n".encode())
    (tmp_path / "starter" / RUNS).write_bytes(other)
    monkeypatch.setenv("LAB_STARTER", str(tmp_path / "starter"))
    store = Store(tmp_path / "cache")
    assert store.get(ONE.key) is None
    assert list(store.results()) == []
    assert [notice for notice in store.notices() if "is not the one its manifest names" in notice]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"commands": 3}', '{"commands": [], "colour": "red"}', '{"runs": 3}', "\x00", "9" * 5000]
)
def test_a_manifest_that_cannot_be_read_is_told(tmp_path, text):
    at(tmp_path)
    (tmp_path / MANIFEST).write_text(text, encoding="utf-8")
    starter = Starter(tmp_path)
    assert list(starter.results()) == []
    assert "cannot be read" in starter.problem


@pytest.mark.parametrize("data", [b"", b"no archive", lzma.compress(b"\xff\xfe"), lzma.compress(b"x" * 5000)[:-20]])
def test_a_table_that_cannot_be_read_is_told(tmp_path, data):
    by_hand(tmp_path, data)
    starter = Starter(tmp_path)
    assert list(starter.results()) == []
    assert "cannot be read" in starter.problem


def test_a_small_file_cannot_unpack_to_a_very_large_one(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped_files, "MOST_BYTES", 100_000)
    line = f"{ONE.key} {result(ONE, 0.5).to_json()}\n".encode()
    by_hand(tmp_path / "fits", lzma.compress(line))
    assert len(list(Starter(tmp_path / "fits").results())) == 1
    by_hand(tmp_path / "bomb", lzma.compress(line + b" " * 10_000_000))
    assert (tmp_path / "bomb" / RUNS).stat().st_size < 10_000
    starter = Starter(tmp_path / "bomb")
    assert starter.texts == {}
    assert "larger than 100000 bytes" in starter.problem


def test_hostile_lines_are_no_results_and_leave_the_others(tmp_path):
    good, other = result(ONE, 0.5).to_json(), result(OTHER, 0.6).to_json()
    record = json.loads(good)
    lines = [
        f"{ONE.key} {good}",
        f"{THIRD.key} {other}",  # another run's result
        f"{'a' * 24} {{}}",
        f"{'b' * 24} [1, 2",
        f"{'c' * 24} " + "[" * 100_000,
        f"{'d' * 24} " + json.dumps({**record, "__class__": "os.system"}),
        f"{'e' * 24} " + json.dumps({**record, "config": {**record["config"], "width": 10**9}}),
        "no space",
        "",
    ]
    by_hand(tmp_path, lzma.compress("\n".join(lines).encode()))
    starter = Starter(tmp_path)
    assert [run.config for run in starter.results()] == [ONE]
    assert starter.get(THIRD.key) is None
    assert "cannot be read" in starter.problem


# -- under a store -----------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path, monkeypatch):
    at(tmp_path / "starter")
    monkeypatch.setenv("LAB_STARTER", str(tmp_path / "starter"))
    return Store(tmp_path / "cache")


def test_shipped_results_count_until_the_folder_has_its_own(store):
    keys = [ONE.key, OTHER.key, THIRD.key]
    assert store.done(keys) == store.shipped(keys) == {ONE.key, OTHER.key}
    assert store.get(ONE.key).accuracy == 0.5
    own = result(ONE, 0.7)
    store.put(own, {})
    assert store.get(ONE.key).accuracy == 0.7
    assert list(store.get_many(keys)) == [ONE.key, OTHER.key]
    assert store.shipped(keys) == {OTHER.key}
    assert store.done(keys) == {ONE.key, OTHER.key}
    assert sorted(run.accuracy for run in store.results()) == [0.6, 0.7]


def test_a_shipped_run_is_trained_anew_when_its_weights_are_wanted(store):
    keys = [ONE.key, OTHER.key]
    assert store.arrays(ONE.key) is None
    assert not store.notices()  # that there are no weights is no damage
    store.train_anew([ONE.key, THIRD.key])
    assert store.done(keys) == {OTHER.key}
    assert store.get(ONE.key).accuracy == 0.5  # it is still shown
    store.put(result(ONE, 0.7), {})
    assert store.done(keys) == {ONE.key, OTHER.key}
    store.train_anew([ONE.key])
    assert store.done(keys) == {ONE.key, OTHER.key}


def test_a_shipped_run_whose_training_was_taken_back_is_done_as_before(store, monkeypatch):
    monkeypatch.setattr(Engine, "start", lambda _: None)
    engine = Engine(store)
    request = engine.request([ONE], weights=True)
    assert engine.runs([ONE.key, THIRD.key])[ONE.key].kind == "queued"
    engine.stop(request)
    states = engine.runs([ONE.key, THIRD.key])
    assert [states[key].kind for key in (ONE.key, THIRD.key)] == ["done", "unknown"]


def test_a_shipped_result_that_cannot_be_read_is_not_done(tmp_path, monkeypatch):
    lines = [f"{ONE.key} {result(ONE, 0.5).to_json()}", f"{OTHER.key} {{}}"]
    by_hand(tmp_path / "starter", lzma.compress("\n".join(lines).encode()))
    monkeypatch.setenv("LAB_STARTER", str(tmp_path / "starter"))
    store = Store(tmp_path / "cache")
    assert store.done([ONE.key, OTHER.key]) == {ONE.key}


def test_without_a_starter_study_a_store_is_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_STARTER", "")
    store = Store(tmp_path)
    assert store.done([ONE.key]) == store.shipped([ONE.key]) == set()
    assert store.get(ONE.key) is None


# -- the commands ------------------------------------------------------------------------------------------------


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """The command line in this process, over a cache and a starter study of the test's own."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAB_STARTER", str(tmp_path / "starter"))
    return lambda *words: CliRunner().invoke(app, list(words))


def test_the_listed_commands_make_the_very_runs(lab, monkeypatch):
    listed = lab("starter", "--list")
    assert listed.exit_code == 0, listed.output
    lines = listed.output.splitlines()
    assert len(lines) == len(studies())
    asked: list[RunConfig] = []

    def no_training(store: Store, configs, until: float = 0.0) -> dict[str, RunResult]:
        asked[:] = configs
        return {config.key: result(config, 0.5) for config in configs}

    monkeypatch.setattr(training, "train", no_training)
    monkeypatch.setattr(training, "_check_task", lambda *_: None)  # the data of the texts need not be here
    for line, study in zip(lines, studies(), strict=True):
        key, count, _, command = line.split(maxsplit=3)
        assert key == study.key
        assert int(count) == len(study.configs())
        assert command.startswith(PROGRAM)
        done = lab(*shlex.split(command.removeprefix(PROGRAM)))
        assert done.exit_code == 0, done.output
        assert {config.key for config in asked} == {config.key for config in study.configs()}


def test_the_starter_command_writes_every_run_and_what_was_shipped_is_no_evidence(lab, tmp_path, monkeypatch):
    at(tmp_path / "starter")
    seen: list[bool] = []

    def no_training(store: Store, configs, until: float = 0.0) -> dict[str, RunResult]:
        seen.append(bool(store.get_many([ONE.key])))
        seen.append(bool(Store().done([ONE.key])))  # what the engine, whose store has the shipped study, makes of it
        return {config.key: result(config, 0.5) for config in configs}

    monkeypatch.setattr(evidence, "train", no_training)
    done = lab("starter", "--out", str(tmp_path / "made"), "--commit", "fedcba")
    assert done.exit_code == 0, done.output
    starter = Starter(tmp_path / "made")
    assert set(starter.texts) == {config.key for study in studies() for config in study.configs()}
    assert starter.manifest.commit == "fedcba"
    assert len(starter.manifest.commands) == len(studies())
    assert not any(seen)


@pytest.fixture(scope="module")
def short_run() -> RunResult:
    return starter_study.train_here(recipe("digits", position=Position.AFTER_EMBEDDING, steps=3))


def test_a_run_trained_again_agrees_and_a_tampered_one_does_not(lab, tmp_path, short_run):
    at(tmp_path / "starter", [short_run])
    honest = lab("verify", "--sample", "1", "--seed", "0")
    assert honest.exit_code == 0, honest.output
    assert honest.output.startswith("agrees  accuracy off by 0.00 points")
    assert "(exact)" in honest.output
    assert run_command(short_run.config) in honest.output
    at(tmp_path / "starter", [replace(short_run, accuracy=short_run.accuracy + 0.002)])
    tampered = lab("verify", "--sample", "1", "--seed", "0")
    assert tampered.exit_code == 2
    assert tampered.output.startswith("DIFFERS  accuracy off by 0.20 points")
    assert "1 of the runs" in tampered.output


def test_verify_without_a_study_says_so(lab, tmp_path):
    assert "no starter study" in lab("verify").output
    at(tmp_path / "starter")
    (tmp_path / "starter" / RUNS).write_bytes(b"")
    done = lab("verify")
    assert done.exit_code == 2
    assert "is not the one its manifest names" in done.output


# -- drift -------------------------------------------------------------------------------------------------------


def on(run: RunResult, **provenance: str) -> RunResult:
    return replace(run, provenance={**run.provenance, **provenance})


def test_the_same_kind_of_machine_must_give_the_same_bits():
    run = result(ONE, 0.5)
    assert drift(run, run).agrees
    off = drift(run, replace(run, accuracy=0.5 + 1e-9))
    assert off.exact
    assert not off.agrees


def test_another_machine_has_a_tolerance():
    run = result(ONE, 0.5)
    other = on(run, capability="AVX2")
    for more, agrees in ((0.9 * LARGEST_DRIFT, True), (1.1 * LARGEST_DRIFT, False)):
        found = drift(run, replace(other, accuracy=0.5 - more))
        assert not found.exact
        assert found.accuracy == pytest.approx(more)
        assert found.agrees is agrees
    for factor, agrees in ((1 + 0.9 * LARGEST_START, True), (1 + 1.1 * LARGEST_START, False)):
        start = replace(run.initial, energy=tuple(factor * e for e in run.initial.energy))
        assert drift(run, replace(other, initial=start)).agrees is agrees


def test_two_runs_are_not_compared():
    with pytest.raises(ValueError, match="different runs"):
        drift(result(ONE, 0.5), result(OTHER, 0.5))


def test_a_sample_is_drawn_by_its_seed_and_never_twice():
    runs = [result(ONE.with_(seed=seed), 0.5) for seed in range(20)]
    drawn = [run.config.seed for run in sample(runs, 8, 3)]
    assert len(set(drawn)) == 8
    assert [run.config.seed for run in sample(runs, 8, 3)] == drawn
    assert [run.config.seed for run in sample(runs, 8, 4)] != drawn
    assert len(sample(runs, 50, 0)) == 20


def test_the_runs_of_the_study_are_as_planned():
    configs = [config for study in studies() for config in study.configs()]
    digits = {config for config in configs if config.task == "digits"}
    assert {config.seed for config in digits} == set(range(10))
    assert {config.alpha for config in digits} == {0, 0.0625, 0.125, 0.25, 0.375, 0.5}
    assert {config.strides for config in digits} == {(1,), (1, 2, 4)}
    for task in ("digits", "listops", "text", "pathfinder"):
        plain = [c for c in configs if c.task == task and c.strides == (1,) and not (c.matched or c.learnable)]
        arms = {(c.position, c.permuted) for c in plain}
        assert arms >= {(p, permuted) for p in list(Position)[1:] for permuted in (False, True)}
        assert {c.seed for c in plain} >= set(range(5))


# -- the study in the repository ---------------------------------------------------------------------------------


@pytest.mark.skipif(
    not SHIPPED.exists(), reason="the starter study is not in cache/starter yet, so there is nothing to check"
)
def test_a_shipped_run_trained_again_agrees():
    """One cheap entry: exact on the kind of machine that made it, within the tolerance elsewhere."""
    starter = Starter(SHIPPED)
    one = starter.get(recipe("digits", position=Position.AFTER_EMBEDDING, seed=0).key)
    assert one is not None, starter.problem
    found = drift(one, starter_study.train_here(one.config))
    assert found.agrees, found


@pytest.mark.skipif(
    not SHIPPED.exists(), reason="the starter study is not in cache/starter yet, so there is nothing to check"
)
def test_the_shipped_study_is_whole_and_small():
    starter = Starter(SHIPPED)
    planned = {config.key for study in studies() for config in study.configs()}
    assert {run.config.key for run in starter.results()} == planned
    assert starter.manifest.runs == len(planned)
    assert not starter.problem
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 2 * 2**20
