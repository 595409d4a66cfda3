"""How long is left: worked out by hand for small queues, with several studies in turn."""

import pytest

from lab.config import RunConfig
from lab.engine import Engine
from lab.engine.estimate import finish_times, seconds_left, typical_seconds
from lab.engine.live import Live, Running, Worker
from lab.store import Store

SHORT = [RunConfig(seed=seed, steps=10) for seed in range(8)]
LONG = [RunConfig(seed=seed, steps=1000) for seed in range(8)]
TYPICAL = typical_seconds([(SHORT[0], 10.0), (LONG[0], 100.0)])


def times(running, waiting, typical=TYPICAL, slots=2, pack=1) -> dict[str, float]:
    return finish_times(running, waiting, typical, slots, pack)


def test_runs_that_differ_in_arm_and_seed_alone_share_their_typical_time():
    measured = [(SHORT[0], 1.0), (SHORT[1], 2.0), (SHORT[2].with_(position="after_ffn"), 30.0), (LONG[0], 5.0)]
    assert typical_seconds(measured) == {SHORT[0].pack_key(): 2.0, LONG[0].pack_key(): 5.0}


def test_each_free_slot_takes_the_next_run():
    found = times([{LONG[0]: 25.0}], SHORT[:4])
    # the other slot: 10, 20, 30; the busy one is free at 25, takes the fourth and ends it at 35
    assert [found[run.key] for run in (LONG[0], *SHORT[:4])] == [25, 10, 20, 30, 35]


def test_what_others_train_and_wait_for_counts_at_its_own_time():
    mine, others = SHORT[0], LONG[:3]
    found = times([{others[0]: 40.0}, {others[1]: 60.0}], [others[2], mine])
    assert found[mine.key] == 70, "after the one that ends first has gone to another long run"
    assert seconds_left([mine.key], found) == 70


def test_a_run_that_has_made_no_step_is_as_good_as_whole():
    assert times([{SHORT[0]: None}], [], slots=1) == {SHORT[0].key: 10}


def test_a_pack_takes_a_slot_as_long_as_one_run():
    found = times([{LONG[0]: 50.0, LONG[1]: 70.0}], SHORT, slots=1, pack=6)
    assert [found[run.key] for run in SHORT] == [80] * 6 + [90] * 2


def test_nothing_is_told_of_kinds_that_were_not_measured_nor_without_workers():
    unknown = RunConfig(task="listops")
    found = times([], [unknown, SHORT[0]], slots=1)
    assert found == {SHORT[0].key: 65}, "the unknown one takes the mean of the known kinds, 55 s"
    assert seconds_left([SHORT[0].key, unknown.key], found) is None
    assert times([], SHORT, typical={}) == {}
    assert times([], SHORT, slots=0) == {}
    assert seconds_left([], {}) == 0


@pytest.fixture
def engine(tmp_path, monkeypatch) -> Engine:
    monkeypatch.setattr(Engine, "start", lambda self: None)
    return Engine(Store(tmp_path))


def test_studies_that_take_turns_are_told_apart(engine, monkeypatch):
    first, second = engine.request(LONG[:4]), engine.request(SHORT[:2])
    running = {LONG[0].key: Running(500, 1000, 50.0, worker="a"), SHORT[0].key: Running(5, 10, 5.0, worker="b")}
    live = Live(1, "", 2, [Worker("0", "a"), Worker("1", "b")], {first: 2, second: 1}, running, next=[LONG[1].key])
    monkeypatch.setattr(engine, "_live", lambda: live)
    seen = engine.overview()
    # given out already: the first's second run; then whoever has had the fewest turns
    assert [run for _, run in seen.waiting] == [LONG[1], SHORT[1], LONG[2], LONG[3]]
    assert [owner for owner, _ in seen.waiting] == [first, second, first, first]
    # b ends at 5 and takes the long one until 105; a ends at 50, the short one until 60, long ones until 160 and 205
    assert engine.seconds_left([SHORT[1].key]) == pytest.approx(60)
    assert [one.seconds_left for one in seen.requests] == pytest.approx([205, 60])
    assert [(one.done, one.running, one.ahead) for one in seen.requests] == [(0, 1, 0), (0, 1, 0)]
    assert engine.runs([SHORT[1].key])[SHORT[1].key].place == 2


def test_the_request_whose_turn_is_next_comes_first(engine, monkeypatch):
    first, second = engine.request(LONG[:4]), engine.request(SHORT[:2])
    monkeypatch.setattr(engine, "_live", lambda: Live(1, "", 1, turns={first: 3, second: 0}))
    seen = engine.overview()
    assert [one.request.id for one in seen.requests] == [second, first]
    # the second has had none: both its runs come before the other's first
    assert [one.ahead for one in seen.requests] == [0, 2]
    assert [one.seconds_left for one in seen.requests] == [None, None]


@pytest.mark.parametrize(("pack", "left"), [(1, 32.5), (24, 27.5)])
def test_a_worker_with_two_slots_trains_two_runs_apart_and_a_pack_together(engine, monkeypatch, pack, left):
    engine.request(SHORT[:4])
    running = {SHORT[0].key: Running(5, 10, 15.0, worker="a"), SHORT[1].key: Running(8, 10, 20.0, worker="a")}
    live = Live(1, "", 2, [Worker("0", "a", 2)], running=running, pack=pack)
    monkeypatch.setattr(engine, "_live", lambda: live)
    # 15 s and 5 s are left; a run takes 27.5 s. Apart: the next begins after 5 s. A pack: the other slot is free now.
    assert engine.seconds_left([SHORT[2].key]) == pytest.approx(left)
