"""The stop at a width: after whole seeds, at no fewer than five, for what the intervals' width says and nothing else."""

import os
import subprocess
import sys

import numpy as np
import pytest

from lab.engine import width
from lab.engine.dispatch import Asked
from lab.engine.process import EngineProcess
from lab.positions import Position
from lab.statistics import paired_difference
from lab.store import Store
from lab.study import Study
from tests.test_statistics import result

STUDY = Study(positions=(Position.BASELINE, Position.AFTER_EMBEDDING), seeds=tuple(range(8)))


def put(store, seeds, gains):
    for seed in seeds:
        store.put(result(Position.BASELINE, seed, 0.5), {})
        store.put(result(Position.AFTER_EMBEDDING, seed, 0.5 + gains[seed]), {})


def test_a_seed_counts_once_all_its_runs_are_there():
    keys = {run.key for run in STUDY.configs() if run.seed < 3}
    assert width.complete_seeds(STUDY.configs(), keys) == [0, 1, 2]
    keys.remove(next(run.key for run in STUDY.configs() if run.seed == 1))
    assert width.complete_seeds(STUDY.configs(), keys) == [0, 2]


def ended(store, failed=()):
    keys = [run.key for run in STUDY.configs()]
    found = width.width_of(STUDY.configs(), store.done(keys) | set(failed), store.get_many(keys).values())
    return width.narrow_enough(*found, until=0.01)


@pytest.mark.parametrize(
    ("spread", "seeds", "ends"),
    [
        (0.001, 5, True),
        (0.001, 4, False),  # narrow, but too few to say so
        (0.1, 8, False),  # wide, however many
    ],
)
def test_it_ends_at_a_width_from_five_seeds_on(tmp_path, spread, seeds, ends):
    store = Store(tmp_path)
    put(store, range(seeds), [spread * (-1) ** s for s in range(8)])
    assert ended(store) is ends


def test_what_the_difference_says_does_not_end_it(tmp_path):
    store = Store(tmp_path)
    put(store, range(6), [0.3 + 0.05 * (-1) ** s for s in range(8)])  # far from 0, and wide
    assert paired_difference([0.3 + 0.05 * (-1) ** s for s in range(6)]).low > 0
    assert not ended(store)


def test_a_failed_run_is_no_seed_of_its_arm(tmp_path):
    store = Store(tmp_path)
    put(store, range(4), [0.001 * (-1) ** s for s in range(8)])
    store.put(result(Position.BASELINE, 4, 0.5), {})
    failed = [run.key for run in STUDY.configs() if run.seed == 4 and run.position is Position.AFTER_EMBEDDING]
    assert not ended(store, failed), "five seeds are over, but the difference rests on four"
    put(store, [5], [0.001 * (-1) ** s for s in range(8)])
    assert ended(store, failed)


def test_the_engine_closes_the_request_and_wants_no_more_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_SCHEDULER", "tcp://127.0.0.1:1")
    store = Store(tmp_path)
    process = EngineProcess(store)
    narrow = store.requests.add(STUDY.configs(), "", until=0.01)
    plain = store.requests.add(STUDY.configs()[:12], "")
    put(store, range(4), [0.001 * (-1) ** s for s in range(8)])
    process.wanted.refresh(())
    assert {request.id for request in process.wanted.asked} == {narrow, plain}
    put(store, [4], [0.001 * (-1) ** s for s in range(8)])
    process.wanted.refresh(())
    assert process.wanted.asked == [Asked(plain, STUDY.configs()[:12])]
    states = {request.id: request.state for request in store.requests.all()}
    assert states == {narrow: "done", plain: "open"}


def _stopped(rng, says_stop):
    """A simulated study without a difference, of 5 to 20 seeds, which ends when ``says_stop``; whether it covers 0."""
    values = rng.normal(0, 0.02, 20)
    for n in range(width.LEAST_SEEDS, 21):
        found = paired_difference(list(values[:n]))
        if says_stop(found):
            break
    return found.low <= 0 <= found.high


def test_stopping_at_a_width_keeps_the_interval_honest_and_stopping_at_significance_does_not():
    rng = np.random.default_rng(5)
    at_width = np.mean([_stopped(rng, lambda d: d.half_width <= 0.015) for _ in range(400)])
    at_significance = np.mean([_stopped(rng, lambda d: not d.low <= 0 <= d.high) for _ in range(400)])
    # three standard errors of a share of 400 are 4 and 6 points
    assert at_width > 0.90
    assert at_significance < 0.88


def test_the_command_ends_at_the_width_and_trains_no_more(tmp_path):
    store = Store(tmp_path)
    put(store, range(5), [0.001 * (-1) ** s for s in range(8)])
    words = ["study", "--position", "baseline", "--position", "after_embedding", "--seeds", "8", "--until", "1"]
    environment = {**os.environ, "LAB_CACHE": str(tmp_path), "LAB_ENGINE_GRACE": "0"}
    told = subprocess.run(
        [sys.executable, "-m", "lab", *words], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert "n = 5" in told.stdout
    assert len(list(store.results())) == 10
