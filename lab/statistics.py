"""What a few numbers say: paired differences with their intervals, corrected for how often one looked; rank correlation.

Numbers in, numbers out; the distributions, the bootstrap and the corrections are scipy's and statsmodels'. One difference a seed is all
there is to go on, so every interval here is one over seeds: the held-out examples are the same in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
RESAMPLES = 2000
"""Of the bootstrap: the ends of an interval move by about a fiftieth of its width from one draw of so many to the next."""


@dataclass(frozen=True)
class PairedDifference:
    """Mean of paired differences with its two-sided t interval, ``mean ± t_{n-1} s / √n``.

    ``values`` holds the difference of each pair. ``low`` and ``high`` are NaN where there is no interval: for fewer than two pairs, and
    where all differences are equal, which says that accuracy is counted in steps, not that nothing varies.
    """

    mean: float
    low: float
    high: float
    n: int
    values: tuple[float, ...] = ()

    @property
    def verdict(self) -> str:
        """In plain words, e.g. ``not distinguishable from 0 at n = 3``; not corrected for looking at several."""
        if self.n < 2:
            return f"no interval at n = {self.n}: it takes at least 2 seeds"
        if math.isnan(self.low):
            return f"no interval: all {self.n} differences are equal"
        if self.low <= 0 <= self.high:
            return f"not distinguishable from 0 at n = {self.n}"
        return f"{'above' if self.mean > 0 else 'below'} 0 at n = {self.n}"

    @property
    def half_width(self) -> float:
        """Half of the interval's width; NaN where there is none."""
        return (self.high - self.low) / 2

    @property
    def p(self) -> float:
        """Two-sided p value of the paired t test against 0; NaN where there is no interval."""
        if math.isnan(self.low):
            return math.nan
        from scipy import special

        return 2 * float(special.stdtr(self.n - 1, -abs(self.effect) * math.sqrt(self.n)))

    @property
    def effect(self) -> float:
        """Effect size ``d_z = mean / s``, the mean difference in standard deviations of the differences; NaN without an interval."""
        return math.nan if math.isnan(self.low) else self.mean / float(np.std(self.values, ddof=1))

    def bca(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The bias-corrected and accelerated bootstrap interval (scipy's, 2,000 resamples, always the same draws).

        It assumes no normal differences, yet at five pairs it is too narrow: see the tests for how often it covers. NaN without an
        interval, and where scipy finds none.
        """
        return (math.nan, math.nan) if math.isnan(self.low) else _bca(self.values, confidence)

    def with_more(self, seeds: int = 1, confidence: float = CONFIDENCE) -> float:
        """The half-width to expect with so many seeds more, if they vary as these do: ``t_{n+k-1} s / √(n+k)``."""
        if math.isnan(self.low):
            return math.nan
        return _half_width(float(np.std(self.values, ddof=1)), self.n + seeds, confidence)


def _half_width(deviation: float, n: int, confidence: float) -> float:
    """``t_{n-1} s / √n``. A page asks for hundreds of these in one go: scipy's own test takes a millisecond each."""
    from scipy import special

    return float(special.stdtrit(n - 1, (1 + confidence) / 2)) * deviation / math.sqrt(n)


@lru_cache(maxsize=4096)
def _bca(values: tuple[float, ...], confidence: float) -> tuple[float, float]:
    import warnings

    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)  # told as NaN
        found = stats.bootstrap(
            (np.array(values),),
            np.mean,
            axis=-1,
            confidence_level=confidence,
            n_resamples=RESAMPLES,
            method="BCa",
            rng=np.random.default_rng(0),
        ).confidence_interval
    return float(found.low), float(found.high)


def paired_difference(differences: Sequence[float], confidence: float = CONFIDENCE) -> PairedDifference:
    """The paired t interval of ``differences``, one per seed. Raises ValueError if there are none."""
    n, values = len(differences), tuple(map(float, differences))
    if n == 0:
        raise ValueError("a paired difference needs at least one pair")
    mean = float(np.mean(values))
    if n == 1 or np.ptp(values) < 1e-12:
        return PairedDifference(mean, math.nan, math.nan, n, values)
    half = _half_width(float(np.std(values, ddof=1)), n, confidence)
    return PairedDifference(mean, mean - half, mean + half, n, values)


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's correction of the p values of one family (statsmodels'), in their order; a NaN stays one and counts for nothing.

    Holding the results below 0.05 for real, one is wrong about any of them with a probability of at most 5 %.
    """
    known = [p for p in ps if not math.isnan(p)]
    if len(known) < 2:
        return list(ps)
    corrected = iter(_holm(tuple(known)))
    return [p if math.isnan(p) else next(corrected) for p in ps]


@lru_cache(maxsize=256)
def _holm(ps: tuple[float, ...]) -> tuple[float, ...]:
    """Kept, because statsmodels collects the whole process's garbage at every call and a page asks at every run."""
    from statsmodels.stats.multitest import multipletests

    return tuple(multipletests(ps, method="holm")[1].tolist())


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's ρ with its interval over seeds; ``n`` things are ranked, each a mean over ``seeds``. NaN where there is none."""

    rho: float
    low: float
    high: float
    n: int
    seeds: int

    @property
    def verdict(self) -> str:
        """In plain words."""
        if min(self.n, self.seeds) < 3:
            return f"no interval: it takes at least 3 positions and 3 seeds, there are {self.n} and {self.seeds}"
        if math.isnan(self.low):
            return "no interval: one of the two is the same at every position, over all seeds or over some draw of them"
        if self.low <= 0 <= self.high:
            return f"no rank correlation that can be told from 0 ({self.n} positions, {self.seeds} seeds)"
        return f"{'rises' if self.rho > 0 else 'falls'} with it ({self.n} positions, {self.seeds} seeds)"


def rank_correlation(x: NDArray[np.float64], y: NDArray[np.float64], confidence: float = CONFIDENCE) -> RankCorrelation:
    """Spearman's ρ between the means over seeds of ``x`` and ``y``, both ``(seeds, things)``.

    The interval is the percentile bootstrap over seeds: whole seeds are drawn, because the positions of one seed share their start. The
    few positions there are count as given, so it says how well ρ *of these positions* is known, not how other positions would do.
    """
    from scipy import stats

    seeds, n = x.shape
    if n < 3 or seeds < 1:
        return RankCorrelation(math.nan, math.nan, math.nan, n, seeds)

    def rho(rows: NDArray[np.int64]) -> float:
        means = x[rows].mean(0), y[rows].mean(0)
        return float(stats.spearmanr(*means).statistic) if min(np.ptp(means[0]), np.ptp(means[1])) > 0 else math.nan

    whole = rho(np.arange(seeds))
    if seeds < 3 or math.isnan(whole):
        return RankCorrelation(whole, math.nan, math.nan, n, seeds)
    found = stats.bootstrap(
        (np.arange(seeds),),
        rho,
        vectorized=False,
        confidence_level=confidence,
        n_resamples=RESAMPLES // 2,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return RankCorrelation(whole, float(found.low), float(found.high), n, seeds)
