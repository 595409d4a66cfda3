"""What the server keeps between runs and sessions: the store, and the run that the controls describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from lab.config import RunConfig

if TYPE_CHECKING:
    from lab.store import Store


@st.cache_resource(show_spinner=False)
def store() -> Store:
    """The one store of this server; safe for all its threads."""
    from lab.store import Store

    return Store()


def run_config(values: dict[str, Any], **changes: Any) -> RunConfig:
    """The run that the controls describe, with ``changes`` on top. Raises ConfigError, e.g. for α above 1/2."""
    from lab.tasks.recipes import recipe

    names = ("task", "alpha", "heat_steps", "position", "seed", "steps", "permuted", "matched")
    return recipe(**{**{name: values[name] for name in names}, **changes})
