"""Accuracy by position: train the baseline and all seven positions, and see what the differences say."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pandas as pd
import streamlit as st

from lab import arms, link
from lab.arms import Arm
from lab.commands import study_command
from lab.config import RunConfig
from lab.engine.estimate import in_words
from lab.figures import accuracy, learning
from lab.positions import Position
from lab.results import CurvePoint
from lab.study import Study
from lab.tasks import get_task
from lab.tasks.recipes import recipe
from pages.parts import behind, compared, live, resources, shell, state, studies, tables
from pages.parts.shown import heading, panels, plain, show

heading(
    "Accuracy by position",
    "A small Transformer without heat (the baseline) and with the heat layer at each of seven places. **Train** adds what is missing.",
)


def controls() -> Study:
    """The controls of this page, and the study that they and the sidebar describe. Raises ConfigError, e.g. for α > 1/2."""
    zeroth, first, second, third, fourth = panels([1, 1, 1, 1, 1.1], least=120, align="bottom")
    task = get_task(state.values()["task"])
    sizes = list(task.info.sizes)
    if state.values()["size"] not in sizes:
        shell.own_size_and_budget(task.info.name)
    zeroth.selectbox("Size", sizes, **state.bound("size"), help=_SIZE_HELP, on_change=_budget)
    first.number_input(
        "Seeds",
        1,
        link.MAX_SEEDS,
        step=1,
        **state.bound("seeds"),
        help=_SEEDS_HELP,
        disabled=state.values()["until"] > 0,
    )
    second.number_input("Until ± points", 0.0, 50.0, step=0.5, **state.bound("until"), help=_UNTIL_HELP, format="%.1f")
    third.number_input("Training steps", 1, link.MAX_STEPS, step=50, **state.bound("steps"))
    with fourth.popover("The arms", icon=":material/tune:", width="stretch"):
        st.toggle("Permuted control", **state.bound("permuted"), help=_PERMUTED_HELP)
        st.toggle("Matched total α", **state.bound("matched"), help=_MATCHED_HELP)
        st.toggle("Learnable α", **state.bound("learnable"), help=_LEARNABLE_HELP)
        st.selectbox(
            "Neighbours", list(link.STRIDES), format_func=_neighbours, **state.bound("strides"), help=_STRIDES_HELP
        )
    return studies.by_position(state.current())


def _neighbours(strides: str) -> str:
    *most, last = strides.split(",")
    return f"{', '.join(most)}{' and ' if most else ''}{last} apart"


_SIZE_HELP = (
    "mini: seconds a run on one core; small: minutes; full: the Long Range Arena's own size and recipe, for a GPU."
)
_SEEDS_HELP = (
    "Each seed is another random start and order of the data. With two or more, every mean gets its 95 % interval. "
    "More seeds later keep those there are."
)
_UNTIL_HELP = (
    f"0 trains the seeds on the left. Otherwise seeds are added, up to {link.MAX_SEEDS}, until every 95 % interval of a difference to "
    "the baseline is this narrow."
)
_PERMUTED_HELP = (
    "Also train every position with random tokens as neighbours: the same smoothing strength, nothing local."
)
_MATCHED_HELP = "Where the layer acts once per block, divide α by the number of blocks, so that all positions smooth equally in total."
_LEARNABLE_HELP = "α is where training starts from, and is trained with the model; it always stays below 1/2."
_STRIDES_HELP = "Which tokens heat flows between. Several distances share one total α."


def _budget() -> None:
    """Another size: the budget that the task sets itself there."""
    steps = recipe(st.session_state["task"], st.session_state["size"]).steps
    st.session_state["steps"] = min(link.MAX_STEPS, steps)


def more_seeds(study: Study) -> None:
    """The way to more seeds that are here already, where there are any: somebody has trained them, or they come with the lab."""
    first = study.seeds[0]
    larger = replace(study, seeds=tuple(range(first, first + link.MAX_SEEDS)))
    here = live.seeds_here(larger)
    count = next((n for n, seed in enumerate(larger.seeds) if seed not in here), link.MAX_SEEDS)
    if count > len(study.seeds):
        words = f"Show all {count} seeds that are here"
        if st.button(
            words, type="tertiary", icon=":material/unfold_more:", key="more", on_click=_show_seeds, args=(count,)
        ):
            st.rerun()  # the whole page, which writes the link


def _show_seeds(count: int) -> None:
    st.session_state["seeds"] = count


def picture(study: Study, states: live.States, results: live.Results) -> None:
    """Everything there is so far: the figures, the runs behind the chosen position, the learning curves, the tables."""
    more_seeds(study)
    found = compared.arms_of(results.values())
    chosen = Position(state.values()["position"])
    if found:
        left, right = panels([1, 1], least=360)
        with left:
            behind.clickable(accuracy.by_position(found, found[0].results[0].chance, chosen), "by-position")
        with right:
            if any(arm.difference for arm in found):
                behind.clickable(accuracy.difference(found, chosen), "difference")
            else:
                st.info("A difference needs a run of the baseline and one of a position at the same seed.")
        st.caption(behind.CLICKABLE + one_more_seed(found))
        pairs(study, found, chosen, results)
    curves(study, states, found, chosen, results)
    if found:
        in_numbers(study, found, results)


def one_more_seed(found: list[Arm]) -> str:
    """What one seed more would bring and cost, in words; empty while nothing is known."""
    more = arms.one_more_seed(found)
    if more is None:
        return ""
    now = arms.widest(found)
    return (
        f" **One more seed** of every arm would make the widest interval about ± {100 * more[0]:.1f} points"
        f"{f' (now ± {100 * now:.1f})' if now < 1 else ''}, for {in_words(more[1])} of training on one worker."
    )


def pairs(study: Study, found: list[Arm], chosen: Position, results: live.Results) -> None:
    """The chosen position: its pairs, and its runs."""
    real, random = (
        next((arm for arm in found if arm.config.position is chosen and arm.config.permuted is permuted), None)
        for permuted in (False, True)
    )
    left, right = panels([2, 3], least=360, name="-pairs")
    with left:
        if real and real.difference:
            show(accuracy.slopes(real, random), "pairs")
        elif chosen is Position.BASELINE:
            st.info("The baseline is what the others are paired with: choose a position to see its pairs.")
        else:
            st.info("A pair needs a run of the baseline and one of this position at the same seed.")
    with right:
        configs = [config for config in study.configs() if config.position is chosen]
        behind.panel(f"Runs: {chosen.label}", configs, results, "position")


def curves(
    study: Study,
    states: live.States,
    found: list[Arm],
    chosen: Position,
    results: live.Results,
) -> None:
    """More than the end point: the learning curves, also of runs that are still going, and what they say."""
    grown: dict[RunConfig, tuple[CurvePoint, ...]] = {
        run: results[run.key].curve if run.key in results else states[run.key].points for run in study.configs()
    }
    grown = {run: points for run, points in grown.items() if points}
    if not grown:
        return
    st.markdown("#### More than the end point")
    names = {"accuracy": "Held-out accuracy", "loss": "Training loss", "difference": "Difference to the baseline"}
    quantity = st.segmented_control(
        "Learning curves of", list(names), format_func=names.__getitem__, required=True, **state.bound("curve_of")
    )
    if quantity and quantity != state.values()["curve_of"]:
        st.rerun()  # the whole page, which writes the link
    if quantity != "difference":
        show(learning.curves(grown, quantity or "accuracy"), "curves")
    elif any(arm.difference for arm in found):
        show(learning.difference(found, chosen), "curve-difference")
    else:
        st.info("A difference needs a finished run of the baseline and one of a position at the same seed.")
    if any(arm.difference for arm in found):
        percent = st.number_input(
            "Accuracy to reach (%)", 1.0, 100.0, step=5.0, **state.bound("reach_accuracy"), format="%.0f", width=200
        )
        if percent != state.values()["reach_accuracy"]:
            st.rerun()
        tables.learning_curves(found, percent / 100)


def in_numbers(study: Study, found: list[Arm], results: live.Results) -> None:
    """What the figures say, in numbers: by position, and every run with a download."""
    st.markdown("#### In numbers")
    st.markdown("##### Against the baseline")
    tables.against_the_baseline([arm for arm in found if not arm.config.permuted], "baseline")
    tables.against_random_neighbours(found)
    if permuted := [arm for arm in found if arm.config.permuted]:
        with st.expander("Random neighbours against the baseline"):
            tables.against_the_baseline(permuted, "permuted")
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


def study_itself(study: Study) -> None:
    """The study as one thing: its hash, the link that shows it, the command that makes it."""
    with st.expander("This study: hash, link, command"):
        st.caption(f"The hash of its {len(study.configs())} runs; a change to any of them is another study.")
        st.code(study.key, language=None)
        st.caption("The link shows this page as it is, to anybody who can reach this lab.")
        st.code(behind.full_link("accuracy", state.values()), language=None)
        st.caption(
            "The command trains it without the pages, or goes on with it. More seeds or positions never train again what is there."
        )
        st.code(study_command(study, state.values()["until"]), language="bash")


def nothing_yet(study: Study) -> None:
    """What Train will do, and what will then be seen."""
    runs, seeds = len(study.configs()), len(study.seeds)
    st.info(
        f"Nothing is trained yet for these settings. **Train** starts {runs} runs of {study.base.steps} steps"
        f" ({runs // seeds} for {'the one seed' if seeds == 1 else f'each of {seeds} seeds'}) and draws each as it ends:\n\n"
        "1. the accuracy at every position, one mark a seed;\n"
        "2. how far each position is from the baseline, and whether that could be chance;\n"
        "3. the learning curves, and every number to download.\n\n"
        "The first seed of every position comes first, so that the whole picture is there early. Results are kept: you can leave "
        "this page, and the other pages show these models too.",
        icon=":material/info:",
    )


study = controls()
info = get_task(study.base.task).info
st.caption(f"**{info.title}**: {info.description}", help=f"Source: {info.source}. Licence: {info.licence}.")
live.show(study, partial(picture, study), nothing_yet, state.current()["until"])
study_itself(study)
for notice in resources.store().notices()[-3:]:
    st.caption(f"Store: {plain(notice)}")
