"""What the engine does and what waits for it, in words: for the page Engine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from lab.config import RunConfig
from lab.engine import EngineStatus
from lab.engine.estimate import in_words
from lab.engine.live import STARTING
from lab.engine.overview import OpenRequest, Overview
from pages.parts import resources, shell, training
from pages.parts.shown import plain

MOST_WORKERS, MOST_REQUESTS, MOST_NEXT, MOST_CAUSES = 40, 20, 20, 8


def state(status: EngineStatus, seen: Overview) -> None:
    """What the engine does, in one sentence."""
    waiting = len(seen.waiting)
    if status.message == STARTING:
        _say("blue", "Starting", "The workers are on their way up, which takes a few seconds.")
    elif status.message:
        held = f" For {in_words(time.time() - status.since)} now." if status.since else ""
        _say("orange", "Held up", plain(status.message) + held)
    elif not status.alive and seen.requests:
        _say("orange", "Not running", f"{_runs(waiting)} wait{'s' * (waiting == 1)} for an engine.")
        if st.button("Start the engine", icon=":material/play_arrow:", key="start-engine"):
            resources.engine().start()
            st.rerun()
    elif not status.alive:
        _say("gray", "Asleep", "Nothing is asked for. It starts by itself with the next press of **Train**.")
    elif not status.running:
        idle = "There is nothing to train; the engine ends by itself when nobody uses the lab."
        _say("blue", "Awake", "The next run is about to begin." if seen.requests else idle)
    else:
        busy = sum(bool(worker.runs) for worker in status.workers)
        left = [one.seconds_left for one in seen.requests if one.seconds_left is not None]
        until = f", {in_words(max(left))} left" if len(left) == len(seen.requests) > 0 else ""
        there = f"{busy} of {len(status.workers)} worker{'s' * (len(status.workers) != 1)}"
        _say("green", "Training", f"{_runs(status.running)} on {there}, {_runs(waiting)} waiting{until}.")


def _say(colour: str, word: str, sentence: str) -> None:
    st.markdown(f":{colour}-badge[**{word}**] {sentence}")


def workers(status: EngineStatus, seen: Overview) -> None:
    """A row for each worker: what it is, what it trains."""
    st.markdown("##### Workers")
    rows = [_worker(worker.name, worker.device, worker.runs, seen) for worker in status.workers[:MOST_WORKERS]]
    st.dataframe(pd.DataFrame(rows), hide_index=True, key="workers", width="stretch")
    _and_more(len(status.workers) - MOST_WORKERS, "worker")


def _worker(name: str, device: str, keys: Sequence[str], seen: Overview) -> dict[str, str]:
    runs = [seen.running[key] for key in keys if key in seen.running]
    row = {"worker": name, "trains": "–", "step": "–", "time left": "–", "device": device or "told with its first run"}
    if not runs:
        return row | {"trains": "ends at its next step"} if keys else row
    config, run = runs[0]
    row |= {"trains": named(config) if len(runs) == 1 else f"{len(runs)} runs of {shell.task_title(config.task)}"}
    row |= {"step": f"{run.step:,} of {config.steps:,}"}
    return row if run.seconds_left is None else row | {"time left": in_words(run.seconds_left)}


def request(one: OpenRequest) -> None:
    """What was asked for, by whom, how far it is, and the button that takes it back."""
    own = one.request.id in _mine()
    with st.container(border=True, key=f"request-{one.request.id}"):
        row = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
        title, details = asked(one.request.id, one.runs)
        until = f", until every interval is ± {100 * one.request.until:g} points" if one.request.until else ""
        row.markdown(f"**{plain(title)}**: {details}{until} · *{whose(one.request.label, own)}*")
        if row.button(
            "Stop" if own else "Stop for everyone",
            icon=":material/stop:",
            key=f"stop-{one.request.id}",
            help="Takes this request back: its runs that wait are dropped, those that train end at their next step. What is done is kept; "
            "a run that another request wants too goes on.",
        ):
            resources.engine().stop(one.request.id)
            st.rerun()
        st.progress((one.done + one.failed) / len(one.runs), text=_far(one))


def _far(one: OpenRequest) -> str:
    words = [f"{one.done} of {_runs(len(one.runs))} done"]
    if one.failed:
        words.append(f"{one.failed} failed")
    if one.running:
        words.append(f"{one.running} training now")
    elif one.ahead:
        words.append(f"{_runs(one.ahead)} of others ahead")
    if one.seconds_left is not None:
        words.append(f"{in_words(one.seconds_left)} left")
    return " · ".join(words)


@st.cache_data(max_entries=200, show_spinner=False)
def asked(request_id: str, _runs: tuple[RunConfig, ...]) -> tuple[str, str]:  # noqa: ARG001
    """The tasks of a request, and its arms, seeds and steps."""
    tasks = list(dict.fromkeys(f"{shell.task_title(run.task)} ({run.size})" for run in _runs))
    arms, seeds = {run.label for run in _runs}, {run.seed for run in _runs}
    steps = sorted({run.steps for run in _runs})
    words = [
        f"{len(arms)} arms" if len(arms) > 1 else _arm(_runs[0]),
        f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {min(seeds)}",
        f"{steps[0]:,} to {steps[-1]:,} steps" if len(steps) > 1 else f"{steps[0]:,} steps",
    ]
    return " and ".join(tasks) if len(tasks) < 3 else f"{len(tasks)} tasks", ", ".join(words)


def named(run: RunConfig) -> str:
    """One run: task, arm and seed."""
    return f"{shell.task_title(run.task)}: {_arm(run)}, seed {run.seed}"


def _arm(run: RunConfig) -> str:
    return run.position.label + (f", α {run.alpha:g}" if run.alpha else "") + ", random neighbours" * run.permuted


def _mine() -> set[str]:
    """The requests of this session."""
    found: Mapping[str, list[str]] = st.session_state.get(training.MINE, {})
    return {request_id for ids in found.values() for request_id in ids}


def whose(label: str, own: bool) -> str:
    """Who asked."""
    return "yours" if own else "from a command line" if label == "command line" else "someone else's"


def following(seen: Overview) -> None:
    """The runs that are begun next."""
    labels, own = {one.request.id: one.request.label for one in seen.requests}, _mine()
    rows: list[dict[str, Any]] = [
        {
            "place": place,
            "run": named(run),
            "steps": run.steps,
            "asked for": whose(labels[request_id], request_id in own),
        }
        for place, (request_id, run) in enumerate(seen.waiting[:MOST_NEXT], 1)
    ]
    with st.expander(f"What is begun next ({_runs(len(seen.waiting))} waiting)"):
        st.dataframe(pd.DataFrame(rows), hide_index=True, key="next", width="stretch")
        _and_more(len(seen.waiting) - MOST_NEXT, "run")


def failures(seen: Overview) -> None:
    """Why runs failed lately, each cause once."""
    causes: dict[str, list[RunConfig]] = {}
    for run, cause in seen.failures:
        causes.setdefault(cause, []).append(run)
    st.markdown("##### Failed lately")
    for cause, runs in list(causes.items())[:MOST_CAUSES]:
        others = f" and {_runs(len(runs) - 1)} more" if len(runs) > 1 else ""
        st.error(f"{plain(named(runs[0]))}{others}: {plain(cause)}", icon=":material/error:")
    _and_more(len(causes) - MOST_CAUSES, "cause")
    st.caption("A run that failed is tried again when somebody presses **Train** for it.")


def _runs(count: int) -> str:
    return f"{count:,} run{'s' * (count != 1)}"


def _and_more(count: int, what: str) -> None:
    if count > 0:
        st.caption(f"and {count:,} more {what}{'s' * (count != 1)}")
