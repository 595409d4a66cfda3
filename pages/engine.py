"""Engine: what trains now and where, whose turn is next, how long it takes, and what failed."""

from __future__ import annotations

import streamlit as st

from pages.parts import queue, resources, shell
from pages.parts.shown import heading, told

heading(
    "Engine",
    "One engine trains what everyone who uses this lab asks for: each run once, the studies in turn, a run of each at a time.",
)
is_open = bool(resources.engine().overview().requests)


@st.fragment(run_every=1.0 if is_open else None)
def live() -> None:
    """Everything, because all of it changes. The fragment looks again every second while something is open."""
    status, seen = resources.engine().status(), resources.engine().overview()
    if bool(seen.requests) != is_open:
        st.rerun()
    with told():
        queue.state(status, seen)
    if status.workers:
        queue.workers(status, seen)
    if seen.requests:
        st.markdown("##### Asked for")
        for one in seen.requests[: queue.MOST_REQUESTS]:
            queue.request(one)
        if len(seen.requests) > queue.MOST_REQUESTS:
            st.caption(f"and {len(seen.requests) - queue.MOST_REQUESTS} more requests")
        queue.following(seen)
    else:
        st.info(
            "Nothing is open. What you **Train** stands here with everything that others have asked for: who comes next, what each worker "
            "does, how long it takes, and a button to stop it. You can leave and close the browser: it goes on.",
            icon=":material/info:",
        )
        shell.page_link("accuracy", "Train on the page Accuracy by position", ":material/arrow_forward:")
    if seen.failures:
        queue.failures(seen)


live()
