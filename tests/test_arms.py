"""Arms: what is paired with what, and how often one has looked."""

import math
from dataclasses import replace

import pytest
import torch

from lab import arms as module
from lab.arms import Arm, arms, one_more_seed, widest
from lab.cli.training import _arm_line
from lab.model import PackTransformer
from lab.positions import Position
from lab.statistics import holm
from lab.tasks import TASKS, get_task
from lab.tasks.recipes import recipe
from tests.test_statistics import result

REAL = {
    Position.AFTER_EMBEDDING: (0.09, 0.10, 0.11, 0.10, 0.10),
    Position.AFTER_FFN: (0.005, 0.030, 0.020, 0.002, 0.018),  # significant alone, not as one of three
    Position.BEFORE_HEAD: (0.01, -0.01, 0.02, -0.02, 0.001),
}
RANDOM = {
    Position.AFTER_EMBEDDING: (0.08, 0.11, 0.09, 0.12, 0.10),
    Position.AFTER_FFN: (-0.03, -0.02, -0.04, -0.03, -0.02),
}
BASE = (0.5, 0.52, 0.48, 0.51, 0.47)


def study(seeds=5):
    runs = [result(Position.BASELINE, s, BASE[s]) for s in range(seeds)]
    for permuted, gains in ((False, REAL), (True, RANDOM)):
        for position, values in gains.items():
            runs += [result(position, s, BASE[s] + values[s], permuted=permuted) for s in range(seeds)]
    return runs


def named(found, position, permuted=False) -> Arm:
    return next(arm for arm in found if arm.config.position is position and arm.config.permuted is permuted)


def test_arms_are_paired_seed_by_seed_in_the_order_of_the_positions():
    runs = [
        result(Position.AFTER_FFN, 0, 0.6),
        result(Position.AFTER_EMBEDDING, 1, 0.9),
        result(Position.BASELINE, 0, 0.5),
        result(Position.AFTER_EMBEDDING, 0, 0.7),
        result(Position.BASELINE, 1, 0.6),
        result(Position.AFTER_EMBEDDING, 2, 0.1),  # no baseline at this seed: a point, not a pair
    ]
    found = arms(runs)
    assert [arm.config.position for arm in found] == [Position.BASELINE, Position.AFTER_EMBEDDING, Position.AFTER_FFN]
    embedding = found[1]
    assert [r.config.seed for r in embedding.results] == [0, 1, 2]
    assert embedding.difference.n == 2
    assert embedding.difference.mean == pytest.approx(0.25)
    assert embedding.mean == pytest.approx((0.7 + 0.9 + 0.1) / 3)
    assert [r.config.position for r in embedding.base] == [Position.BASELINE] * 2
    assert found[0].difference is None


def test_another_budget_is_never_the_baseline():
    runs = [result(Position.BASELINE, 0, 0.5, steps=100), result(Position.AFTER_FFN, 0, 0.6, steps=200)]
    assert all(arm.difference is None for arm in arms(runs))


def test_real_neighbours_are_compared_with_random_ones_of_the_same_seed_and_alpha():
    found = arms([*study(), result(Position.BEFORE_HEAD, 0, 0.9, permuted=True, alpha=0.1)])
    local = named(found, Position.AFTER_FFN).local
    assert local.values == pytest.approx(
        [a - b for a, b in zip(REAL[Position.AFTER_FFN], RANDOM[Position.AFTER_FFN], strict=True)]
    )
    assert named(found, Position.AFTER_EMBEDDING, permuted=True).local is None
    assert named(found, Position.BASELINE).local is None
    assert named(found, Position.BEFORE_HEAD).local is None  # its control has another alpha


def test_p_values_are_corrected_within_each_family_of_looks():
    found = arms(study())
    for permuted, positions in ((False, REAL), (True, RANDOM)):
        family = [named(found, position, permuted) for position in positions]
        assert [arm.p for arm in family] == pytest.approx(holm([arm.difference.p for arm in family]))
        assert {arm.looks for arm in family} == {len(positions)}
    compared = [named(found, position) for position in RANDOM]
    assert [arm.p_local for arm in compared] == pytest.approx(holm([arm.local.p for arm in compared]))
    assert {arm.looks_local for arm in compared} == {2}


