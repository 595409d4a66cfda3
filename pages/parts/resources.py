"""What the server keeps between runs and sessions: the store, and the run that the controls describe."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import streamlit as st

from lab import link
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
    """This server's client of the engine. Having one starts nothing; :func:`go_on` and asking for runs do."""
    from lab.engine import Engine

    return Engine(store())


@st.cache_resource(show_spinner=False)
def go_on() -> None:
    """Once a server, beside the first page: let what was asked for before a crash go on."""

    def look() -> None:
        from lab.engine import Engine
        from lab.errors import LabError
        from lab.store import Store

        with contextlib.suppress(LabError, OSError):  # a page that needs the engine says what is wrong with it
            Engine(Store()).resume()

    threading.Thread(target=look, name="go on", daemon=True).start()


@st.cache_resource(show_spinner=False)
def shipped_tasks() -> frozenset[str]:
    """The tasks of the study that comes with the lab; none where it does not."""
    from lab.starter_study import studies
    from lab.store.starter import Starter, starter_path

    there = Starter(starter_path()).manifest is not None
    return frozenset(study.base.task for study in studies()) if there else frozenset()


def run_config(values: dict[str, Any], task: str | None = None, **changes: Any) -> RunConfig:
    """The run that the controls describe, with ``changes`` on top. Raises ConfigError, e.g. for α above 1/2.

    Of another ``task`` than the sidebar's it is the run that task recommends: its size and budget are not the sidebar's.
    """
    from lab.tasks.recipes import recipe

    asked = {
        name: values[name] for name in ("alpha", "heat_steps", "position", "seed", "permuted", "matched", "learnable")
    }
    asked["strides"] = link.STRIDES[values["strides"]]
    if task is None or task == values["task"]:
        asked |= {name: values[name] for name in ("task", "size", "steps")}
    else:
        asked["task"] = task
    return recipe(**{**asked, **changes})
