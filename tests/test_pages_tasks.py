"""The page Tasks, and data that a reader brings, through Streamlit's AppTest."""

import pytest
from test_pages import cache, opened  # noqa: F401  the fixture gives every test a cache of its own

from lab.tasks import get_task, own_names

ROWS = [(f"a {word} film number {i}", label) for i in range(6) for word, label in (("good", "pos"), ("bad", "neg"))]
CSV = "review,sentiment\n" + "\n".join(f"{text},{label}" for text, label in ROWS)


def _said(app):
    return " ".join(e.value for kind in ("markdown", "caption", "error", "info", "success") for e in app.get(kind))


@pytest.mark.parametrize("task", ["digits", "listops"])
def test_a_task_shows_an_example_its_chance_its_source_and_its_licence(task):
    app = opened("tasks", task=task)
    info = get_task(task).info
    said = _said(app).replace("\\", "")
    assert info.description in said
    assert info.licence in said
    assert "chance **" in said
    assert (len(app.get("image")) if task == "digits" else len(app.code)) > 0


def test_a_task_that_is_not_here_says_what_to_do():
    app = opened("tasks", task="text")
    assert "python -m lab fetch text" in _said(app)
    assert not app.exception


def test_an_uploaded_table_becomes_a_task_that_can_be_trained_on():
    app = opened("tasks")
    app.file_uploader(key="own_file").upload("reviews.csv", CSV.encode(), "text/csv").run()
    assert app.selectbox(key="own_text").value == "review"
    assert app.selectbox(key="own_label").value == "sentiment"
    app.button(key="own_add").click().run()
    (name,) = own_names()
    assert "12 rows read" in _said(app).replace("\\", "")
    assert get_task(name).load("mini").classes == 2
    app.button(key="own_use").click().run()
    assert app.session_state["task"] == name
    assert not app.exception


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("one.csv", b"text,label\na,x\nb,x\n", "one class"),
        ("empty.csv", b"", "empty"),
    ],
)
def test_a_file_that_cannot_be_a_task_is_one_sentence(name, data, words):
    app = opened("tasks")
    app.file_uploader(key="own_file").upload(name, data, "text/plain").run()
    if "own_add" in [button.key for button in app.button]:
        app.button(key="own_add").click().run()
    assert not app.exception
    assert words in _said(app)
