"""The Diffusion Placement Lab: where in a Transformer should one put a step of heat smoothing?

The package is usable on its own: nothing in it imports Streamlit, and nothing here imports torch until a module
that needs it is imported.
"""

__version__ = "0.1.0"
