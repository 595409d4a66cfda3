"""The yardstick of ``benchmarks/page_speed.py``: a slider and one Plotly figure of 256 tokens, nothing else."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

TOKENS, DIM = 256, 32

alpha = st.slider("α", 0.0, 0.6, 0.25, step=0.01, key="alpha")
x = np.random.default_rng(0).standard_normal((TOKENS, DIM))
edges = np.diff(x, axis=0)
x[:-1] += alpha * edges
x[1:] -= alpha * edges
st.plotly_chart(go.Figure(go.Heatmap(z=x.T), layout={"height": 450}))
