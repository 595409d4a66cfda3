"""A study while it trains: how far it is, what it says so far, the button that stops it."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from lab.engine import RunState
from lab.engine.estimate import in_words
from lab.results import RunResult
from lab.study import Study
from lab.tasks import get_task
from pages.parts import resources
from pages.parts.shown import plain, told

MINE = "lab_requests"
"""In the session: the requests by which it asked for each study, so that it can take them back."""

MOST_SHOWN = 8
UNDER_WAY = ("running", "queued")


_STOP_HELP = "Runs that wait are dropped, those that train end at their next step. What is done is kept; what another study wants goes on."


def ask(study: Study, until: float = 0.0) -> None:
    """Ask the engine for what the store lacks of a study; with ``until`` above 0, only until every interval is ± that many points."""
    request = resources.engine().request(study, label=study.key, until=until / 100)
    st.session_state.setdefault(MINE, {}).setdefault(study.key, []).append(request)


def mine(study: Study) -> list[str]:
    """This session's open requests of a study."""
    asked = set(st.session_state.get(MINE, {}).get(study.key, ()))
    return [request for request in _open(study) if request in asked]


def stop(study: Study) -> None:
    """Take back this session's requests of a study; after a reload, which forgets whose they are, all of this study's.

    Other studies that want some of its runs keep them.
    """
    for request in mine(study) or _open(study):
        resources.engine().stop(request)


def _open(study: Study) -> list[str]:
    return [request.id for request in resources.engine().open_requests() if request.label == study.key]


def buttons(
    study: Study,
    states: Mapping[str, RunState],
    until: float = 0.0,
    reached: bool = False,
    aside: str = "",
) -> None:
    """Train and Stop, with the words ``aside`` beside them.

    ``until`` is the half-width in points to stop at, 0 for none; ``reached`` says that the intervals are that narrow. Where the task's
    data is not here nothing can be trained, and a sentence says so; results that are here are shown all the same.
    """
    refused = get_task(study.base.task).unavailable(study.base.size)
    under_way = any(run.kind in UNDER_WAY for run in states.values())
    missing = 0 if reached else sum(run.kind not in ("done", *UNDER_WAY) for run in states.values())
    if not missing:
        words = "Training …" if under_way else "All runs trained" if not reached else "Narrow enough"
    elif until:
        words = f"Train until every interval is ± {until:g} points, at most {len(study.seeds)} seeds"
    else:
        words = f"Train {missing} run{'s' if missing > 1 else ''}"
    row = st.container(horizontal=True, vertical_alignment="center")
    if row.button(
        words, type="primary", disabled=not missing or bool(refused), icon=":material/play_arrow:", key="train"
    ):
        with told():
            ask(study, until)
            st.rerun()
    # After a reload nobody knows whose a request was; whoever presses then should know that others may be waiting.
    whose = "Stop" if not under_way or mine(study) else "Stop for everyone"
    if under_way and row.button(whose, icon=":material/stop:", key="stop", help=_STOP_HELP):
        with told():
            stop(study)
            st.rerun()
    if aside:
        row.caption(aside, width="stretch")
    if refused:
        st.caption(plain(refused))


def progress(
    study: Study, states: Mapping[str, RunState], results: Mapping[str, RunResult], at_most: bool = False
) -> None:
    """One bar for the study, one line for each run under way, and what the engine has to say.

    ``at_most`` says that the study may end before all its runs are done.
    """
    engine = resources.engine()
    status = engine.status()
    total = len(states)
    steps = sum(run.steps for run in study.configs())
    done = sum(r.config.steps for r in results.values()) + sum(s.step for s in states.values() if s.kind == "running")
    left = engine.seconds_left(states)
    words = [f"{len(results)} of {'at most ' if at_most else ''}{total} runs done"]
    if left is not None:
        words.append(f"{'at most ' if at_most else ''}{in_words(left)} left")
    ahead = _ahead(states)
    if ahead:
        words.append(f"{ahead} {'run' if ahead == 1 else 'runs'} of others ahead in the queue")
    st.progress(min(1.0, done / steps), text=" · ".join(words))
    if status.message:
        st.caption(plain(status.message))
    under_way = [(run, states[run.key]) for run in study.configs() if states[run.key].kind == "running"]
    if under_way:
        lines = [
            f"**{run.position.label}**{', random neighbours' if run.permuted else ''}, seed {run.seed}: step {state.step} of {state.steps}"
            for run, state in under_way[:MOST_SHOWN]
        ]
        more = len(under_way) - MOST_SHOWN
        st.caption("Training now: " + "; ".join(lines) + (f"; and {more} more" if more > 0 else ""))


def failures(study: Study, states: Mapping[str, RunState]) -> None:
    """One sentence for each run that failed; the others are untouched."""
    for run in study.configs():
        if states[run.key].kind == "failed":
            st.error(
                f"{run.label}, seed {run.seed}, failed: {plain(states[run.key].cause)} The other runs are kept.",
                icon=":material/error:",
            )


def _ahead(states: Mapping[str, RunState]) -> int:
    """How many runs of other people stand before the first of ours, if none of ours runs."""
    if any(state.kind == "running" for state in states.values()):
        return 0
    first = min((state.place for state in states.values() if state.place), default=1)
    return first - 1
