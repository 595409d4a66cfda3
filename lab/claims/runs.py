"""Which arms the starter study has, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.config import RunConfig
from lab.results import RunResult
from lab.starter_study import studies

Results = Mapping[str, RunResult]
"""By the key of their config."""

Planned = Mapping[RunConfig, tuple[int, ...]]
"""Arms, as their config at seed 0, with their seeds."""


def keys() -> list[str]:
    """The keys of the runs that the claims look at: those of the starter study."""
    return list(dict.fromkeys(config.key for study in studies() for config in study.configs()))


def planned() -> Planned:
    """The arms of the starter study."""
    found: dict[RunConfig, set[int]] = {}
    for study in studies():
        for config in study.configs():
            found.setdefault(config.with_(seed=0), set()).add(config.seed)
    return {config: tuple(sorted(seeds)) for config, seeds in found.items()}


def by_seed(config: RunConfig, seeds: Sequence[int], results: Results) -> dict[int, RunResult]:
    """The results of an arm that there are."""
    every = {seed: results.get(config.with_(seed=seed).key) for seed in seeds}
    return {seed: run for seed, run in every.items() if run is not None}
