"""Does non-commutation explain accuracy? The order swap χ of every arm beside what its heat layer brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from lab.arms import Arm
from lab.results import DepthProfile, RunResult
from lab.statistics import PairedDifference, RankCorrelation, paired_difference, rank_correlation

When = Literal["initial", "final"]
"""The model as it starts, or after training."""


def profile(result: RunResult, when: When) -> DepthProfile:
    """What was measured of a run's model before or after training."""
    return result.initial if when == "initial" else result.final


def chi(result: RunResult, when: When) -> float | None:
    """Mean over layers of ``χ = ‖Attn(DX) - D Attn(X)‖ / ‖Attn(X)‖``; None where sequences were too long to measure it."""
    swap = profile(result, when).swap
    return float(np.mean([layer.chi for layer in swap])) if swap else None


def mean_chi(arm: Arm, when: When) -> PairedDifference | None:
    """An arm's mean χ over seeds with its t interval; None where no seed has one."""
    values = [value for result in arm.results if (value := chi(result, when)) is not None]
    return paired_difference(values) if values else None


def correlation(found: Sequence[Arm], when: When) -> RankCorrelation:
    """Spearman's ρ of χ with the accuracy change, over the arms with real neighbours and the seeds that all of them share.

    See :func:`lab.statistics.rank_correlation` for its interval and for what it cannot say.
    """
    pairs = []
    for arm in found:
        if arm.difference is None or arm.config.permuted:
            continue
        base = {result.config.seed: result.accuracy for result in arm.base}
        pairs.append(
            {
                result.config.seed: (value, result.accuracy - base[result.config.seed])
                for result in arm.results
                if result.config.seed in base and (value := chi(result, when)) is not None
            }
        )
    pairs = [by_seed for by_seed in pairs if by_seed]
    shared = sorted(set.intersection(*map(set, pairs))) if pairs else []
    both = np.array([[by_seed[seed] for by_seed in pairs] for seed in shared]).reshape(len(shared), len(pairs), 2)
    return rank_correlation(both[..., 0], both[..., 1])
