"""The runs behind a mark: choosing it by a click, what was run, and how to run it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from lab import link
from lab.commands import run_command
from lab.config import RunConfig
from lab.positions import Position
from lab.results import RunResult
from pages.parts import resources, shell, state
from pages.parts.shown import show

if TYPE_CHECKING:  # a page that draws nothing loads no plotting library
    from lab.figures.figure import Figure

CLICKABLE = "Click a mark, or choose the position in the sidebar, to see the runs behind it."


def clickable(figure: Figure, key: str) -> None:
    """Show a figure in which a click on a mark chooses its position, and its α if it has one, as the sidebar does.

    In a fragment call :func:`follow` first, so that the rest of the page hears of it.
    """
    if f"chart-{key}" not in st.session_state:  # a new chart: nothing has been clicked in it
        st.session_state.pop(f"clicked-{key}", None)
    show(figure, key, on_select=lambda: _choose(key))


def follow() -> None:
    """Run the whole page again if a click in this fragment has changed what the sidebar shows."""
    values = state.values()
    if any(st.session_state[name] != values[name] for name in ("position", "alpha")):
        st.rerun()


def _choose(key: str) -> None:
    """Make the mark that was just clicked the one the sidebar names.

    The chart keeps every mark clicked so far and drops one that is clicked again: so each click is a change, also that on a mark one
    has come back from by way of the sidebar.
    """
    points = [
        point for marks in st.session_state[f"chart-{key}"]["selection"].values() for point in marks if _known(point)
    ]
    before = st.session_state.get(f"clicked-{key}", [])
    changed = [point for point in points if point not in before] or [point for point in before if point not in points]
    st.session_state[f"clicked-{key}"] = points
    if changed:
        point = changed[-1]
        st.session_state["position"] = _positions()[point["position"]].value
        if "alpha" in point:
            st.session_state["alpha"] = float(point["alpha"])


def _known(point: Any) -> bool:
    """Whether a selection names a position; a click on a line that is none does not."""
    return isinstance(point, dict) and point.get("position") in _positions()


def _positions() -> dict[str, Position]:
    return {position.label: position for position in Position}


def panel(title: str, configs: Sequence[RunConfig], results: Mapping[str, RunResult], key: str) -> None:
    """What was run for a mark, and for one of its runs the link, the command and the JSON that make it again.

    ``results`` holds by key what there is of ``configs``; ``key`` sets this panel's controls apart from those of others.
    """
    with st.container(border=True, key=f"behind-{key}"):
        st.markdown(f"##### {title}")
        there = [config for config in configs if config.key in results]
        if not there:
            st.caption(f"None of its {len(configs)} runs is trained yet." if configs else "There are no such runs.")
            return
        shipped = resources.store().shipped(config.key for config in there)
        rows = [_row(results[config.key], config.key in shipped) for config in there]
        st.dataframe(
            pd.DataFrame(rows),
            hide_index=True,
            height=min(38 + 35 * len(rows), 248),
            column_config={
                name: st.column_config.NumberColumn(width=width, format="%.1f")
                if name in ("accuracy (%)", "seconds")
                else st.column_config.Column(width=width)
                for name, width in _WIDTHS.items()
            },
            key=f"behind-{key}-runs",
            alt=f"{title}: {len(rows)} runs with their seeds and accuracies.",
        )
        missing = len(configs) - len(there)
        st.caption(f"{len(there)} runs" + (f", {missing} more not trained yet" if missing else ""))
        _reproduce(there, results, key)


def _row(result: RunResult, shipped: bool) -> dict[str, Any]:
    config, on = result.config, result.provenance
    return {
        "seed": config.seed,
        "arm": _arm(config),
        "accuracy (%)": 100 * result.accuracy,
        "seconds": result.seconds,
        "device": on.get("device", "unknown"),
        "from": "comes with the lab" if shipped else "trained here",
    }


def _arm(config: RunConfig) -> str:
    """What sets the runs of one mark apart; its position and α are in the panel's title."""
    if config.position is Position.BASELINE:
        return "baseline"
    return "random neighbours" if config.permuted else "real neighbours"


_WIDTHS = {"seed": 50, "arm": 140, "accuracy (%)": 95, "seconds": 70, "device": 60, "from": 135}


def _reproduce(there: Sequence[RunConfig], results: Mapping[str, RunResult], key: str) -> None:
    """One run, in the four forms that make it again."""
    by_key = {config.key: config for config in there}
    name = f"behind-{key}-run"
    if st.session_state.get(name) not in by_key:
        st.session_state[name] = there[0].key  # another mark than before
    chosen = st.selectbox(
        "Reproduce this run", list(by_key), format_func=lambda k: f"{by_key[k].label}, seed {by_key[k].seed}", key=name
    )
    config = by_key[chosen]
    as_link, as_command, as_json = st.tabs(["Link", "Command", "JSON"])
    with as_link:
        st.code(full_link("accuracy", link.of_run(config)), language=None)
        if not link.carries(config):
            st.caption(
                "The link leaves out what the pages have no control for, such as a width of this run's own: the command has it all."
            )
    with as_command:
        st.code(run_command(config), language="bash")
        st.caption("It trains the run, or reads it from the cache; on the same kind of machine to the same bits.")
    with as_json:
        st.code(config.json, language="json", wrap_lines=True)
        st.caption(f"The run's key, `{config.key}`, is the hash of this text.")
        st.download_button(
            "Download the result as JSON",
            results[config.key].to_json().encode(),
            file_name=f"{config.task}-{config.key}.json",
            mime="application/json",
            icon=":material/download:",
            key=f"behind-{key}-json",
            on_click="ignore",
        )


def full_link(page: str, values: Mapping[str, Any]) -> str:
    """The whole address of a page that shows ``values``, as one would send it to somebody."""
    from urllib.parse import urlencode

    here = (st.context.url or "").rstrip("/")
    base, _, last = here.rpartition("/")
    return f"{base if last in shell.PAGES else here}/{page}?{urlencode(link.write(values))}"
