import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import link
from lab.config import RunConfig
from lab.positions import Position
from lab.tasks import TASKS
from lab.tasks.recipes import recipe


def test_a_link_holds_every_value_and_the_version() -> None:
    params = link.write({})
    assert params == {"v": "1", **{name: field.show(field.default) for name, field in link.FIELDS.items()}}
    assert set(params) == {"v", *link.FIELDS}


def test_a_changed_default_does_not_alter_an_old_link(monkeypatch: pytest.MonkeyPatch) -> None:
    old = link.write({})
    changed = {**link.FIELDS, "alpha": link._real("alpha", 0.1, 0, link.ALPHA_MAX)}
    monkeypatch.setattr(link, "FIELDS", changed)
    assert link.defaults()["alpha"] == 0.1
    assert link.read(old)[0]["alpha"] == 0.25


VALUES = {
    "alpha": st.integers(0, 600_000_000).map(lambda i: i / 1e9),
    "heat_steps": st.integers(1, 100),
    "position": st.sampled_from([p.value for p in Position]),
    "task": st.sampled_from(list(TASKS)),
    "seed": st.integers(0, 2**31 - 1),
    "source": st.sampled_from(list(link.SOURCES)),
    "text": st.text(max_size=link.MAX_TEXT),
    "alphas": st.lists(st.sampled_from([0.01, 0.1, 0.25, 0.333333333, 0.55]), unique=True, max_size=5).map(sorted),
    "permuted": st.booleans(),
    "learnable": st.booleans(),
    "strides": st.sampled_from(list(link.STRIDES)),
    "until": st.integers(0, 100).map(lambda i: i / 2),
    "curve_of": st.sampled_from(["accuracy", "loss", "difference"]),
    "reach_accuracy": st.integers(1, 100).map(float),
    "grid": st.lists(st.sampled_from([0.05, 0.1, 0.25, 0.5]), unique=True, max_size=4).map(sorted),
}


@given(st.fixed_dictionaries(VALUES))
def test_what_is_written_is_read_back(values: dict[str, object]) -> None:
    read, problems = link.read(link.write(values))
    assert problems == []
    assert read == {**link.defaults(), **values}
    assert link.write(read) == link.write(values)


@given(st.dictionaries(st.sampled_from([*link.FIELDS, "v", "other"]), st.text(max_size=40)))
def test_whatever_a_link_says_every_field_has_an_allowed_value(params: dict[str, str]) -> None:
    values, problems = link.read(params)
    assert set(values) == set(link.FIELDS)
    assert link.read(link.write(values)) == (values, [])
    assert all("\n" not in problem and problem.endswith(".") for problem in problems)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("alpha", "0.61", "alpha is '0.61' in the link; it must be a number from 0 to 0.6, so 0.25 is used."),
        ("alpha", "nan", "a number from 0 to 0.6"),
        ("alpha", "-0.1", "a number from 0 to 0.6"),
        ("heat_steps", "1.5", "a whole number from 1 to 100"),
        ("seed", "9" * 5000, "a whole number from 0 to 2147483647"),
        ("seed", "١", "a whole number"),
        ("position", "everywhere", "one of baseline, after_embedding,"),
        ("task", "mnist", "one of digits, listops"),
        ("text", "x" * 513, "a text of at most 512 characters"),
        ("alphas", "0.1,,0.2", "at most 6 numbers"),
        ("alphas", "0.1,0.2,0.3,0.31,0.32,0.33,0.34", "at most 6 numbers"),
        ("permuted", "yes", "true or false"),
        ("seeds", "21", "a whole number from 1 to 20"),
        ("strides", "1,3", "one of 1, 1,2, 1,2,4, 1,2,4,8"),
        ("until", "51", "a number from 0 to 50"),
        ("grid", "0.51", "at most 6 numbers from 0 to 0.5"),
        ("curve_of", "gain", "one of accuracy, loss, difference"),
    ],
)
def test_a_wrong_value_is_named_and_nothing_else_is_lost(name: str, text: str, words: str) -> None:
    others = {"heat_steps": "7", "noise": "1.25"}
    others.pop(name, None)
    values, problems = link.read({name: text, **others})
    assert len(problems) == 1
    assert problems[0].startswith(f"{name} is ")
    assert words in problems[0]
    assert len(problems[0]) < 400
    assert values == {**link.defaults(), **link.read(others)[0]}
    assert link.read(others)[1] == []


def test_unknown_fields_and_versions_are_named() -> None:
    values, problems = link.read({"v": "2", "colour": "red", "alpha": "0.5"})
    assert values["alpha"] == 0.5
    assert "v is '2'" in problems[0]
    assert "'colour' is not a field" in problems[1]


def test_defaults_are_fresh_every_time() -> None:
    link.defaults()["alphas"].append(0.6)
    assert link.defaults()["alphas"] == [0.05, 0.25, 0.45, 0.55]


def test_numbers_are_written_short() -> None:
    assert [link.show_number(v) for v in (0.0, 0.1, 0.25, 0.333333333, 2.0, math.pi)] == [
        "0",
        "0.1",
        "0.25",
        "0.333333333",
        "2",
        "3.141592654",
    ]


RUNS = {
    "a baseline": recipe("digits", seed=4),
    "a position": recipe("listops", position=Position.AFTER_FFN, alpha=0.1, seed=2, steps=90),
    "its controls": recipe("digits", position=Position.BEFORE_LN, permuted=True, matched=True),
    "its heat": recipe("digits", position=Position.BEFORE_LN, heat_steps=3, strides=(1, 2, 4), learnable=True),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_link_of_a_run_says_all_of_it(name: str) -> None:
    run = RUNS[name]
    assert link.carries(run)
    values, problems = link.read(link.write(link.of_run(run)))
    assert problems == []
    fields = ("task", "size", "steps", "seed", "heat_steps", "permuted", "matched", "learnable")
    arm = {field: values[field] for field in fields}
    alpha, strides = values["alpha"], link.STRIDES[values["strides"]]
    again = recipe(**arm, position=Position(values["position"]), alpha=alpha, strides=strides)
    assert again == run
    assert values["seeds"] == 1


@pytest.mark.parametrize("changes", [{"width": 64}, {"strides": (1, 3)}, {"learning_rate": 0.01}, {"dropout": 0.5}])
def test_it_is_known_what_a_link_leaves_out(changes: dict[str, object]) -> None:
    run = RunConfig(position=Position.AFTER_FFN, **changes)  # type: ignore[arg-type]
    assert not link.carries(run)
    assert link.read(link.write(link.of_run(run)))[1] == []  # it still shows the nearest run there is a link to
