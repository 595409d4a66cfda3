"""The sidebar that every page shares: the way between the pages, the shared controls, the device."""

from __future__ import annotations

import os
import shutil
from importlib import metadata

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from lab import link
from lab.positions import Position
from lab.tasks import TASKS
from pages.parts import state

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
        st.caption(_regime(state.values()["alpha"]))
        st.slider(
            "Heat steps T",
            1,
            100,
            **state.bound("heat_steps"),
            help="How often the heat step is repeated where it sits.",
        )
        st.selectbox("Position", [p.value for p in Position], format_func=_position, **state.bound("position"))
        left, right = st.columns([3, 2])
        left.selectbox("Task", list(TASKS), format_func=lambda name: TASKS[name].info.title, **state.bound("task"))
        right.number_input(
            "Seed", 0, 2**31 - 1, step=1, **state.bound("seed"), help="Everything random is drawn from it."
        )
        st.caption(f"{device()} · link version {link.LINK_VERSION}")


_ALPHA_HELP = (
    "How far one heat step moves each token towards its neighbours. Up to 1/4 it only smooths; up to 1/2 the fastest "
    "modes ring; beyond 1/2 they grow, which is shown here as a demonstration and never trained with."
)


def _regime(alpha: float) -> str:
    if alpha > 0.5:
        return ":red[**Unstable demonstration**: α > 1/2]"
    return "Ringing: 1/4 < α ≤ 1/2" if alpha > 0.25 else "Pure smoothing: α ≤ 1/4"


def _position(name: str) -> str:
    position = Position(name)
    number = tuple(Position).index(position)
    return f"{number} · {position.label}" if number else position.label


def page_link(path: str, label: str, icon: str | None = None) -> None:
    """A link to another page of the lab that keeps the state; ``path`` is its path in the address."""
    st.page_link(PAGES[path], label=label, icon=icon, query_params=state.params())


def device() -> str:
    """What training will run on, in words, without loading torch."""
    build = metadata.version("torch")
    if "+cpu" not in build and shutil.which("nvidia-smi"):
        return "Runs on: NVIDIA GPU"
    return f"Runs on: CPU, {_cores()}"


def _cores() -> str:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{count} core{'s' if count > 1 else ''}"
