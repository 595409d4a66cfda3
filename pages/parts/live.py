"""A study on a page: Train and Stop, what is under way, and what there is so far, drawn again while it trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from lab.engine import RunState
from lab.engine.width import LEAST_SEEDS, complete_seeds, narrow_enough, width_of
from lab.results import RunResult
from lab.study import Study
from lab.tasks import TaskError, get_task
from pages.parts import behind, resources, training
from pages.parts.shown import plain, told

States = Mapping[str, RunState]
Results = Mapping[str, RunResult]


def show(
    study: Study,
    draw: Callable[[States, Results], None],
    nothing_yet: Callable[[Study], None],
    until: float = 0.0,
) -> None:
    """All of a study that changes while it trains; ``draw`` gets the states and the results of its runs.

    ``nothing_yet`` says what will be seen once there is something; ``until`` is the half-width in points to stop at, 0 for none. Raises
    TaskError where the task's data is not here and there is no result to show either.
    """
    keys = [run.key for run in study.configs()]
    reason = get_task(study.base.task).unavailable(study.base.size)
    if reason and not resources.store().done(keys):
        raise TaskError(reason, "task")
    busy = _under_way(resources.engine().runs(keys))

    @st.fragment(run_every=1.0 if busy else None)  # it asks again every second, and only while something trains
    def again() -> None:
        with told():  # a fragment that runs by itself is outside what app.py catches
            behind.follow()
            states, results = resources.engine().runs(keys), resources.store().get_many(keys)
            still = _under_way(states)
            n, width = width_of(study.configs(), _settled(states), results.values()) if until else (0, 0.0)
            reached = bool(until) and narrow_enough(n, width, until / 100)
            training.buttons(study, states, until, reached, aside=origin(results))
            # Only now: else a press would be lost when somebody else's study has just begun or ended.
            if still != busy:
                st.rerun()
            if until:
                _stopping(n, 100 * width, until, reached)
            if still:
                training.progress(study, states, results, at_most=bool(until))
            training.failures(study, states)
            if not results and not still:
                nothing_yet(study)
            draw(states, results)

    again()


def origin(results: Results) -> str:
    """How many of the results come with the lab, in words; empty if none do."""
    shipped, manifest = resources.store().shipped(results), resources.store().starter.manifest
    if not shipped or manifest is None:
        return ""
    device = manifest.on.get("device", "several devices")
    where = plain(f"commit {manifest.commit[:7]}, {device.upper() if device == 'cpu' else device}, {manifest.date}")
    if len(shipped) == len(results):
        return f":material/inventory_2: All {len(results)} runs come with the lab ({where}); yours will join them."
    return f":material/inventory_2: {len(shipped)} of these {len(results)} runs come with the lab ({where}); yours join them."


def seeds_here(study: Study) -> list[int]:
    """The seeds of which every run of a study has its result."""
    return complete_seeds(study.configs(), resources.store().done(run.key for run in study.configs()))


def _under_way(states: States) -> bool:
    return any(run.kind in training.UNDER_WAY for run in states.values())


def _settled(states: States) -> set[str]:
    return {key for key, run in states.items() if run.kind in ("done", "failed")}


def _stopping(n: int, width: float, until: float, reached: bool) -> None:
    """How near the stop at a width is, and why it stops at a width."""
    if reached:
        words = f"**Reached at n = {n}**: widest ± {width:.1f} points. "
    elif n >= 2:
        words = f"Widest at n = {n}: ± {width:.1f} points of ± {until:g}; from n = {LEAST_SEEDS} on it may stop. "
    else:
        words = ""
    st.caption(
        f"{words}Stopping at a width keeps the interval honest, because a width does not say which way a difference goes. Stopping as soon "
        "as one is significant would not: in simulated studies without any difference, looking after every seed found one in 19 %."
    )
