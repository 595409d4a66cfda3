"""The choice of what is smoothed, shared by the pages on smoothing and on energy."""

from __future__ import annotations

import statistics
from typing import Any

import streamlit as st

from lab import link, representations
from lab.config import RunConfig
from lab.engine import RunState
from lab.engine.estimate import in_words
from lab.positions import Position
from lab.representations import Representations
from lab.tasks import get_task
from lab.uploads import MAX_BYTES, read_matrix
from pages.parts import resources, shell, state, training
from pages.parts.shown import plain, told


def chosen() -> Representations | None:
    """Draw the controls of a source and return what they choose; None, with a sentence, where there is nothing yet.

    Raises LabError for input that cannot be used.
    """
    values = state.values()
    first, second, third = st.columns([2, 3, 2], vertical_alignment="bottom")
    source = first.selectbox(
        "Smooth", list(link.SOURCES), format_func=link.SOURCES.__getitem__, **state.bound("source")
    )
    if source == "signal":
        second.slider("Noise (standard deviation)", 0.0, 2.0, step=0.05, **state.bound("noise"))
        third.number_input("Tokens", 16, 512, step=16, **state.bound("signal_tokens"))
        values = state.current()
        return representations.of_signal(values["signal_tokens"], values["noise"], values["seed"])
    if source == "upload":
        return _upload(second, third)
    return _of_task(source, second, third, values)


def _of_task(source: str, second: Any, third: Any, values: dict[str, Any]) -> Representations | None:
    if source == "digit":
        typed = str(second.number_input("Held-out digit number", 0, link.MAX_DIGIT, step=1, **state.bound("digit")))
        kinds, task = list(link.WEIGHTS), "digits"
    elif source == "text":
        typed = second.text_input("Text: each byte is a token", **state.bound("text"), max_chars=link.MAX_TEXT)
        kinds, task = ["fresh", "trained"], "text"
    else:
        typed = second.text_input(
            "Expression: MIN, MAX, MED, SM and digits", **state.bound("expression"), max_chars=link.MAX_TEXT
        )
        kinds, task = ["fresh", "trained"], "listops"
    if state.values()["weights"] not in kinds:
        state.put("weights", "fresh")
    weights = third.selectbox("As", kinds, format_func=link.WEIGHTS.__getitem__, **state.bound("weights"))
    if weights == "raw":
        return representations.of_pixels(typed)
    if weights == "fresh" and source == "text":
        return representations.of_text(typed, values["seed"])
    if weights == "fresh":
        config = resources.run_config(values, task=task, position=Position.BASELINE, alpha=0.0)
        return representations.of_embedding(typed, config, _fresh(config), trained=False)
    config = resources.run_config(values, task=task, permuted=False)
    arrays = resources.store().arrays(config.key)
    if arrays is None:
        not_trained(config)
        return None
    return representations.of_embedding(typed, config, arrays, trained=True)


def not_trained(config: RunConfig) -> None:
    """Say that the weights of a run are not there yet, train it on request, and show the page again once they are."""
    what = f"{config.task}, {config.label}, seed {config.seed}, {config.steps} training steps"
    shipped = bool(resources.store().shipped([config.key]))
    st.info(f"No trained run yet for {what}." + (_SHIPPED if shipped else ""))
    if reason := get_task(config.task).unavailable(config.size):
        st.caption(reason)
        return
    busy = _state(config).kind in training.UNDER_WAY

    @st.fragment(run_every=1.0 if busy else None)
    def train() -> None:
        """The button, then how far the run is."""
        run = _state(config)
        if (run.kind in training.UNDER_WAY) != busy:
            st.rerun()
        if busy:
            words = "Waiting for its turn" if run.kind == "queued" else f"Training: step {run.step} of {run.steps}"
            st.progress(run.step / run.steps if run.steps else 0.0, text=words)
        elif run.kind == "failed":
            st.error(plain(run.cause), icon=":material/error:")
        if not busy and st.button(_train_words(config), icon=":material/play_arrow:", key=f"train-{config.key}"):
            with told():
                resources.engine().request([config], label=config.key, weights=True)
                st.rerun()

    train()
    shell.page_link(
        "accuracy",
        "Compare it with the other positions on the page Accuracy by position",
        ":material/arrow_forward:",
        task=config.task,
        size=config.size,
        steps=config.steps,
    )


_SHIPPED = " Its numbers come with the lab, its weights do not: training makes them again."


def _state(config: RunConfig) -> RunState:
    return resources.engine().runs([config.key])[config.key]


def _train_words(config: RunConfig) -> str:
    """What the button says: with the time that runs of this kind have taken, where some are known."""
    arms = [config.with_(position=position, seed=seed) for position in Position for seed in (config.seed, *range(5))]
    known = resources.store().get_many({config.key: None, **{arm.key: None for arm in arms}})
    seconds = f" ({in_words(statistics.median(result.seconds for result in known.values()))})" if known else ""
    return f"Train this run{seconds}"


@st.cache_data(show_spinner="Initialising the model …", max_entries=16)
def _fresh_arrays(key: str, _config: RunConfig) -> dict[str, Any]:  # noqa: ARG001
    arrays = representations.fresh_arrays(_config)
    return {name: arrays[name] for name in ("embedding", "position")}


def _fresh(config: RunConfig) -> dict[str, Any]:
    return _fresh_arrays(config.key, config)


def _upload(second: Any, third: Any) -> Representations | None:
    file = second.file_uploader(
        "CSV or NPY: a row for each token",
        max_upload_size=MAX_BYTES // 2**20,
        key="upload",
        help="Up to 4096 rows (tokens) and 1024 columns (dimensions) of finite numbers.",
    )
    third.caption("The file stays in this session; a link cannot carry it.")
    if file is None:
        st.info("Choose a .csv or .npy file with up to 4096 tokens (rows) and 1024 dimensions (columns).")
        return None
    return representations.of_matrix(_matrix(file.file_id, file.name, file), file.name)


@st.cache_data(show_spinner=False, max_entries=4)
def _matrix(file_id: str, name: str, _file: Any) -> Any:  # noqa: ARG001
    return read_matrix(name, _file.getvalue())
