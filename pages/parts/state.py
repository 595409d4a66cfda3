"""The values on screen and the link in the address bar, kept equal.

Every control is given :func:`bound`, so that its key is the name of its link field. The lab writes the link itself and
in full: Streamlit's own binding leaves out what is at its default, so a changed default would alter old links, and drops
a page's values when another page is opened. Who wins, when the two differ: the link on the first run of a session and
after the browser's Back or Forward; the controls otherwise, so that a link that lags behind a dragged slider never pulls
it back.
"""

from __future__ import annotations

from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from lab import link
from pages.parts.shown import plain

VALUES, PROBLEMS = "lab_values", "lab_link_problems"
MOST_PROBLEMS = 4


def restore() -> None:
    """Once a run, before any control: make link, controls and :func:`values` agree."""
    state, params = st.session_state, st.query_params.to_dict()
    if VALUES not in state or (params and _went_back()):
        state[VALUES], state[PROBLEMS] = link.read(params)
        for name, value in state[VALUES].items():
            state[name] = value
    else:
        before = dict(state[VALUES])
        for name in link.FIELDS:
            if name not in state or state[name] is None:
                state[name] = before[name]
            state[VALUES][name] = state[name]
        if state[VALUES] != before:
            state[PROBLEMS] = []
    written = link.write(state[VALUES])
    if written != params:
        st.query_params.from_dict(written)


def bound(name: str) -> dict[str, Any]:
    """What ties a control to the field ``name``: ``st.slider("α", 0.0, 0.6, **bound("alpha"))``, with no value of its own.

    Streamlit must keep the value while the control is not shown: it would fall back to the first one it was ever given.
    """
    return {"key": link.FIELDS[name].name, "persist_state": "session"}


def values() -> dict[str, Any]:
    """Every value of the link as it stands in this run."""
    _need_app()
    return dict(st.session_state[VALUES])


def params() -> dict[str, str]:
    """The link of this run, for links to other pages."""
    return link.write(st.session_state[VALUES])


def show_problems() -> None:
    """One sentence for each thing in the link that could not be used, until a control is moved."""
    problems = st.session_state[PROBLEMS]
    for problem in problems[:MOST_PROBLEMS]:
        st.warning(plain(problem), icon=":material/link_off:")
    if len(problems) > MOST_PROBLEMS:
        st.warning(
            f"The link has {len(problems) - MOST_PROBLEMS} more fields that cannot be used.", icon=":material/link_off:"
        )


def _need_app() -> None:
    """Begin a run again that Streamlit began without app.py: the first of a server, beside the one that told it (:mod:`pages.parts`)."""
    if VALUES not in st.session_state:
        st.rerun()


def _went_back() -> bool:
    """Whether the browser's Back or Forward caused this run."""
    context = get_script_run_ctx()
    return bool(getattr(context, "is_history_navigation", False))


def current() -> dict[str, Any]:
    """The values with what the controls drawn so far in this run made of them."""
    _need_app()
    return {name: st.session_state[name] for name in link.FIELDS}


def put(name: str, value: Any) -> None:
    """Set a value before its control is drawn, where what the link says does not fit what is there."""
    if st.session_state[name] != value:
        st.session_state[name] = st.session_state[VALUES][name] = value
