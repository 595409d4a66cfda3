"""Paired differences: the interval is the paired t interval, and pairs are pairs of seeds."""

import math

import numpy as np
import pytest
from scipy import stats

from lab.config import RunConfig
from lab.positions import Position
from lab.results import CurvePoint, DepthProfile, OrderSwap, RunResult
from lab.arms import arms
from lab.statistics import paired_difference


def result(position, seed, accuracy, **fields):
    profile = DepthProfile((1.0, 0.5, 0.2), (1.0, 1.0, 1.0), (OrderSwap(0.1, 0.1, 0.1),) * 2)
    config = RunConfig(position=position, seed=seed, **fields)
    return RunResult(
        config, accuracy, 0.1, (CurvePoint(1, 2.0, accuracy),), profile, profile, (), 10, 500, 1.0, {"torch": "x"}
    )


def test_the_interval_is_that_of_scipys_paired_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 6))
    found = paired_difference(list(a - b))
    expected = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert found.mean == pytest.approx(np.mean(a - b))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.n == 6


def test_the_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(1)
    draws = rng.normal(0.03, 0.02, size=(2000, 5))
    covered = [d.low <= 0.03 <= d.high for d in (paired_difference(list(row)) for row in draws)]
    # three standard errors of a share of 2,000
    assert np.mean(covered) == pytest.approx(0.95, abs=3 * math.sqrt(0.95 * 0.05 / 2000))


def test_one_pair_has_no_interval_and_none_is_an_error():
    one = paired_difference([0.1])
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    assert "2 seeds" in one.verdict
    with pytest.raises(ValueError, match="at least one pair"):
        paired_difference([])


def test_equal_differences_claim_nothing():
    same = paired_difference([0.02, 0.02, 0.02])
    assert same.mean == pytest.approx(0.02)
    assert math.isnan(same.low)
    assert math.isnan(same.high)
    assert same.verdict == "no interval: all 3 differences are equal"


def test_verdicts_in_words():
    assert paired_difference([0.01, -0.01, 0.0]).verdict == "not distinguishable from 0 at n = 3"
    assert paired_difference([0.10, 0.11, 0.12]).verdict == "above 0 at n = 3"
    assert paired_difference([-0.10, -0.11, -0.12]).verdict == "below 0 at n = 3"


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
    assert found[0].difference is None


def test_another_budget_is_never_the_baseline():
    runs = [result(Position.BASELINE, 0, 0.5, steps=100), result(Position.AFTER_FFN, 0, 0.6, steps=200)]
    assert all(arm.difference is None for arm in arms(runs))


def test_a_result_reads_back_from_its_json():
    run = result(Position.AFTER_FFN, 3, 0.5)
    assert RunResult.from_json(run.to_json()) == run
