"""Commutator: does it matter whether heat comes before or after attention, where, and how much?"""

from typing import Any

import streamlit as st

from lab import link
from lab.config import RunConfig
from lab.tasks import get_task
from pages.parts import resources, sources, state
from pages.parts.shown import heading, panels, show

NAMES = {
    "uniform": "Uniform",
    "identity": "Identity",
    "local": "Local Gaussian",
    "shift": "Previous token",
    "permutation": "Random permutation",
    "content": "Content-based",
    "trained": "Of a trained run",
}
# Of a longer example the beginning is taken: the matrices are drawn whole.
MOST_TOKENS = 256


def built_in(kind: str, second: Any, third: Any) -> tuple[Any, str]:
    """A built-in matrix from its controls, and what a figure of it is based on."""
    from lab import heads
    from lab.attention import MATRICES

    second.slider("Tokens", 4, 128, **state.bound("tokens"))
    if kind == "local":
        third.slider("Reach (tokens)", 0.5, 16.0, step=0.5, **state.bound("reach"))
    else:
        third.caption(MATRICES[kind].explanation)
    now = state.current()
    head = heads.built_in(kind, now["tokens"], now["alpha"], width=now["reach"], seed=now["seed"])
    return head, "one seed" if kind in ("permutation", "content") else "theory"


def trained(second: Any, third: Any) -> tuple[Any, str] | None:
    """A head of the trained run that the sidebar describes; None, with a sentence, if it is not trained yet."""
    values = state.values()
    # Above 1/2 nothing is trained: the run at 1/4 is taken apart by an unstable heat step.
    config = resources.run_config(values, alpha=values["alpha"] if values["alpha"] <= 0.5 else 0.25, permuted=False)
    arrays = resources.store().arrays(config.key)
    if arrays is None:
        sources.not_trained(config)
        return None
    from lab import heads

    state.put("layer", min(values["layer"], config.layers))
    state.put("head", min(values["head"], config.heads))
    second.number_input("Held-out example", 0, link.MAX_DIGIT, step=1, **state.bound("example"))
    one, other = third.columns(2)
    one.number_input("Layer", 1, config.layers, step=1, **state.bound("layer"))
    other.number_input("Head", 1, config.heads, step=1, **state.bound("head"))
    now = state.current()
    test = get_task(config.task).load(config.size).test
    row = min(now["example"], len(test) - 1)
    tokens, length = test.tokens[row], test.lengths[row]
    pair = tokens.ndim == 2
    if pair:
        tokens, length = tokens[0], length[0]
    for words in _substitutions(now, config, row, int(length), pair):
        st.caption(words)
    tokens = tokens[: min(length, MOST_TOKENS)]
    head = heads.of_run(config, arrays, tokens, now["alpha"], layer=now["layer"] - 1, head=now["head"] - 1)
    return head, "one seed"


def _substitutions(now: dict[str, Any], config: RunConfig, row: int, length: int, pair: bool) -> list[str]:
    """What is shown in place of what the controls ask for, a sentence each."""
    words = []
    if now["alpha"] > 0.5:
        words.append(
            f"Nothing is trained above α = 1/2: the run is the one at α = {config.alpha:g}, the heat step that of the slider."
        )
    if row != now["example"]:
        words.append(f"There are {row + 1} held-out examples; the last one is shown.")
    if pair:
        words.append("Of the pair of documents, the first.")
    if length > MOST_TOKENS:
        words.append(f"The model reads the first {MOST_TOKENS} of the example's {length} tokens here.")
    return words


heading(
    "Commutator",
    "Heat D mixes neighbours, attention P mixes whatever it looks at. Does it matter which comes first? "
    "Where `[D, P] = DP − PD` is zero, it does not.",
)
first, second, third = st.columns([2, 2, 3], vertical_alignment="bottom")
kind = first.selectbox("Attention", list(NAMES), format_func=NAMES.__getitem__, **state.bound("attention"))
made = trained(second, third) if kind == "trained" else built_in(kind, second, third)
if made is not None:
    from lab import heads
    from lab.figures import commutator

    head, basis = made
    alpha = state.values()["alpha"]
    found = heads.disagreement(head, alpha)
    left, middle, right = panels([3, 3, 4], least=270)
    with left:
        show(commutator.attention(found.attention, NAMES[kind], basis), "attention")
    with middle:
        show(commutator.bracket(found, alpha, NAMES[kind], basis), "bracket")
    with right:
        show(commutator.norms(found, alpha, basis), "norms")
        # The values that attention passes on are random, so the swap is one draw; only where all is zero is it theory.
        show(commutator.swap(found, basis if kind in ("uniform", "identity") else "one seed"), "swap")
