"""What the server keeps between runs and sessions: the store, and the run that the controls describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from lab.config import RunConfig

if TYPE_CHECKING:
    from lab.engine import Engine
    from lab.store import Store


@st.cache_resource(show_spinner=False)
def store() -> Store:
    """The one store of this server; safe for all its threads."""
    from lab.store import Store

    return Store()


@st.cache_resource(show_spinner=False)
def engine() -> Engine:
    """This server's client of the engine. What was asked for before a crash goes on from here; nothing else starts it."""
    from lab.engine import Engine

    client = Engine(store())
    client.resume()
    return client


def run_config(values: dict[str, Any], **changes: Any) -> RunConfig:
    """The run that the controls describe, with ``changes`` on top. Raises ConfigError, e.g. for α above 1/2."""
    from lab.tasks.recipes import recipe

    names = ("task", "size", "alpha", "heat_steps", "position", "seed", "steps", "permuted", "matched")
    return recipe(**{**{name: values[name] for name in names}, **changes})
