"""Every page through Streamlit's AppTest: what a link shows, wrong input, and what trained runs add."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import pages.parts  # noqa: F401  what it does in the first run of a server is for a server
from lab import link
from lab.config import RunConfig
from lab.positions import Position
from lab.results import CurvePoint, DepthProfile, OrderSwap, RunResult
from lab.store import Store
from lab.store.starter import write_starter
from lab.study import Study
from lab.tasks.recipes import recipe
from pages.parts import behind

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


# -- accuracy by position: what trained runs say ------------------------------------------------------------------

BASE = (0.50, 0.54, 0.46, 0.52, 0.48, 0.51, 0.49)
GAINS = {
    Position.AFTER_EMBEDDING: (0.10, 0.12, 0.11, 0.09, 0.10, 0.11, 0.10),
    Position.AFTER_FFN: (0.02, -0.02, 0.01, -0.01, 0.005, -0.01, 0.01),
}
STUDY = {"task": "digits", "alpha": "0.25", "steps": "300"}


def made_up(config: RunConfig) -> RunResult:
    """A result of a run that was never trained, without weights."""
    gain = GAINS.get(config.position, (0.03, 0.05, 0.01, 0.04, 0.02, 0.03, 0.03))[config.seed]
    end = BASE[config.seed] + (gain / (3 if config.permuted else 1) if config.position is not Position.BASELINE else 0)
    swap = (OrderSwap(0.2, 0.1, 0.1),) * 2
    profile = DepthProfile((1.0, 0.5, 0.2), (1.0, 1.0, 1.0), swap)
    curve = (CurvePoint(100, 1.5, 0.3), CurvePoint(300, 1.0, end))
    return RunResult(config, end, 0.1, curve, profile, profile, (), 10, 500, 2.0, {"device": "cpu", "torch": "x"})


def runs(seeds: int = 5, permuted: bool = True) -> list[RunResult]:
    base = recipe("digits", position=Position.AFTER_EMBEDDING)
    return [made_up(run) for run in Study(base, seeds=tuple(range(seeds)), permuted=permuted).configs()]


@pytest.fixture
def idle(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache whose requests are kept and not worked on."""
    monkeypatch.setattr("lab.engine.client.Engine.start", lambda _: None)
    return cache


@pytest.fixture
def stored(idle: Path) -> Store:
    """Seven seeds of every position and its permuted control."""
    store = Store(idle)
    for result in runs(7):
        store.put(result, {})
    return store


def words(app: AppTest) -> str:
    return "\n".join(element.value for element in (*app.caption, *app.markdown))


def table(app: AppTest, first: str) -> Any:
    """The first table that has a row for a position and a column called so."""
    return next(t.value for t in app.table if first in t.value.columns)


def test_the_tables_say_what_the_differences_are_and_in_words(stored: Store) -> None:
    app = opened("accuracy", **STUDY)
    assert not app.error
    against = table(app, "mean")
    assert list(against["seeds"]) == ["5"] * 8
    assert against.loc["after the embedding", "difference"] == "+10.4"
    assert against.loc["after the embedding", "95 % interval"] == "+9.0 to +11.8"
    assert against.loc["after the embedding", "in words"] == "above the baseline at n = 5"
    assert against.loc["after the FFN", "in words"] == "not distinguishable from the baseline at n = 5"
    sure = table(app, "BCa interval")
    assert sure.loc["after the embedding", "effect d_z"] == "+9.1"
    assert sure.loc["after the embedding", "p (Holm)"] == "< 0.001"
    assert sure.loc["after the FFN", "p (Holm)"] == "0.895"
    assert sure.loc["before the head", "p (Holm)"] == "0.079"  # alone 0.013
    assert "alone it would be, but 7 were looked at" in against.loc["before the head", "in words"]
    local = table(app, "real − random")
    assert local.loc["after the embedding", "real − random"] == "+6.9"
    assert local.loc["after the embedding", "in words"] == "above its permuted control at n = 5"
    assert list(local["n"]) == ["5"] * 7
    assert "83 %" in words(app)
    assert "One more seed" in words(app)


