"""Figures and errors as every page shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Literal

import streamlit as st

from lab.errors import LabError

if TYPE_CHECKING:  # the first page loads no plotting library
    from streamlit.delta_generator import DeltaGenerator

    from lab.figures.figure import Figure

_COLOURS = {"theory": "blue", "untrained": "gray", "one seed": "orange", "data": "violet", "your data": "violet"}
_HELP = {
    "theory": "Follows from the formulas alone.",
    "untrained": "A model as it is before training.",
    "one seed": "One random draw; another seed would look different.",
    "data": "The data as it is.",
    "your data": "The file you uploaded; a link cannot carry it.",
}
_UNSEEN = "position:absolute;width:1px;height:1px;margin:0;overflow:hidden;clip-path:inset(50%);white-space:nowrap"
"""For those who listen to the page."""

_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
    "toImageButtonOptions": {"scale": 2},
}


def show(figure: Figure, key: str, on_select: Callable[[], None] | None = None) -> None:
    """Title, what the figure is based on, the chart with its alt text, and how to read it.

    ``on_select`` is called when something is selected in an Altair chart.
    """
    badge = f":{_COLOURS.get(figure.basis, 'green')}-badge[{figure.basis}]"
    with st.container(key=f"figure-{key}", gap="xsmall"):
        helpful = _HELP.get(figure.basis, "Several random draws, each shown.")
        st.markdown(f"##### {figure.title} {badge}", help=helpful)
        if type(figure.chart).__module__.startswith("plotly"):
            st.plotly_chart(figure.chart, theme="streamlit", config=_CONFIG, key=f"chart-{key}", alt=figure.alt)
        else:
            # Another alt makes this chart anew, as other numbers do not: what changes with them is told beside it.
            draw = st.vega_lite_chart if isinstance(figure.chart, dict) else st.altair_chart
            draw(
                figure.chart,
                width="stretch",
                key=f"chart-{key}",
                alt=f"{figure.title}; described in the text that follows.",
                on_select=on_select or "ignore",
            )
            st.html(f'<p style="{_UNSEEN}">{escape(figure.alt)}</p>')
        st.caption(figure.guide)


def panels(
    widths: Sequence[float], least: int = 320, align: Literal["top", "center", "bottom"] = "top", name: str = ""
) -> Sequence[DeltaGenerator]:
    """Columns for figures, side by side where each has ``least`` pixels and below one another where it has not.

    ``name`` tells apart those of one page that have the same ``least``.
    """
    key = f"panels-{least}{name}"
    narrow = f".st-key-{key} [data-testid=stColumn]{{min-width:min(100%,{least}px)}}"
    st.html(f"<style>.st-key-{key} [data-testid=stHorizontalBlock]{{flex-wrap:wrap}}{narrow}</style>")
    with st.container(key=key):
        return st.columns(widths, gap="medium", vertical_alignment=align)


def plain(text: str) -> str:
    """Text from a link, a file or an error, so that Markdown shows it as it is: no image, link, colour or formula comes of it."""
    return re.sub(r"([\\\\`*_\[\]{}()<>#!$:~|&])", r"\\\1", text)


@contextmanager
def told() -> Iterator[None]:
    """In place of what could not be made: one sentence that names the field and says what is allowed."""
    try:
        yield
    except LabError as error:
        st.error(plain(str(error)), icon=":material/error:")


def heading(title: str, lead: str) -> None:
    """The page's title and one sentence on what one can see here."""
    st.title(title, anchor=False)
    st.markdown(lead)
