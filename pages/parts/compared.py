"""What the verdicts of a study take to work out, kept while its results stay the same: a page runs again at every click."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import streamlit as st

from lab.arms import Arm, arms
from lab.prediction import When, correlation
from lab.results import RunResult
from lab.statistics import RankCorrelation


def arms_of(results: Iterable[RunResult]) -> list[Arm]:
    """:func:`lab.arms.arms`."""
    found = list(results)
    return _arms(_mark(found), found)


def correlation_of(found: Sequence[Arm], when: When) -> RankCorrelation:
    """:func:`lab.prediction.correlation`."""
    return _correlation(_mark(result for arm in found for result in arm.results), when, found)


def _mark(results: Iterable[RunResult]) -> tuple[tuple[str, float, float], ...]:
    # The key alone would not do: a run that is trained again here replaces the one that came with the lab.
    return tuple((r.config.key, r.accuracy, r.seconds) for r in results)


@st.cache_resource(show_spinner=False, max_entries=32)
def _arms(mark: tuple[tuple[str, float, float], ...], _found: list[RunResult]) -> list[Arm]:  # noqa: ARG001
    return arms(_found)


@st.cache_resource(show_spinner=False, max_entries=32)
def _correlation(mark: tuple[tuple[str, float, float], ...], when: When, _found: Sequence[Arm]) -> RankCorrelation:  # noqa: ARG001
    return correlation(_found, when)
