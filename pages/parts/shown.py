"""Figures and errors as every page shows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import streamlit as st

from lab.errors import LabError

if TYPE_CHECKING:  # the first page loads no plotting library
    from lab.figures.figure import Figure

_COLOURS = {"theory": "blue", "untrained": "gray", "one seed": "orange", "data": "violet", "your data": "violet"}
_HELP = {
    "theory": "Follows from the formulas alone.",
    "untrained": "A model as it is before training.",
    "one seed": "One random draw; another seed would look different.",
    "data": "The data as it is.",
    "your data": "The file you uploaded; a link cannot carry it.",
}
_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
    "toImageButtonOptions": {"scale": 2},
}


def show(figure: Figure, key: str) -> None:
    """Title, what the figure is based on, the chart with its alt text, and how to read it."""
    badge = f":{_COLOURS.get(figure.basis, 'green')}-badge[{figure.basis}]"
    with st.container(key=f"figure-{key}", gap="xsmall"):
        helpful = _HELP.get(figure.basis, "Several random draws, each shown.")
        st.markdown(f"##### {figure.title} {badge}", help=helpful)
        if type(figure.chart).__module__.startswith("plotly"):
            st.plotly_chart(figure.chart, theme="streamlit", config=_CONFIG, key=f"chart-{key}", alt=figure.alt)
        else:
            st.altair_chart(figure.chart, key=f"chart-{key}", alt=figure.alt)
        st.caption(figure.guide)


@contextmanager
def told() -> Iterator[None]:
    """In place of what could not be made: one sentence that names the field and says what is allowed."""
    try:
        yield
    except LabError as error:
        st.error(str(error), icon=":material/error:")


def heading(title: str, lead: str) -> None:
    """The page's title and one sentence on what one can see here."""
    st.title(title, anchor=False)
    st.markdown(lead)
