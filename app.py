"""The Diffusion Placement Lab: ``streamlit run app.py``. Declares the pages and what they share; each page is a file."""

import streamlit as st

from pages.parts import resources, shell, state
from pages.parts.shown import told

st.set_page_config("Diffusion Placement Lab", page_icon="pages/parts/icon.svg", layout="wide")

PAGES = [
    st.Page("pages/home.py", title="Home", icon=":material/home:", default=True),
    st.Page("pages/heat.py", title="Heat smoothing", icon=":material/blur_on:", url_path="heat"),
    st.Page("pages/energy.py", title="Energy decay", icon=":material/trending_down:", url_path="energy"),
    st.Page("pages/commutator.py", title="Commutator", icon=":material/swap_horiz:", url_path="commutator"),
    st.Page("pages/accuracy.py", title="Accuracy by position", icon=":material/leaderboard:", url_path="accuracy"),
    st.Page("pages/grid.py", title="Step size and locality", icon=":material/grid_on:", url_path="grid"),
    st.Page("pages/order.py", title="Order and accuracy", icon=":material/scatter_plot:", url_path="order"),
    st.Page("pages/claims.py", title="Claims", icon=":material/gavel:", url_path="claims"),
    st.Page("pages/tasks.py", title="Tasks", icon=":material/dataset:", url_path="tasks"),
    st.Page("pages/engine.py", title="Engine", icon=":material/memory:", url_path="engine"),
]
shell.PAGES.update({page.url_path or "home": page for page in PAGES})
# Hidden, because the links in the sidebar carry the state, which Streamlit's own menu would not.
page = st.navigation(PAGES, position="hidden")

state.restore()
with told():
    shell.sidebar()
state.show_problems()
with told():
    page.run()
resources.go_on()
