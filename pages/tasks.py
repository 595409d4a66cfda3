"""Tasks: what the models are trained on, an example of it, and the reader's own data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from lab.tasks import Task, TaskData, available, get_task
from pages.parts import own_data, shell, state
from pages.parts.shown import heading, panels, told

EXAMPLES = 3
MOST_SHOWN = 400

heading(
    "Tasks",
    "Each task is labelled sequences with a fixed split. The task in the sidebar is the one every page trains on.",
)


@st.cache_data(show_spinner="Loading the task …", max_entries=4)
def facts(name: str, size: str) -> tuple[str, list[tuple[str, str]], np.ndarray | None]:
    """The numbers of a task, a few held-out examples with their labels, and a sheet of pictures where it has them."""
    task = get_task(name)
    data = task.load(size)
    return (
        _numbers(data),
        [_example(task, data, i) for i in range(min(EXAMPLES, len(data.test)))],
        task.picture(data.test),
    )


def _numbers(data: TaskData) -> str:
    lengths = np.concatenate([data.train.lengths.ravel(), data.test.lengths.ravel()])
    spread = f"{lengths.min():,} to {lengths.max():,}" if lengths.min() < lengths.max() else f"{lengths.max():,}"
    tokens = f"{spread} tokens{' in each of two documents' if data.towers == 2 else ''}"
    values = f"{data.vocabulary} token values" if data.vocabulary else "tokens are real numbers"
    return (
        f"**{len(data.train):,}** training and **{len(data.test):,}** held-out examples · **{tokens}** · {values} · "
        f"**{data.classes}** classes · chance **{data.chance:.1%}**"
    )


def _example(task: Task, data: TaskData, index: int) -> tuple[str, str]:
    tokens, lengths = data.test.tokens[index], data.test.lengths[index]
    documents = zip(tokens, lengths, strict=True) if data.towers == 2 else [(tokens, lengths)]
    texts = [task.shown(document[:length]) for document, length in documents]
    cut = [text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + " …" for text in texts]
    return "\n\n".join(cut), task.info.label_names[int(data.test.labels[index])]


def card(task: Task, size: str) -> None:
    """Everything about one task."""
    info = task.info
    st.markdown(f"#### {info.title}")
    st.markdown(info.description)
    numbers, examples, picture = facts(info.name, size)
    st.markdown(numbers)
    if picture is not None:
        wide = picture.shape[1] > 2 * picture.shape[0]
        with st.container(width="stretch" if wide else 420):
            st.image(picture, caption="Held-out examples, those of one label together.", width="stretch")
    else:
        for text, label in examples:
            st.code(text, language=None, wrap_lines=True)
            st.caption(f"Label: **{label}**")
    st.caption(
        f"Chance is the accuracy of always answering the most frequent training class. Source: {info.source}. Licence: {info.licence}."
    )


left, right = panels([3, 2], least=360)
with left, told():
    chosen = get_task(state.values()["task"])
    sizes = list(chosen.info.sizes)
    if state.values()["size"] not in sizes:
        shell.own_size_and_budget(chosen.info.name)
    size = st.segmented_control("Size", sizes, **state.bound("size"), required=True) or sizes[0]
    if reason := chosen.unavailable(size):
        st.info(reason)
    else:
        card(chosen, size)
with right:
    with told():
        own_data.upload()
    st.markdown("#### Everything there is")
    rows = [{"task": name, "size": size, "here": reason or "yes"} for name, size, reason in available()]
    st.dataframe(pd.DataFrame(rows), hide_index=True, height=300, key="available")
    with told():
        own_data.release_folder()