def test_verdicts_are_the_corrected_ones_and_say_what_was_lost():
    found = arms(study())
    assert named(found, Position.AFTER_EMBEDDING).verdict == "above the baseline at n = 5"
    assert named(found, Position.AFTER_FFN, permuted=True).verdict == "below the baseline at n = 5"
    assert named(found, Position.BEFORE_HEAD).verdict == "not distinguishable from the baseline at n = 5"
    alone = named(found, Position.AFTER_FFN)
    assert alone.difference.p < module.SIGNIFICANT < alone.p
    assert alone.verdict == "not distinguishable from the baseline at n = 5; alone it would be, but 3 were looked at"
    assert alone.verdict_local == "above its permuted control at n = 5"
    assert named(found, Position.BEFORE_HEAD).verdict_local == "no seed shared with its permuted control"


def test_the_command_line_says_the_corrected_verdict_and_no_interval_where_there_is_none():
    runs = [result(Position.BASELINE, seed, 0.5) for seed in range(3)]
    runs += [result(Position.AFTER_FFN, seed, 0.6) for seed in range(3)]  # equal differences
    runs += [result(Position.BEFORE_HEAD, seed, 0.52 + 0.006 * seed) for seed in range(3)]
    ffn, head = arms(runs)[1:]
    assert _arm_line(ffn).endswith("+10.0 pp  no interval: all 3 differences are equal")
    assert _arm_line(replace(head, p=0.2, looks=7)).endswith("alone it would be, but 7 were looked at")


def test_without_an_interval_there_is_no_p_and_the_verdict_says_why():
    found = arms(study(seeds=1))
    arm = named(found, Position.AFTER_EMBEDDING)
    assert math.isnan(arm.p)
    assert math.isnan(arm.p_local)
    assert arm.verdict == "no interval at n = 1: it takes at least 2 seeds"
    assert (
        named(arms([result(Position.AFTER_FFN, 0, 0.6)]), Position.AFTER_FFN).verdict
        == "no seed shared with the baseline"
    )


def test_the_measure_is_what_is_compared_and_a_run_without_it_makes_no_pair():
    found = arms(study(), measure=lambda r: None if r.config.seed == 4 else 2 * r.accuracy)
    assert named(found, Position.AFTER_EMBEDDING).difference.values == pytest.approx([0.18, 0.20, 0.22, 0.20])


def test_the_widest_interval_and_what_one_more_seed_would_bring():
    found = arms(study())
    differences = [arm.difference for arm in found if arm.difference]
    assert widest(found) == max(d.half_width for d in differences)
    width, seconds = one_more_seed(found)
    assert width == max(d.with_more() for d in differences) < widest(found)
    assert seconds == len(found)  # a second for each arm
    assert widest(arms(study(seeds=1))) == math.inf
    assert widest([]) == math.inf
    assert one_more_seed(arms(study(seeds=1))) is None


@pytest.mark.parametrize("task", sorted(name for name, task in TASKS.items() if not task.unavailable("mini")))
def test_every_arm_of_a_seed_starts_from_the_same_parameters_in_every_task(task):
    """With the same batches, which the tests of training look at, it is what makes a pair of runs a pair."""
    data = get_task(task).load("mini")

    def start(position, seed=3, **arm):
        config = recipe(task, position=position, seed=seed, **arm)
        return PackTransformer([config], data.vocabulary, data.length, data.classes, data.towers).weights()

    base = start(Position.BASELINE)
    for position in list(Position)[1:]:
        arm = start(position, permuted=True)
        assert base.keys() == arm.keys()
        assert all(torch.equal(base[name], arm[name]) for name in base)
    assert not torch.equal(base["head.weight"], start(Position.BASELINE, seed=4)["head.weight"])
