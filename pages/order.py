"""Order and accuracy: does it matter for accuracy that heat and attention do not commute?"""

from __future__ import annotations

import math
from typing import get_args

import streamlit as st

from lab.arms import Arm
from lab.figures import order
from lab.positions import Position
from lab.prediction import When
from lab.results import RunResult
from lab.statistics import RankCorrelation
from lab.study import Study
from lab.tasks import get_task
from pages.parts import behind, compared, live, resources, shell, state, studies
from pages.parts.shown import heading, panels, show

heading(
    "Order and accuracy",
    "Heat first or attention first: the two orders differ by `χ = ‖Attn(DX) − D Attn(X)‖ / ‖Attn(X)‖`. Does a position where they "
    "differ more gain less, or more?",
)


def what_there_is(study: Study, results: dict[str, RunResult]) -> None:
    """How many of the study's runs are there, and the way to train the others."""
    if said := live.origin(results):
        st.caption(said)
    total = len(study.configs())
    if len(results) == total:
        return
    if results:
        st.caption(f"{len(results)} of the {total} runs of these settings are there; the figures show those.")
    else:
        st.info(
            "Nothing is trained yet for these settings. Here you will see, for the runs of *Accuracy by position*, whether χ and "
            "accuracy go together, what χ is made of in every layer, and how rough the tokens are through the depth, before and after "
            "training.",
            icon=":material/info:",
        )
    if reason := get_task(study.base.task).unavailable(study.base.size):
        st.caption(reason)
    else:
        words = (
            "Train them on the page Accuracy by position"
            if not results
            else "Train the others on the page Accuracy by position"
        )
        shell.page_link("accuracy", words, ":material/arrow_forward:")


def prediction(study: Study, found: list[Arm], results: dict[str, RunResult], when: When) -> None:
    """χ against accuracy with its verdict, and the runs behind the chosen position."""
    chosen = Position(state.values()["position"])
    left, right = panels([3, 2], least=340)
    rank = compared.correlation_of(found, when)
    with left:
        behind.clickable(order.against_accuracy(found, when, rank), "against-accuracy")
    with right:
        st.markdown(f"**Verdict.** {verdict(rank, when)}")
        st.caption(
            "ρ compares two orders of the positions. Its interval is over seeds: how well ρ of *these* positions is known, not how it "
            "would be for others. Seven are few: were they a random sample, |ρ| below 0.79 could be chance. And it names no cause: heat "
            "before an attention layer smooths what χ is measured on, so it lowers χ whether or not that is why accuracy changes."
        )
        st.caption(behind.CLICKABLE)
        configs = [config for config in study.configs() if config.position is chosen]
        behind.panel(f"Runs: {chosen.label}", configs, results, "order")


def verdict(rank: RankCorrelation, when: When) -> str:
    """What ρ says, nulls as plainly as findings."""
    if rank.low > 0 or rank.high < 0:
        less = "less" if rank.rho < 0 else "more"
        return (
            f"Accuracy {rank.verdict.replace('with it', f'with χ {order.WHEN[when]}')}: positions where heat and attention disagree more "
            f"gain {less}."
        )
    if math.isnan(rank.low):
        return f"Whether χ {order.WHEN[when]} goes with the accuracy change cannot be said: {rank.verdict}."
    return f"χ {order.WHEN[when]} is not shown to explain the accuracy change: {rank.verdict}."


def swaps(found: list[Arm]) -> None:
    """The parts of χ, layer by layer, two layers side by side."""
    layers = range(found[0].config.layers)
    for start in layers[::2]:
        for column, layer in zip(
            panels([1, 1], least=360, name=f"-layers-{start}"), layers[start : start + 2], strict=False
        ):
            with column:
                show(order.parts(found, layer), f"parts-{layer}")


study = studies.by_position(state.current())
results = resources.store().get_many(run.key for run in study.configs())
what_there_is(study, results)
found = compared.arms_of(results.values())
measured = any(result.initial.swap for result in results.values())
if results and not measured:
    st.info(
        "χ is not measured here: the sequences of this task are so long that attention cannot be formed whole, which χ needs. Roughness "
        "through the depth needs no attention, and is shown below.",
        icon=":material/info:",
    )
if measured:
    times: tuple[When, ...] = get_args(When)
    when = st.segmented_control(
        "χ measured", times, format_func=order.WHEN.__getitem__, required=True, **state.bound("chi_when")
    )
    if any(arm.difference for arm in found):
        prediction(study, found, results, when or "initial")
    else:
        st.info("An accuracy change needs a run of the baseline and one of a position at the same seed.")
    st.markdown("#### What χ is made of")
    swaps(found)
if results:
    st.markdown("#### How rough the tokens are")
    for column, time in zip(panels([1, 1], least=360, name="-depth"), get_args(When), strict=True):
        with column:
            show(order.depth(found, time), f"depth-{time}")
