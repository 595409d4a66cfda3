"""Bringing data: a file of the reader's own becomes a task, and the folder of a Long Range Arena release."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from lab.tasks import lra_release, own_data
from lab.tasks.tables import Table
from pages.parts import shell
from pages.parts.shown import plain

MOST_MB = 50


def upload() -> None:
    """Upload a file, choose its columns, make a task of it. Raises LabError, one sentence, for a file that cannot be one."""
    st.markdown("#### Your own data")
    file = st.file_uploader(
        "CSV, TSV, JSON lines or Parquet with a text and a label in each row; or NPY sequences",
        type=["csv", "tsv", "jsonl", "ndjson", "json", "parquet", "npy"],
        max_upload_size=MOST_MB,
        key="own_file",
    )
    if file is None:
        _added()
        return
    data = file.getvalue()
    if file.name.lower().endswith(".npy"):
        labels = st.file_uploader(
            "NPY with a label for each sequence", type=["npy"], max_upload_size=MOST_MB, key="own_labels"
        )
        ready = labels is not None
        columns: dict[str, str] = {}
    else:
        table = _inspected(file.file_id, file.name, data)
        preview = [dict(zip(table.columns, row, strict=False)) for row in table.preview[:3]]
        st.dataframe(pd.DataFrame(preview), hide_index=True, key="own_preview")
        names = list(table.columns)
        one, other = st.columns(2)
        columns = {
            "text_column": one.selectbox("Text", names, index=_index(names, table.text_column), key="own_text"),
            "label_column": other.selectbox("Label", names, index=_index(names, table.label_column), key="own_label"),
        }
        for problem in table.problems:
            st.caption(plain(problem))
        labels, ready = None, True
    if st.button("Make it a task", disabled=not ready, key="own_add", icon=":material/add:"):
        name = own_data.add(data, file.name, npy_labels=labels.getvalue() if labels else None, **columns)
        st.session_state["lab_added"] = name
        _added()
        st.button("Train on it", key="own_use", on_click=_use, args=(name,), type="primary")


@st.cache_data(show_spinner="Reading the file …", max_entries=4)
def _inspected(file_id: str, name: str, _data: bytes) -> Table:  # noqa: ARG001
    return own_data.inspect(_data, name)


def _use(name: str) -> None:
    st.session_state["task"] = name
    shell.own_size_and_budget(name)


def _index(names: list[str], name: str) -> int:
    return names.index(name) if name in names else 0


def _added() -> None:
    """What became of the file that was added last in this session."""
    name = st.session_state.get("lab_added")
    if name is None:
        st.caption(
            "It stays on the machine that runs the lab and becomes a task for everyone who uses it. Rows that repeat are kept on one "
            "side of the split."
        )
        return
    told = own_data.report(name)
    st.success(f"{plain(told.title)} is now the task {name}: {told.rows:,} rows read.", icon=":material/check:")
    balance = [{"class": label, "training": train, "held out": test} for label, (train, test) in told.classes.items()]
    st.dataframe(pd.DataFrame(balance), hide_index=True, key="own_balance", height=180)
    for reason, count in told.dropped.items():
        st.caption(f"{count:,} rows left out: {plain(reason)}.")
    for remark in told.remarks:
        st.caption(plain(remark))


def release_folder() -> None:
    """The folder of an unpacked lra_release, unless the deployer has named one in the environment."""
    st.markdown("#### The Long Range Arena's own files")
    if lra_release.named_by_environment():
        st.caption(f"LAB_LRA_DIR names {lra_release.release_folder()}.")
        return
    now = lra_release.release_folder()
    path = st.text_input(
        "Folder of an unpacked lra_release, on the machine that runs the lab", value=str(now or ""), key="lra_folder"
    )
    if path != str(now or ""):
        lra_release.name_release_folder(path)
        shell.is_here.clear()
        st.rerun()
