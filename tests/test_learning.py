"""Learning curves: areas, first steps, and whether a gain is more than a faster start."""

from dataclasses import replace

import pytest

from lab.arms import arms
from lab.learning import area, area_difference, curve_difference, only_a_faster_start, steps_difference, steps_to
from lab.positions import Position
from lab.results import CurvePoint
from tests.test_statistics import result

STEPS = (100, 200, 300)


def run(position, seed, *heights, steps=STEPS):
    curve = tuple(CurvePoint(step, 1.0, height) for step, height in zip(steps, heights, strict=True))
    return replace(result(position, seed, heights[-1]), curve=curve)


def arm(gains, wobble=0.01, more=()):
    """An arm whose curve is ahead of the baseline's by ``gains``, give or take a wobble that differs from seed to seed."""
    runs = list(more)
    for seed in range(5):
        base = (0.2 + 0.01 * seed, 0.4, 0.5)
        off = wobble * (seed - 2)
        runs.append(run(Position.BASELINE, seed, *base))
        runs.append(run(Position.AFTER_FFN, seed, *(b + g + off for b, g in zip(base, gains, strict=True))))
    return next(a for a in arms(runs) if a.config.position is Position.AFTER_FFN)


def test_the_area_of_a_straight_line_is_its_middle():
    assert area(run(Position.BASELINE, 0, 0.2, 0.4, 0.6)) == pytest.approx(0.4)
    # long steps weigh more: (100 · 0.25 + 300 · 0.45) / 400
    assert area(run(Position.BASELINE, 0, 0.2, 0.3, 0.6, steps=(100, 200, 500))) == pytest.approx(0.4)
    assert area(run(Position.BASELINE, 0, 0.7, steps=(100,))) == 0.7


def test_the_first_step_that_reaches_an_accuracy():
    curve = run(Position.BASELINE, 0, 0.2, 0.5, 0.4)
    assert [steps_to(curve, a) for a in (0.1, 0.5, 0.51)] == [100, 200, None]


def test_differences_are_paired_at_every_step_that_all_pairs_have():
    shorter = run(Position.BASELINE, 9, 0.3, 0.5, steps=(200, 300))
    partner = run(Position.AFTER_FFN, 9, 0.3, 0.5, steps=(200, 300))
    found = curve_difference(arm((0.1, 0.2, 0.3)))
    assert [point.step for point in found] == list(STEPS)
    assert [point.difference.mean for point in found] == pytest.approx([0.1, 0.2, 0.3])
    assert all(point.difference.n == 5 for point in found)
    assert [point.step for point in curve_difference(arm((0.1, 0.2, 0.3), more=[shorter, partner]))] == [200, 300]
    assert curve_difference(arms([run(Position.AFTER_FFN, 0, 0.1, 0.2, 0.3)])[0]) == []


def test_area_and_steps_are_paired_with_the_baseline():
    ahead = arm((0.2, 0.2, 0.2))
    assert area_difference(ahead).mean == pytest.approx(0.2)
    sooner = steps_difference(ahead, 0.49)
    assert (sooner.mean, sooner.n) == (-100, 5)
    assert steps_difference(ahead, 0.6) is None  # the baseline never gets there


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ((0.0, 0.1, 0.2), "the gain is there at the end of the training"),
        (
            (0.2, 0.1, 0.0),
            "ahead at step 100, not distinguishable at the end: no more than a faster start can be shown",
        ),
        ((0.0, 0.0, 0.0), "no gain that can be told from 0, early or late"),
        ((0.0, -0.1, -0.2), "below the baseline at the end"),
        ((0.2, 0.0, -0.2), "ahead at step 100, but below the baseline at the end"),
    ],
)
def test_a_faster_start_is_told_from_a_better_end(gains, words):
    assert only_a_faster_start(arm(gains)) == words


def test_a_gain_that_does_not_outlive_the_correction_is_none_yet():
    weak = arm((0.0, 0.0, 0.025))
    assert weak.difference.low > 0
    assert only_a_faster_start(replace(weak, p=0.2, looks=7)) == (
        "ahead at the end by its own interval, but not once corrected for 7 looks"
    )


def test_equal_differences_are_not_taken_for_want_of_seeds():
    words = "no interval: all 5 differences are equal at the end of the training"
    assert only_a_faster_start(arm((0.2, 0.1, 0.1), wobble=0.0)) == words


def test_one_seed_says_nothing_of_the_start():
    alone = [run(p, 0, 0.1, 0.2, 0.3) for p in (Position.BASELINE, Position.AFTER_FFN)]
    assert only_a_faster_start(arms(alone)[1]) == "at least two seeds are needed"
