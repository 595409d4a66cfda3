"""Results as training would leave them, with numbers that a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lab.config import RunConfig
from lab.positions import Position
from lab.results import CurvePoint, DepthProfile, OrderSwap, RunResult
from lab.tasks.recipes import recipe

HEATED = tuple(p for p in Position if p is not Position.BASELINE)
BASE = 0.5


def profile(chi: float | None, roughness: Sequence[float] = (0.8, 0.5, 0.2)) -> DepthProfile:
    """``chi`` is the mean over two layers, None where sequences are too long to measure it."""
    swap = () if chi is None else (OrderSwap(chi + 0.1, chi / 2, chi / 4), OrderSwap(chi - 0.1, chi / 3, chi / 5))
    return DepthProfile(tuple(2 * r for r in roughness), (2.0,) * len(roughness), swap)


def result(config: RunConfig, accuracy: float, chi: float | None = 0.3, final_chi: float | None = 0.6) -> RunResult:
    """One run: its roughness at the start is 0.8, 0.5, 0.2, and after training a tenth more for each seed."""
    shift = 0.1 * config.seed
    after = profile(None if chi is None else final_chi, (0.8 + shift, 0.5 + shift, 0.2 + shift))
    curve = (CurvePoint(config.steps, 0.5, accuracy),)
    return RunResult(config, accuracy, 0.1, curve, profile(chi), after, (), 10, 500, 2.0, {"device": "cpu"})


def study(
    gain: Callable[[Position, float, bool, int], float | None],
    alphas: Sequence[float] = (0.25,),
    seeds: Iterable[int] = range(5),
    chi: Callable[[Position, int], float | None] = lambda position, seed: 0.3,
    **fields: object,
) -> list[RunResult]:
    """The baseline and every position at every α, with and without permutation, whose gain on the baseline is not None."""
    found = []
    for seed in seeds:
        base = recipe("digits", **{"seed": seed, **fields})
        start = BASE + 0.01 * (seed % 3)
        found.append(result(base, start, chi(Position.BASELINE, seed)))
        for position in HEATED:
            for alpha in alphas:
                for permuted in (False, True):
                    more = gain(position, alpha, permuted, seed)
                    if more is not None:
                        arm = base.with_(position=position, alpha=alpha, permuted=permuted)
                        found.append(result(arm, start + more, chi(position, seed)))
    return found


def wobble(mean: float, seed: int, size: float = 0.01) -> float:
    """``mean`` with a spread over seeds 0 to 4 that leaves it the mean: -2, -1, 0, 1, 2 times ``size``."""
    return mean + size * (seed % 5 - 2)
