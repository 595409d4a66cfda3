"""Accuracy by position: train the baseline and all seven positions, and see what the differences say."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from lab import link
from lab.arms import Arm, arms
from lab.config import RunConfig
from lab.engine import RunState
from lab.figures import accuracy
from lab.positions import Position
from lab.results import CurvePoint, RunResult
from lab.study import Study
from lab.tasks import TaskError, get_task
from lab.tasks.recipes import recipe
from pages.parts import resources, shell, state, training
from pages.parts.shown import heading, panels, plain, show

heading(
    "Accuracy by position",
    "Press **Train**: the same small Transformer is trained without heat (the baseline) and with the heat layer at each of its "
    "seven places, then compared on examples it has never seen.",
)


def controls() -> Study:
    """The controls of this page, and the study that they and the sidebar describe. Raises ConfigError, e.g. for α > 1/2."""
    zeroth, first, second, third, fourth = panels([1, 1, 1.1, 1.3, 1.3], least=150, align="bottom")
    task = get_task(state.values()["task"])
    sizes = list(task.info.sizes)
    if state.values()["size"] not in sizes:
        shell.own_size_and_budget(task.info.name)
    zeroth.selectbox("Size", sizes, **state.bound("size"), help=_SIZE_HELP, on_change=_budget)
    first.number_input(
        "Seeds",
        1,
        20,
        step=1,
        **state.bound("seeds"),
        help="Each seed is another random start and order of the data. With two or more, every mean gets its 95 % interval.",
    )
    second.number_input("Training steps", 1, link.MAX_STEPS, step=50, **state.bound("steps"))
    third.toggle(
        "Permuted control",
        **state.bound("permuted"),
        help="Also train every position with random tokens as neighbours: the same smoothing strength, nothing local.",
    )
    fourth.toggle(
        "Matched total α",
        **state.bound("matched"),
        help="Where the layer acts once per block, divide α by the number of blocks, so that all positions smooth equally in total.",
    )
    values = state.current()
    base = resources.run_config(values, position=Position.AFTER_EMBEDDING)
    seeds = tuple(range(values["seed"], values["seed"] + values["seeds"]))
    return Study(base, tuple(Position), (values["alpha"],), seeds, values["permuted"], values["matched"])


_STOP_HELP = "Runs that wait are dropped, those that train end at their next step. What is done is kept; what another study wants goes on."
_SIZE_HELP = (
    "mini: seconds a run on one core; small: minutes; full: the Long Range Arena's own size and recipe, for a GPU."
)


def _budget() -> None:
    """Another size: the budget that the task sets itself there."""
    steps = recipe(st.session_state["task"], st.session_state["size"]).steps
    st.session_state["steps"] = min(link.MAX_STEPS, steps)


def buttons(study: Study, states: dict[str, RunState]) -> None:
    """Train and Stop."""
    under_way = any(run.kind in training.UNDER_WAY for run in states.values())
    missing = sum(run.kind not in ("done", *training.UNDER_WAY) for run in states.values())
    row = st.container(horizontal=True)
    words = f"Train {missing} runs" if missing else "All runs trained" if not under_way else "Training …"
    if row.button(words, type="primary", disabled=not missing, icon=":material/play_arrow:", key="train"):
        training.ask(study)
        st.rerun()
    # After a reload nobody knows whose a request was; whoever presses then should know that others may be waiting.
    whose = "Stop" if not under_way or training.mine(study) else "Stop for everyone"
    if under_way and row.button(whose, icon=":material/stop:", key="stop", help=_STOP_HELP):
        training.stop(study)
        st.rerun()


def picture(study: Study, states: dict[str, RunState], results: dict[str, RunResult]) -> None:
    """The two figures, the learning curves and the tables, of what there is so far."""
    found = arms(results.values())
    if found:
        left, right = panels([1, 1], least=360)
        with left:
            show(accuracy.by_position(found, found[0].results[0].chance), "by-position")
        with right:
            if any(arm.difference for arm in found):
                show(accuracy.difference(found), "difference")
            else:
                st.info("A difference needs a run of the baseline and one of a position at the same seed.")
    grown: dict[RunConfig, tuple[CurvePoint, ...]] = {
        run: results[run.key].curve if run.key in results else states[run.key].points for run in study.configs()
    }
    grown = {run: points for run, points in grown.items() if points}
    if grown:
        names = {"accuracy": "Held-out accuracy", "loss": "Training loss"}
        quantity = st.segmented_control(
            "Learning curves of", list(names), format_func=names.__getitem__, required=True, **state.bound("curve_of")
        )
        if quantity and quantity != state.values()["curve_of"]:
            st.rerun()  # the whole page, which writes the link
        show(accuracy.curves(grown, quantity or "accuracy"), "curves")
    if found:
        tables(study, found, results)


def tables(study: Study, found: list[Arm], results: dict[str, RunResult]) -> None:
    """What the figures say, in numbers: by position, and every run with a download."""
    st.markdown("##### In numbers")
    st.table(pd.DataFrame([_row(arm) for arm in found]).set_index("position"))
    rows = pd.DataFrame([results[run.key].row() for run in study.configs() if run.key in results])
    with st.expander(f"Every run ({len(rows)})"):
        st.dataframe(rows, hide_index=True, key="runs", height=260)
    st.download_button(
        "Download every run as CSV",
        rows.to_csv(index=False).encode(),
        file_name=f"{study.base.task}-{study.key[:8]}.csv",
        mime="text/csv",
        icon=":material/download:",
        key="csv",
        on_click="ignore",
    )


def _row(arm: Arm) -> dict[str, str]:
    paired = arm.difference
    interval = f"{100 * paired.low:+.1f} to {100 * paired.high:+.1f}" if paired and paired.n > 1 else "–"
    return {
        "position": arm.config.position.label + (" (permuted)" if arm.config.permuted else ""),
        "seeds": str(len(arm.results)),
        "mean accuracy": f"{arm.mean:.1%}",
        "difference (points)": f"{100 * paired.mean:+.1f}" if paired else "–",
        "95 % interval (points)": interval,
        "in words": paired.verdict if paired else "what the others are compared with",
    }


study = controls()
info = get_task(study.base.task).info
if reason := get_task(study.base.task).unavailable(study.base.size):
    raise TaskError(reason, "task")
st.caption(f"**{info.title}**: {info.description}", help=f"Source: {info.source}. Licence: {info.licence}.")
keys = [run.key for run in study.configs()]
busy = any(run.kind in training.UNDER_WAY for run in resources.engine().runs(keys).values())


@st.fragment(run_every=1.0 if busy else None)
def live() -> None:
    """All that changes while a study trains. The fragment asks again every second, and only then."""
    states = resources.engine().runs(keys)
    results = resources.store().get_many(keys)
    still = any(run.kind in training.UNDER_WAY for run in states.values())
    if still != busy:
        st.rerun()
    buttons(study, states)
    if still:
        training.progress(study, states, results)
    training.failures(study, states)
    if not results and not still:
        seeds = len(study.seeds)
        st.info(
            f"Nothing is trained yet for these settings. **Train** starts {len(keys)} runs of {study.base.steps} steps"
            f" ({len(keys) // seeds} for {'the one seed' if seeds == 1 else f'each of {seeds} seeds'}) and draws each as it ends:\n\n"
            "1. the accuracy at every position, one mark a seed;\n"
            "2. how far each position is from the baseline, and whether that could be chance;\n"
            "3. the learning curves, and every number to download.\n\n"
            "The first seed of every position comes first, so that the whole picture is there early. Results are kept: you can leave "
            "this page, and the other pages show these models too.",
            icon=":material/info:",
        )
    picture(study, states, results)


live()
for notice in resources.store().notices()[-3:]:
    st.caption(f"Store: {plain(notice)}")
