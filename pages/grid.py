"""Step size and locality: every position at every α of a grid, and how much of a gain is left with random neighbours."""

from __future__ import annotations

import math
from functools import partial

import pandas as pd
import streamlit as st

from lab import link, locality
from lab.arms import Arm
from lab.figures import grid
from lab.positions import Position
from lab.study import Study
from lab.tasks import get_task
from pages.parts import behind, compared, live, shell, state, studies
from pages.parts.shown import heading, panels

heading(
    "Step size and locality",
    "How large a heat step helps, at which position? And is it the neighbourhood that helps, or does smoothing random tokens together "
    "do as well?",
)
_ALPHAS = {round(0.05 * i, 2) for i in range(1, 11)} | {0.0625, 0.125, 0.375}


def controls() -> Study:
    """The grid of α, and what this page shares with Accuracy by position. Raises LabError, e.g. for an empty grid."""
    first, second = panels([4, 1], least=150)
    first.multiselect(
        "Step sizes α to compare",
        sorted(_ALPHAS | set(state.values()["grid"])),
        **state.bound("grid"),
        format_func=link.show_number,
        max_selections=link.MAX_ALPHAS,
    )
    second.number_input(
        "Seeds", 1, link.MAX_SEEDS, step=1, **state.bound("seeds"), help="More seeds keep those there are."
    )
    row = st.container(horizontal=True, gap="large")
    row.toggle("Permuted control", **state.bound("permuted"), help="Also train with random tokens as neighbours.")
    row.toggle(
        "Matched total α",
        **state.bound("matched"),
        help="Divide α by the number of blocks where the layer acts in each of them.",
    )
    return studies.by_alpha(state.current())


def cells(study: Study, found: list[Arm], results: live.Results) -> None:
    """The heatmap, and the runs behind the cell that the sidebar names."""
    values = state.values()
    position, alpha = Position(values["position"]), values["alpha"]
    of = st.segmented_control(
        "Compare with", list(grid.OF), format_func=grid.OF.__getitem__, required=True, **state.bound("grid_of")
    )
    if of and of != values["grid_of"]:
        st.rerun()  # the whole page, which writes the link
    left, right = panels([3, 2], least=340)
    with left:
        behind.clickable(grid.heatmap(found, sorted(study.alphas), of or "baseline", (position, alpha)), "grid")
        st.caption("Click a cell, or choose position and α in the sidebar, to see the runs behind it.")
    with right:
        here = [c for c in study.configs() if c.position is position and c.alpha == alpha]
        base = [c for c in study.configs() if c.position is Position.BASELINE]
        title = f"Runs: {position.label}" + (
            "" if position is Position.BASELINE else f", α = {link.show_number(alpha)}"
        )
        behind.panel(title, here + base if here else [], results, "cell")


def neighbourhood(study: Study, found: list[Arm]) -> None:
    """Real against random neighbours at the α of the sidebar."""
    values = state.values()
    position, alpha = Position(values["position"]), values["alpha"]
    st.markdown(f"#### Is it locality? Real and random neighbours at α = {link.show_number(alpha)}")
    here = [arm for arm in found if arm.config.alpha == alpha and arm.difference]
    if alpha > 0.5:
        st.info(
            f"α = {link.show_number(alpha)} is beyond the stable limit of 1/2: nothing is trained there. Choose an α up to 1/2."
        )
    elif alpha not in study.alphas:
        st.info(
            f"α = {link.show_number(alpha)} of the sidebar is not among the α above: add it there, or click a cell."
        )
    elif not here:
        st.info("No position has a run beside its baseline at this α yet.")
    elif not any(arm.local for arm in here):
        st.info(
            "No position has a permuted control at this α yet. **Train**, with *Permuted control* on, makes them: runs with "
            "the same amount of smoothing, but between random tokens."
        )
    else:
        left, right = panels([1, 1], least=360)
        with left:
            behind.clickable(grid.neighbours(here, position), "neighbours")
        with right:
            behind.clickable(grid.locality(here, position), "locality")
        said = locality.in_words(here).items()
        st.markdown(
            "\n".join(f"- **{', '.join(arm.config.position.label for arm in arms)}**: {words}" for words, arms in said)
        )
        st.caption(
            f"A gain or a difference is said to be there where it clears 0 after Holm's correction over all {here[0].looks} cells of this "
            "page; *Accuracy by position* looks at one α alone and corrects for less. What cannot be shown with these seeds may still "
            "be there."
        )
        with st.expander("In numbers"):
            st.table(pd.DataFrame([_row(arm) for arm in here if arm.local]).set_index("position"))


def _row(arm: Arm) -> dict[str, str]:
    assert arm.difference is not None
    assert arm.local is not None
    interval = f"{100 * arm.local.low:+.1f} to {100 * arm.local.high:+.1f}" if not math.isnan(arm.local.low) else "–"
    return {
        "position": arm.config.position.label,
        "real − baseline": f"{100 * arm.difference.mean:+.1f}",
        "real − random": f"{100 * arm.local.mean:+.1f}",
        "95 % interval": interval,
        "n": str(arm.local.n),
        "in words": arm.verdict_local,
    }


def nothing_yet(study: Study) -> None:
    """What Train will do, how long it takes, and what will then be seen."""
    runs, seeds = len(study.configs()), len(study.seeds)
    takes = {"mini": "seconds", "small": "minutes"}.get(study.base.size, "hours")
    st.info(
        f"Nothing is trained yet for these settings. **Train** starts {runs} runs of {study.base.steps} steps ({runs // seeds} for "
        f"{'the one seed' if seeds == 1 else f'each of {seeds} seeds'}); a run of this size takes {takes} on one worker, and the first "
        "one tells how long all will take. You will see:\n\n"
        "1. the difference to the baseline at every position and α, beside the regimes of the heat step: smoothing, ringing, the edge;\n"
        "2. for each position, whether random neighbours do as well, so that the gain is not a matter of locality;\n"
        "3. the runs behind every cell.\n\n"
        "The first seed fills every cell before the second begins. Fewer α make it shorter.",
        icon=":material/info:",
    )


def picture(study: Study, _states: live.States, results: live.Results) -> None:
    """The heatmap, the runs behind a cell, and real against random neighbours, as far as they are known."""
    found = compared.arms_of(results.values())
    if any(arm.difference for arm in found):
        cells(study, found, results)
        neighbourhood(study, found)
    elif results:
        st.info("A difference needs a run of the baseline and one of a position at the same seed.")


study = controls()
st.caption(f"**{get_task(study.base.task).info.title}**, size {study.base.size}, {study.base.steps} steps a run.")
shell.page_link(
    "accuracy", "Size, steps and the other settings of the arms: on Accuracy by position", ":material/tune:"
)
live.show(study, partial(picture, study), nothing_yet)
