"""Energy decay: how fast roughness along the sequence dies, and what trained models keep of it."""

import numpy as np
import streamlit as st

from lab import link
from lab.errors import LabError
from lab.figures import energy
from lab.positions import Position
from pages.parts import resources, sources, state
from pages.parts.shown import heading, panels, show, told

heading(
    "Energy decay",
    "The Dirichlet energy `½ Σ ‖x[i+1] − x[i]‖²` measures roughness along the sequence. Heat lowers it while α ≤ 1/2.",
)
given = None
with told():
    given = sources.chosen()
first, second = st.columns([3, 2], vertical_alignment="bottom")
grid = {float(a) for a in np.round(np.arange(0.05, link.ALPHA_MAX + 1e-9, 0.05), 2)} | {0.01}
first.multiselect(
    "Step sizes α to compare",
    sorted(grid | set(state.values()["alphas"])),
    **state.bound("alphas"),
    format_func=link.show_number,
    max_selections=link.MAX_ALPHAS,
)
second.slider("Steps", 5, 200, **state.bound("decay_steps"))
values = state.current()

left, right = panels([1, 1])
with left, told():
    if not values["alphas"]:
        raise LabError("No α is chosen; choose one to six of them above.", "alphas")
    if given is not None:
        show(energy.decay(given, sorted(values["alphas"]), values["decay_steps"]), "decay")
with right, told():
    configs = {p: resources.run_config(values, position=p, permuted=False) for p in Position}
    found = resources.store().get_many(config.key for config in configs.values())
    results = {p: found[config.key] for p, config in configs.items() if config.key in found}
    if results:
        show(energy.depth(results), "depth")
    else:
        st.markdown("##### Energy through the depth of trained models")
        sources.not_trained(configs[Position.BASELINE])
