"""Claims: what the paper says and what the theory says, each with its test, its numbers and a verdict."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from lab import claims
from lab.claims import Claim, Verdict
from lab.config import RunConfig
from lab.errors import LabError
from lab.tasks import get_task
from pages.parts import resources, shell, sources, state
from pages.parts.claim_cards import card
from pages.parts.shown import heading, panels, plain

if TYPE_CHECKING:  # torch is loaded where theorems are tested
    from lab.heads import Head
    from lab.theorems import Theorem

# Of a longer example the beginning is taken, as on the page Commutator.
MOST_TOKENS = 256
SHOWN: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("heat", "Every mode by its factor, α = 1/4", {"alpha": 0.25, "source": "signal"}),
    ("heat", "Growth above 1/2", {"alpha": 0.55, "heat_steps": 20, "source": "signal"}),
    ("energy", "The energy's fall at four α", {"alpha": 0.25, "alphas": [0.05, 0.25, 0.45, 0.55]}),
    ("commutator", "A permutation, farthest from commuting", {"attention": "permutation"}),
    ("commutator", "Uniform attention, which commutes", {"attention": "uniform"}),
)
"""Where the pages show what the theorems say."""


@st.cache_data(max_entries=4, show_spinner="Comparing the runs …")
def judged(runs: tuple[tuple[str, float], ...]) -> list[Claim]:
    """The claims put to these runs, given as their keys with their accuracy, which say whether anything is new."""
    return claims.claims(resources.store().get_many([key for key, _ in runs]))


@st.cache_data(max_entries=16, show_spinner="Testing the theorems …")
def tested(key: str, _config: RunConfig | None) -> list[Theorem]:
    """The theorems tested on this machine; ``key`` is that of the trained run that takes part, empty without one."""
    from lab.theorems import theorems

    return theorems(trained_head(_config) if key and _config else None)


def sidebar_run() -> RunConfig | None:
    """The run that the sidebar describes, at an α that can be trained; None where there is none, e.g. a learned α that starts at 1/2."""
    values = state.values()
    alpha = values["alpha"] if values["alpha"] <= 0.5 else 0.25
    with contextlib.suppress(LabError):
        return resources.run_config(values, alpha=alpha, permuted=False)
    return None


def trained_head(config: RunConfig) -> Head | None:
    """The first head of a trained run on the first held-out example; None where its weights are not here."""
    arrays = resources.store().arrays(config.key)
    if arrays is None:
        return None
    from lab import heads
    from lab.theorems import ALPHA

    test = get_task(config.task).load(config.size).test
    tokens, length = test.tokens[0], test.lengths[0]
    if tokens.ndim == 2:  # of a pair of documents the first
        tokens, length = tokens[0], length[0]
    return heads.of_run(config, arrays, tokens[: min(int(length), MOST_TOKENS)], ALPHA, layer=0, head=0)


def theory() -> None:
    """The theorems in a table, and the way to a trained model where none takes part."""
    config = sidebar_run()
    trained = config is not None and resources.store().arrays(config.key) is not None
    found = tested(config.key if config and trained else "", config)
    holding = sum(theorem.holds for theorem in found)
    st.caption(
        f"{holding} of {len(found)} hold. Tested on this machine in float64: on random inputs, on inputs built to be worst (alternating "
        "signs, the highest cosine mode, spikes, blocks, permutations, a search by gradient ascent), and on a head of a trained model "
        "where there is one. A ratio of 1 means that the bound is attained; an equality should be off by rounding alone, some 1e-14."
    )
    st.table(pd.DataFrame([_row(theorem) for theorem in found]).set_index("theorem"))
    st.markdown("See for yourself:")
    with st.container(horizontal=True):
        for path, label, fields in SHOWN:
            shell.page_link(path, label, ":material/arrow_forward:", **fields)
    if config is None:
        st.caption("No trained model took part: the sidebar describes no run that can be trained.")
    elif trained:
        st.caption(f"The trained model: {config.task}, {config.label}, seed {config.seed}; layer 1, head 1.")
    else:
        st.markdown("No trained model took part: there is none here yet for what the sidebar describes.")
        sources.not_trained(config)


def _row(theorem: Theorem) -> dict[str, str]:
    return {
        "theorem": plain(theorem.statement),
        "worst found": (f"{theorem.worst:.6g}" if abs(theorem.worst) > 0.01 else f"{theorem.worst:.1e}").replace(
            "-", "−"
        ),
        "measure: its bound": plain(f"{theorem.measure}: {theorem.bound}"),
        "found on": plain(theorem.on),
        "verdict": Verdict.HOLDS if theorem.holds else Verdict.FAILS,
    }


def ends() -> None:
    """What the theory says nothing about."""
    from lab.theorems import limits

    st.markdown(
        "The theorems are about D, and about D with a fixed P. A Transformer has more; each number is of one random input."
    )
    lines = [f"- **{one.part}.** {one.breaks} ({plain(one.measure)}: **{one.value:.2f}**)" for one in limits()]
    st.markdown("\n".join(lines))


heading(
    "Claims",
    "What has been claimed about where heat should go, and what can be proved: how each is tested here, the number, and the verdict.",
)
st.caption(f"**The rule.** {claims.RULE}")
shell.page_link("tasks", "Which tasks are the Long Range Arena's own, and how to get them", ":material/dataset:")
runs = resources.store().get_many(claims.keys())
found = judged(tuple((key, run.accuracy) for key, run in runs.items()))
st.subheader("Measured", anchor=False)
for column, claim in zip(panels([1] * len(found), least=380), found, strict=True):
    with column.container(border=True, height="stretch", key=f"claim-{claim.name}"):
        card(claim)
st.subheader("Proved", anchor=False)
theory()
st.subheader("Where the theory ends", anchor=False)
ends()
