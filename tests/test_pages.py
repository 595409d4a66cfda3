"""Every page through Streamlit's AppTest: what a link shows, wrong input, and what trained runs add."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import pages.parts  # noqa: F401  what it does in the first run of a server is for a server
from lab import link
from lab.positions import Position
from lab.store import Store
from lab.tasks.recipes import recipe

ROOT = Path(__file__).parents[1]
PAGES = ("home", "heat", "energy", "commutator", "accuracy")
FIGURES = {"home": 0, "heat": 3, "energy": 1, "commutator": 4}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    def run_app(path: str) -> None:
        exec(compile(Path(path).read_text(), path, "exec"), {"__name__": "__main__", "__file__": path})

    # AppTest takes a folder called pages/ for Streamlit's older kind of app in every run, and would leave app.py out.
    monkeypatch.setattr("streamlit.runtime.scriptrunner.script_runner._mpa_v1", run_app)
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    st.cache_resource.clear()
    yield tmp_path
    st.cache_resource.clear()


def opened(page: str, **params: str) -> AppTest:
    """A page of the lab under a link: AppTest starts on the home page and goes on from there."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.query_params.update(params)
    app.run()
    if page != "home":
        app.switch_page(f"pages/{page}.py").run()
    assert not app.exception
    return app


def figures(app: AppTest) -> int:
    return len(charts(app))


def charts(app: AppTest) -> list[Any]:
    return [*app.get("plotly_chart"), *app.get("vega_lite_chart")]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_with_its_figures_and_their_words(page: str) -> None:
    app = opened(page)
    assert len(app.title) == 1
    assert not app.error
    assert figures(app) == FIGURES.get(page, 0)
    for chart in charts(app):
        assert len(chart.proto.alt) > 40


@pytest.mark.parametrize("page", PAGES[:4])
@pytest.mark.parametrize("alpha", ["0", "0.333", "0.6"])
def test_every_alpha_is_shown_and_the_unstable_ones_are_marked(page: str, alpha: str) -> None:
    app = opened(page, alpha=alpha)
    assert figures(app) == FIGURES[page]
    sentences = [error.value for error in app.error]
    assert sentences == (
        [f"alpha is {alpha}; it must be between 0 and 0.5."] if page == "energy" and float(alpha) > 0.5 else []
    )
    unstable = [c.value for c in app.markdown if "Unstable demonstration" in c.value]
    assert bool(unstable) == (float(alpha) > 0.5)


def test_the_link_holds_everything_and_restores_it() -> None:
    app = opened("home", alpha="0.4", text="hello", source="digit", digit="7", weights="raw", alphas="0.1,0.2")
    assert set(app.query_params) == {"v", *link.FIELDS}
    assert app.query_params["alpha"] == "0.4"
    assert app.slider(key="alpha").value == 0.4
    for page in ("heat", "energy", "commutator"):
        app.switch_page(f"pages/{page}.py").run()
        assert app.query_params["digit"] == "7"
        assert app.query_params["alphas"] == "0.1,0.2"
    app.switch_page("pages/heat.py").run()
    assert app.number_input(key="digit").value == 7
    app.number_input(key="digit").set_value(9).run()
    assert app.query_params["digit"] == "9"
    app.selectbox(key="source").set_value("text").run()
    assert app.text_input(key="text").value == "hello"
    app.selectbox(key="source").set_value("digit").run()
    assert app.number_input(key="digit").value == 9
    again = opened("heat", **app.query_params)
    assert again.number_input(key="digit").value == 9
    assert again.query_params == app.query_params


def test_wrong_link_parameters_get_a_sentence_each_until_something_is_moved() -> None:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.query_params.update({"alpha": "7", "task": "mnist", "heat_steps": "5"})
    app.run()
    assert [w.value.split(" is ")[0] for w in app.warning] == ["alpha", "task"]
    assert app.slider(key="heat_steps").value == 5
    assert app.query_params["alpha"] == "0.25"
    app.slider(key="alpha").set_value(0.3).run()
    assert not app.warning
    assert app.query_params["alpha"] == "0.3"


