"""A claim as the page Claims shows it."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import streamlit as st

from lab.claims import Case, Claim, Verdict
from lab.tasks import get_task
from pages.parts import shell

COLOURS = {
    Verdict.HOLDS: "green",
    Verdict.FAILS: "red",
    Verdict.OPEN: "gray",
    Verdict.NEEDS_LRA: "violet",
    Verdict.NOT_YET: "gray",
}

PAGE = {"grid": "grid", "locality": "grid", "commutation": "order"}
"""Where the runs of a claim are best seen, if not on the page Accuracy by position."""


def card(claim: Claim) -> None:
    """One claim: the verdict, the number on every task, how it is tested, and the way to its runs."""
    st.markdown(f":{COLOURS[claim.verdict]}-badge[{claim.verdict}] **{claim.statement}**")
    said = f"{claim.source}: {claim.paper}" if claim.paper else claim.source
    st.caption(f"{said[0].upper()}{said[1:]}. Test: {claim.test}")
    measured = [case for case in claim.cases if case.verdict is not Verdict.NOT_YET]
    if measured:
        st.markdown("\n".join(map(_line, measured)))
    if claim.paper and measured:
        st.markdown(
            f"The direction, on small tasks: :{COLOURS[claim.direction]}-badge[{claim.direction}] ({claim.summary})"
        )
    missing = Counter(get_task(case.task).info.title for case in claim.cases if case.verdict is Verdict.NOT_YET)
    if missing:
        tasks = (f"{title} ({count} comparisons)" if count > 1 else title for title, count in missing.items())
        st.caption(f"Not measured yet: {', '.join(tasks)}.")
    with st.container(horizontal=True):
        for label, fields in _links(claim):
            shell.page_link(PAGE.get(claim.name, "accuracy"), label, ":material/arrow_forward:", **fields)


def _line(case: Case) -> str:
    """A case in a line, e.g. ``- Digits: **+10.9 points [+7.3, +14.5]**, 10 seeds, p = 0.0001: holds``."""
    seeds = f"{case.n} seeds" if case.n == case.wanted else f"{case.n} of {case.wanted} seeds"
    p = "" if math.isnan(case.p) else f", p {'< 0.001' if case.p < 0.001 else f'= {case.p:.3f}'}"
    number = case.number.replace("[", r"\[").replace("]", r"\]")
    return f"- {case.what}: **{number}**, {seeds}{p}: {case.verdict}{f' ({case.note})' if case.note else ''}"


def _links(claim: Claim) -> list[tuple[str, dict[str, Any]]]:
    """A link for each task of a claim; that of a grid shows the arm at 1/4, from where its α can be moved."""
    by_task: dict[str, Case] = {}
    for case in sorted(claim.cases, key=lambda case: (case.config.alpha != 0.25, case.verdict is Verdict.NOT_YET)):
        by_task.setdefault(case.task, case)
    permuted = {"permuted": True} if claim.name == "locality" else {}
    matched = {"matched": True} if claim.name == "matched" else {}
    return [
        (
            f"{get_task(task).info.title}: {'train' if case.verdict is Verdict.NOT_YET else 'its runs'}",
            {**case.fields, **permuted, **matched},
        )
        for task, case in by_task.items()
    ]
