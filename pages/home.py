"""What the question is, a drawing of the block with its seven places, and the way to the pages."""

import streamlit as st

from lab.figures.block import block_drawing
from lab.positions import Position
from pages.parts import shell, state
from pages.parts.shown import panels

chosen = Position(state.values()["position"])

st.title("Where should a Transformer diffuse?", anchor=False)
st.markdown(
    "A **heat step** D makes each token a little more like its two neighbours. Zhang and Zhou "
    "([arXiv 2510.03272](https://arxiv.org/abs/2510.03272)) report that *where* it is put decides whether it helps: on "
    "average over the Long Range Arena **+4.1** points of accuracy after the embedding, **−2.5** after the attention. "
    "This lab lets you see why that could be, and measure it yourself."
)
with st.container(border=True, key="block"):
    st.markdown(block_drawing(chosen), unsafe_allow_html=True)  # st.html takes no SVG
    if chosen is Position.BASELINE:
        st.markdown("**Baseline**: no heat layer. Choose a position in the sidebar to see where it would sit.")
    st.caption(
        "D is the heat layer, h a token's vector, a the attention's output, LN layer "
        "normalisation, FFN the feed-forward network. The list of seven is this project's reading: "
        "the paper's own could not be read in full. The two numbers above are its authors' report, not results of this lab."
    )

WAYS = {
    "heat": ("Heat smoothing", "Smooth text, digits or your own matrix and watch each frequency fade."),
    "energy": ("Energy decay", "How fast roughness dies, where the limit is, and what trained models keep of it."),
    "commutator": ("Commutator", "Heat first or attention first? See where the order matters."),
    "accuracy": ("Accuracy by position", "Train small Transformers on real data and compare all seven places."),
    "grid": ("Step size and locality", "How large a step helps, where, and do random neighbours help as much?"),
    "order": ("Order and accuracy", "Does it matter for accuracy that heat and attention do not commute?"),
    "claims": ("Claims", "What the paper says and what follows from the formulas, each beside what is measured here."),
    "tasks": ("Tasks", "What the models learn, an example of each, and a task from your own data."),
    "engine": ("Engine", "What trains now, what waits, on which machines."),
}
paths = list(WAYS)
for start in range(0, len(paths), 3):
    for column, path in zip(panels([1, 1, 1], least=200, name=f"-{start}"), paths[start : start + 3], strict=True):
        title, words = WAYS[path]
        with column.container(border=True, height="stretch"):
            shell.page_link(path, title)
            st.caption(words)