def test_a_flood_of_wrong_parameters_stays_readable() -> None:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.query_params.update({f"x{i}": "1" for i in range(30)})
    app.run()
    assert len(app.warning) == 5


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"text": ""}, "The text has 0 bytes"),
        ({"text": "a"}, "The text has 1 bytes"),
        ({"source": "expression", "expression": "[MAX 2 cat ]"}, "'CAT'"),
        ({"source": "expression", "expression": ""}, "expression is empty"),
        ({"source": "expression", "expression": "7"}, "one token"),
        ({"source": "expression", "expression": "1 " * 200}, "at most"),
    ],
)
def test_what_cannot_be_smoothed_gets_one_sentence(params: dict[str, str], words: str) -> None:
    app = opened("heat", **params)
    assert len(app.error) == 1
    assert words in app.error[0].value
    assert figures(app) == 0


@pytest.mark.parametrize(
    ("source", "weights"),
    [("text", "trained"), ("signal", "fresh"), ("upload", "raw")]
    + [(source, weights) for source in ("digit", "expression") for weights in link.WEIGHTS],
)
def test_every_source_is_shown_or_says_what_is_missing(source: str, weights: str) -> None:
    app = opened("heat", source=source, weights=weights, alpha="0.3")
    missing = source == "upload" or (weights == "trained" and source != "signal")
    one_dimension = source == "signal" or (source, weights) == ("digit", "raw")
    assert figures(app) == (0 if missing else 2 if one_dimension else 3)
    assert bool(app.info) == missing


def upload(name: str, data: bytes) -> AppTest:
    app = opened("heat", source="upload")
    app.file_uploader(key="upload").set_value((name, data, "application/octet-stream"))
    return app.run()


def test_a_good_upload_is_smoothed() -> None:
    app = upload("m.csv", b"1,2\n3,4\n5,9\n")
    assert not app.error
    assert figures(app) == 3


@pytest.mark.parametrize("name", ["m.csv", "m.npy", "m.exe"])
def test_a_bad_upload_gets_one_sentence(name: str) -> None:
    app = upload(name, b"1,2\n3,nan\n")
    assert len(app.error) == 1
    assert app.error[0].value.startswith(f"The upload '{name}'")
    assert figures(app) == 0


def test_no_alpha_chosen_is_said() -> None:
    app = opened("energy", alphas="")
    assert [error.value for error in app.error] == ["No α is chosen; choose one to six of them above."]


@pytest.mark.parametrize("kind", [kind for kind in link.ATTENTIONS if kind != "trained"])
def test_every_built_in_attention(kind: str) -> None:
    assert figures(opened("commutator", attention=kind, tokens="9")) == 4


def test_trained_runs_appear_where_they_are_asked_for(cache: Path) -> None:
    import torch

    from lab.training import train_pack

    configs = [recipe("digits", position=p, alpha=0.25, steps=2) for p in (Position.BASELINE, Position.AFTER_EMBEDDING)]
    torch.set_num_threads(1)  # more than one a process only makes this slower
    store = Store(cache)
    for trained in train_pack(configs, device="cpu"):
        assert trained is not None
        store.put(trained.result, trained.arrays)
    params = {"steps": "2", "attention": "trained", "source": "digit", "weights": "trained"}
    for page, count in (("heat", 3), ("energy", 2), ("commutator", 4)):
        app = opened(page, **params)
        assert figures(app) == count
        assert not app.info
    app = opened("commutator", **params, layer="24", head="64", alpha="0.25")
    assert (app.number_input(key="layer").value, app.number_input(key="head").value) == (2, 2)
    other = opened("commutator", **params, seed="1")
    assert figures(other) == 0
    assert "No trained run yet" in other.info[0].value


def test_the_first_page_loads_no_torch_and_no_plotting(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "tests/first_page.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LAB_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "[]", done.stderr[-2000:]


def test_numbers_of_the_link_and_of_the_tasks_agree() -> None:
    from lab.tasks import get_task

    assert len(get_task("digits").load("mini").test) == link.MAX_DIGIT + 1
