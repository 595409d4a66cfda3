"""The sidebar that every page shares: the way between the pages, the shared controls, the device."""

from __future__ import annotations

import os
import shutil
from importlib import metadata

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from lab import link
from lab.errors import LabError
from lab.positions import Position
from lab.tasks import TASKS, get_task, own_names
from lab.tasks.recipes import recipe
from pages.parts import resources, state

PAGES: dict[str, StreamlitPage] = {}
"""The pages by their path in the address, filled by app.py."""


def sidebar() -> None:
    """Navigation and the shared controls; every link carries the whole state, so a new tab opens on the same screen."""
    params = state.params()
    with st.sidebar:
        with st.container(gap="xsmall", key="nav"):
            for page in PAGES.values():
                st.page_link(page, query_params=params, width="stretch")
        st.slider("Step size α", 0.0, link.ALPHA_MAX, step=0.01, **state.bound("alpha"), help=_ALPHA_HELP)
        _regime(state.values()["alpha"])
        st.slider(
            "Heat steps T",
            1,
            100,
            **state.bound("heat_steps"),
            help="How often the heat step is repeated where it sits.",
        )
        st.selectbox("Position", [p.value for p in Position], format_func=_position, **state.bound("position"))
        left, right = st.columns([3, 2])
        left.selectbox("Task", task_names(), format_func=task_title, **state.bound("task"), on_change=_own_budget)
        right.number_input(
            "Seed", 0, 2**31 - 1, step=1, **state.bound("seed"), help="Everything random is drawn from it."
        )
        st.caption(f"{device()} · link version {link.LINK_VERSION}")


def task_names() -> list[str]:
    """The tasks that some size of can be loaded here, and the one that the link names, whatever it is."""
    here = [name for name in TASKS if name == state.values()["task"] or is_here(name)]
    return [*here, *own_names()]


@st.cache_data(ttl=30, show_spinner=False)
def is_here(name: str) -> bool:
    """Whether some size of a task can be loaded on this machine, or the lab comes with results of it."""
    if name in resources.shipped_tasks():
        return True
    task = get_task(name)
    return any(not task.unavailable(size) for size in task.info.sizes)


@st.cache_data(ttl=30, show_spinner=False)
def task_title(name: str) -> str:
    """A task's title; its name, if its data can no longer be read."""
    try:
        return get_task(name).info.title
    except LabError:
        return name


def _own_budget() -> None:
    """Another task: the first of its sizes that is here, and the budget it sets itself."""
    own_size_and_budget(st.session_state["task"])


def own_size_and_budget(name: str) -> None:
    """Set size and training steps to what a task recommends. Call before their controls are drawn."""
    task = get_task(name)
    sizes = [size for size in task.info.sizes if not task.unavailable(size)] or list(task.info.sizes)
    st.session_state["size"] = sizes[0]
    st.session_state["steps"] = min(link.MAX_STEPS, recipe(name, sizes[0]).steps)


_ALPHA_HELP = (
    "How far one heat step moves each token towards its neighbours. Up to 1/4 it only smooths; up to 1/2 the fastest "
    "modes ring; beyond 1/2 they grow, which is shown here as a demonstration and never trained with."
)


def _regime(alpha: float) -> None:
    if alpha > 0.5:
        st.markdown(":red-badge[**Unstable demonstration**: α > 1/2]")
    else:
        st.caption("Ringing: 1/4 < α ≤ 1/2" if alpha > 0.25 else "Pure smoothing: α ≤ 1/4")


def _position(name: str) -> str:
    position = Position(name)
    number = tuple(Position).index(position)
    return f"{number} · {position.label}" if number else position.label


def page_link(path: str, label: str, icon: str | None = None, **changes: object) -> None:
    """A link to another page of the lab that keeps the state but for ``changes``; ``path`` is its path in the address."""
    params = link.write({**state.values(), **changes})
    st.page_link(PAGES[path], label=label, icon=icon, query_params=params)


def device() -> str:
    """What training will run on, in words, without loading torch."""
    build = metadata.version("torch")
    if scheduler := os.environ.get("LAB_SCHEDULER"):
        return f"Runs on: the cluster at {scheduler}"
    if "+cpu" not in build and shutil.which("nvidia-smi"):
        return "Runs on: NVIDIA GPU"
    return f"Runs on: CPU, {_cores()}"


def _cores() -> str:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{count} core{'s' if count > 1 else ''}"
