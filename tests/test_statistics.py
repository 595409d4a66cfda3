"""Paired differences: the interval is the paired t interval, and pairs are pairs of seeds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from lab.config import RunConfig
from lab.positions import Position
from lab.results import CurvePoint, DepthProfile, OrderSwap, RunResult
from lab.statistics import RankCorrelation, holm, paired_difference, rank_correlation

STUDIES = 2000


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
    assert found.p == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert found.n == 6


def simulated(seeds, counted=0, gain=0.03):
    """Differences of simulated studies: a baseline that varies by 3 points, a gain that varies by 2, accuracies in steps of 1/counted."""
    rng = np.random.default_rng(1)
    base = rng.normal(0.35, 0.03, (STUDIES, seeds))
    arm = base + rng.normal(gain, 0.02, (STUDIES, seeds))
    return np.round(arm * counted) / counted - np.round(base * counted) / counted if counted else arm - base


@pytest.mark.parametrize("counted", [0, 360])
def test_the_t_interval_covers_the_truth_as_often_as_it_says(counted):
    covered = [d.low <= 0.03 <= d.high for d in (paired_difference(row) for row in simulated(5, counted))]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(("seeds", "share"), [(5, 0.83), (10, 0.89)])
def test_the_bootstrap_interval_is_too_narrow_for_few_seeds_as_the_page_says(seeds, share):
    """Three standard errors of a share of 1,000; 95 % is far outside both."""
    intervals = [paired_difference(row).bca() for row in simulated(seeds, 360)[:1000]]
    covered = np.mean([low <= 0.03 <= high for low, high in intervals])
    assert covered == pytest.approx(share, abs=3 * math.sqrt(share * (1 - share) / 1000))


def test_the_bootstrap_gives_the_same_interval_every_time_and_lies_about_the_mean():
    found = paired_difference([0.01, 0.05, 0.02, 0.06, 0.03])
    low, high = found.bca()
    assert low < found.mean < high
    assert paired_difference([0.01, 0.05, 0.02, 0.06, 0.03]).bca() == (low, high)
    expected = stats.bootstrap(
        (np.array(found.values),), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(5)
    ).confidence_interval
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.002)


def test_the_effect_is_the_mean_in_standard_deviations():
    assert paired_difference([0.01, 0.03, 0.05]).effect == pytest.approx(0.03 / 0.02)
    assert math.isnan(paired_difference([0.01]).effect)


def test_more_seeds_are_expected_to_narrow_the_interval_by_the_formula():
    values = [0.01, 0.04, 0.02, 0.06, 0.03]
    found = paired_difference(values)
    assert found.with_more(0) == pytest.approx(found.half_width)
    expected = stats.t.ppf(0.975, 6) * np.std(values, ddof=1) / math.sqrt(7)
    assert found.with_more(2) == pytest.approx(expected)
    assert math.isnan(paired_difference([0.02, 0.02]).with_more())


def test_holm_by_hand():
    """0.01 · 4; then the largest of what came before and 0.02 · 3, 0.03 · 2, 0.5 · 1."""
    assert holm([0.5, 0.01, 0.03, 0.02]) == pytest.approx([0.5, 0.04, 0.06, 0.06])
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


@settings(max_examples=8)  # each call of statsmodels collects garbage, which takes long in a large process
@given(st.lists(st.floats(1e-9, 1), min_size=2, max_size=9))
def test_holm_agrees_with_statsmodels(ps):
    assert holm(ps) == pytest.approx(multipletests(ps, method="holm")[1])


def test_what_has_no_p_value_is_no_look():
    assert holm([0.01, math.nan, 0.03]) == pytest.approx([0.02, math.nan, 0.03], nan_ok=True)
    assert holm([math.nan, 0.04]) == pytest.approx([math.nan, 0.04], nan_ok=True)


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


def test_a_result_reads_back_from_its_json():
    run = result(Position.AFTER_FFN, 3, 0.5)
    assert RunResult.from_json(run.to_json()) == run


def test_rank_correlation_is_that_of_the_means_over_seeds():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 6, 7))
    found = rank_correlation(x, y)
    assert found.rho == pytest.approx(stats.spearmanr(x.mean(0), y.mean(0)).statistic)
    assert found.low <= found.rho <= found.high
    assert (found.n, found.seeds) == (7, 6)


def test_rank_correlation_that_every_seed_shows_is_told_from_0():
    steps = np.arange(7.0) + np.random.default_rng(0).normal(0, 0.05, (5, 7))
    up, down = rank_correlation(steps, steps**3), rank_correlation(steps, -steps)
    assert (up.rho, up.low, up.high) == (pytest.approx(1.0),) * 3
    assert up.verdict == "rises with it (7 positions, 5 seeds)"
    assert down.rho == pytest.approx(-1.0)
    assert down.verdict == "falls with it (7 positions, 5 seeds)"


def test_rank_correlation_with_ties():
    """Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / √(4.5 · 5)."""
    found = rank_correlation(np.array([[1.0, 2.0, 2.0, 3.0]]), np.array([[1.0, 2.0, 3.0, 4.0]]))
    assert found.rho == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert math.isnan(found.low)
    assert found.verdict == "no interval: it takes at least 3 positions and 3 seeds, there are 4 and 1"


def test_rank_correlation_of_noise_claims_nothing():
    x, y = np.random.default_rng(8).normal(size=(2, 5, 7))
    assert rank_correlation(x, y).verdict == "no rank correlation that can be told from 0 (7 positions, 5 seeds)"


@pytest.mark.parametrize(
    ("x", "why"),
    [(np.ones((4, 2)), "it takes at least 3 positions and 3 seeds"), (np.ones((4, 5)), "the same at every position")],
)
def test_too_little_has_no_rank_correlation(x, why):
    found: RankCorrelation = rank_correlation(x, x)
    assert math.isnan(found.rho)
    assert found.verdict.startswith("no interval")
    assert why in found.verdict