def test_learning_curves_are_compared_too(stored: Store) -> None:
    app = opened("accuracy", **STUDY, curve_of="difference", reach_accuracy="55")
    learned = table(app, "area")
    assert learned.loc["after the embedding", "reach 55% at step"] == "300 (5 of 5)"
    assert learned.loc["after the FFN", "reach 55% at step"] == "never"
    assert learned.loc["after the embedding", "area"] == "+5.2 (+4.5 to +5.9)"
    assert learned.loc["after the embedding", "in words"] == "the gain is there at the end of the training"
    assert any("Difference of the learning curves" in m.value for m in app.markdown)
    app.number_input(key="reach_accuracy").set_value(30.0).run()
    assert app.query_params["reach_accuracy"] == "30"
    assert table(app, "area").loc["after the FFN", "reach 30% at step"] == "100 (5 of 5)"


def test_without_a_permuted_control_it_is_said_where_it_is_switched_on(stored: Store) -> None:
    app = opened("accuracy", **STUDY, permuted="false")
    assert "No permuted control is trained" in words(app)
    assert not any("real − random" in t.value.columns for t in app.table)


def test_the_runs_behind_a_position_are_those_of_the_sidebar(stored: Store) -> None:
    app = opened("accuracy", **STUDY, position="after_ffn", seeds="2")
    assert "##### Runs: after the FFN" in [m.value for m in app.markdown]
    behind = app.dataframe[0].value
    assert list(behind["seed"]) == [0, 0, 1, 1]
    assert set(behind["arm"]) == {"real neighbours", "random neighbours"}
    assert list(behind["from"]) == ["trained here"] * 4
    config = recipe("digits", position=Position.AFTER_FFN, seed=1)
    app.selectbox(key="behind-position-run").set_value(config.key).run()
    codes = [code.value for code in app.code]
    assert "python -m lab run --task digits --position after_ffn --alpha 0.25 --seed 1" in codes
    assert config.json in codes
    sent = next(code for code in codes if code.startswith("/accuracy?v=1&") and "seeds=1&" in code)
    assert "position=after_ffn" in sent
    assert "seed=1&" in sent
    app.selectbox(key="position").set_value("before_head").run()
    assert "##### Runs: before the head" in [m.value for m in app.markdown]
    assert app.selectbox(key="behind-position-run").value == recipe("digits", position=Position.BEFORE_HEAD).key


def test_the_study_says_its_hash_its_link_and_its_command(stored: Store) -> None:
    app = opened("accuracy", **STUDY, seeds="4")
    codes = [code.value for code in app.code]
    study = Study(recipe("digits", position=Position.AFTER_EMBEDDING), seeds=(0, 1, 2, 3), permuted=True)
    assert study.key in codes
    assert "python -m lab study --task digits --alpha 0.25 --seeds 4 --permuted" in codes
    address = next(code for code in codes if code.startswith("/accuracy?") and "seeds=4&" in code)
    assert dict(parse_qsl(address.split("?")[1], keep_blank_values=True)) == app.query_params


@pytest.mark.parametrize(
    "page", ["http://here:8501", "http://here:8501/", "http://here:8501/heat", "http://here:8501/accuracy"]
)
def test_a_full_link_begins_with_where_the_lab_is(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened("home")  # which names the pages
    monkeypatch.setattr(behind.st, "context", SimpleNamespace(url=page))
    assert behind.full_link("accuracy", {"text": "a b"}).startswith("http://here:8501/accuracy?v=1&alpha=0.25&")
    monkeypatch.setattr(behind.st, "context", SimpleNamespace(url="http://here/lab/heat"))
    assert behind.full_link("accuracy", {}).startswith("http://here/lab/accuracy?")


def test_a_larger_study_trains_only_what_is_new(stored: Store) -> None:
    """Its keys include those of the smaller one, so the button counts what is missing and the request leaves the rest alone."""
    small = Study(recipe("digits", position=Position.AFTER_EMBEDDING), seeds=(0, 1), permuted=True)
    large = Study(small.base, alphas=(0.1, 0.25), seeds=(0, 1, 2), permuted=True)
    there, wanted = ({run.key for run in study.configs()} for study in (small, large))
    assert there < wanted
    assert there <= stored.done(wanted)
    app = opened("accuracy", **STUDY, seeds="9")
    assert app.button(key="train").label == "Train 30 runs"
    app.button(key="train").click().run()
    request = stored.requests.all()[-1]
    missing = [run for run in stored.requests.plan(request.id) if run.key not in stored.done([run.key])]
    assert {run.seed for run in missing} == {7, 8}


@pytest.mark.parametrize(("until", "reached"), [("5", True), ("0.1", False)])
def test_a_study_until_a_width_says_whether_it_is_reached(stored: Store, until: str, reached: bool) -> None:
    app = opened("accuracy", **STUDY, until=until)
    assert app.number_input(key="seeds").disabled
    assert ("Reached at n = 7: widest ±" in words(app).replace("*", "")) is reached
    train = app.button(key="train")
    assert train.disabled is reached
    if not reached:
        assert train.label == "Train until every interval is ± 0.1 points, at most 20 seeds"
        train.click().run()
        request = stored.requests.all()[-1]
        assert (request.until, request.runs) == (0.001, 300)
        assert app.button(key="stop").label == "Stop"
        assert app.get("progress")[0].proto.text == "105 of at most 300 runs done"


def test_few_seeds_are_not_enough_for_the_stop(idle: Path) -> None:
    store = Store(idle)
    for result in runs(4):
        store.put(result, {})
    app = opened("accuracy", **STUDY, until="50")
    assert not app.button(key="train").disabled
    assert "from n = 5 on it may stop" in words(app)


@pytest.fixture
def shipped(idle: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of nothing, over a starter study of two seeds."""
    write_starter(idle / "starter", runs(2), ["python -m lab study"], "0123456789abcdef", "2026-11-30")
    monkeypatch.setenv("LAB_STARTER", str(idle / "starter"))
    return idle


def test_runs_that_come_with_the_lab_are_shown_at_once_and_said_to(shipped: Path) -> None:
    app = opened("accuracy", **STUDY, seeds="2")
    assert "All 30 runs come with the lab" in words(app)
    assert "commit 0123456, CPU, 2026-11-30" in words(app)
    assert set(app.dataframe[0].value["from"]) == {"comes with the lab"}
    fewer = opened("accuracy", **STUDY, seeds="1")
    assert "All 15 runs come with the lab" in words(fewer)
    fewer.button(key="more").click().run()
    assert fewer.query_params["seeds"] == "2"
    assert "All 30 runs come with the lab" in words(fewer)
    assert not [button for button in fewer.button if button.key == "more"]
    store = Store(shipped)
    for result in runs(3)[-4:]:
        store.put(result, {})
    assert "30 of these 34 runs come with the lab" in words(opened("accuracy", **STUDY, seeds="3"))


def test_a_shipped_run_has_no_weights_and_its_button_trains_it(shipped: Path) -> None:
    app = opened("commutator", attention="trained", steps="300", permuted="false")
    assert "its weights do not" in app.info[0].value
    config = recipe("digits", position=Position.AFTER_EMBEDDING)
    button = app.button(key=f"train-{config.key}")
    assert button.label == "Train this run (about 2 s)"
    button.click().run()
    store = Store(shipped)
    assert [(r.label, r.runs, r.state) for r in store.requests.all()] == [(config.key, 1, "open")]
    assert config.key not in store.done([config.key])  # the shipped result is not enough any more
    assert not [b for b in app.button if b.label.startswith("Train this run")]


def test_the_arms_of_a_study_follow_their_controls(stored: Store) -> None:
    app = opened("accuracy", **STUDY, seeds="1")
    app.selectbox(key="strides").set_value("1,2,4").run()
    app.toggle(key="learnable").set_value(True).run()
    command = next(code.value for code in app.code if code.value.startswith("python -m lab study"))
    assert shlex.split(command)[-4:] == ["--set", "strides=[1,2,4]", "--set", "learnable=true"]
    assert (app.query_params["strides"], app.query_params["learnable"]) == ("1,2,4", "true")
    assert app.button(key="train").label == "Train 14 runs"  # the baseline is the same, and there
