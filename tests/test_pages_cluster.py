"""The page Engine through Streamlit's AppTest: what it says with nothing, with work, with trouble; and that it starts nothing."""

import re
import time

import pytest
from test_pages import ROOT, cache, opened  # noqa: F401  the fixture gives every test a cache of its own

from lab.config import RunConfig
from lab.engine import Engine
from lab.engine.live import Live, Running, Worker, write_live
from lab.engine.presence import engine_lock
from lab.positions import Position
from lab.store import Store
from lab.study import Study
from pages.parts import resources, training

BASE = RunConfig(position=Position.AFTER_EMBEDDING, steps=40)
STUDY = Study(BASE, seeds=(0, 1))
OTHER = tuple(RunConfig(task="listops", seed=seed, steps=100) for seed in range(3))


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines that were started: none is, but it is written down."""
    started: list[str] = []
    monkeypatch.setattr(Engine, "start", lambda self: started.append("an engine"))
    # That work goes on when a server comes up is not this page's doing.
    monkeypatch.setattr(resources, "go_on", lambda: None)
    return started


@pytest.fixture
def store(cache) -> Store:  # noqa: F811
    return Store(cache)


@pytest.fixture
def alive(store):
    """An engine that says of itself what a test writes."""
    with engine_lock(store.path):
        yield lambda **says: write_live(store.path / "live.json", Live(pid=1, **says))


def said(app) -> str:
    kinds = ("markdown", "caption", "error", "info", "warning")
    bars = [bar.proto.text for bar in app.get("progress")]
    return "\n".join([*(e.value for kind in kinds for e in app.get(kind)), *bars]).replace("\\", "")


def buttons(app) -> list[str]:
    return [button.label for button in app.button]


def test_with_nothing_open_it_says_what_will_stand_here(started) -> None:
    app = opened("engine")
    assert app.title[0].value == "Engine"
    assert "**Asleep**" in said(app)
    assert "Nothing is open" in said(app)
    assert buttons(app) == []
    assert len(app.dataframe) == 0
    assert started == []


def test_open_requests_are_shown_in_their_order_and_no_engine_is_started(store, started) -> None:
    first = store.requests.add(STUDY.configs(), STUDY.key)
    second = store.requests.add(OTHER, "command line", until=0.02)
    app = opened("engine")
    app.run()
    assert started == []
    words = said(app)
    assert "**Not running**] 19 runs wait for an engine." in words
    assert "8 arms, 2 seeds, 40 steps · *someone else's*" in words
    assert "baseline (no heat), 3 seeds, 100 steps, until every interval is ± 2 points · *from a command line*" in words
    assert words.index("8 arms") < words.index("*from a command line*")
    assert "0 of 16 runs done\n" in words + "\n"
    assert "0 of 3 runs done · 1 run of others ahead" in words
    table = app.dataframe[0].value
    assert list(table["place"]) == list(range(1, 20))
    assert list(table["asked for"][:6]) == ["someone else's", "from a command line"] * 3
    assert {button.key for button in app.button} == {"start-engine", f"stop-{first}", f"stop-{second}"}
    app.button(key="start-engine").click().run()
    assert started == ["an engine"]


def test_stop_takes_back_that_request_alone_and_says_whose_it_is(store) -> None:
    first = store.requests.add(STUDY.configs(), STUDY.key)
    second = store.requests.add(OTHER, "command line")
    app = opened("engine")
    assert app.button(key=f"stop-{first}").label == "Stop for everyone"
    app.session_state[training.MINE] = {STUDY.key: [first]}
    app.run()
    assert app.button(key=f"stop-{first}").label == "Stop"
    assert "*yours*" in said(app)
    app.button(key=f"stop-{first}").click().run()
    assert {request.id: request.state for request in store.requests.all()} == {first: "stopped", second: "open"}
    assert f"stop-{first}" not in [button.key for button in app.button]
    assert not app.exception


def test_what_trains_is_shown_with_its_worker_step_and_time_left(store, alive) -> None:
    store.requests.add(STUDY.configs(), STUDY.key)
    run, *rest = STUDY.configs()
    workers = [Worker("0", "tls://a", device="CPU", pid=7), Worker("1", "tls://b")]
    running = {run.key: Running(10, 40, 5.0, worker="tls://a")}
    alive(slots=2, workers=workers, running=running, next=[rest[-1].key])
    app = opened("engine")
    words = said(app)
    # 15 s are left of the one; the 15 others take 20 s each on two workers: 8 rounds on the one that is free now, 7 after 15 s.
    assert "**Training**] 1 run on 1 of 2 workers, 15 runs waiting, about 3 min left." in words
    assert "0 of 16 runs done · 1 training now · about 3 min left" in words
    table, queue = app.dataframe[0].value, app.dataframe[1].value
    assert list(table["trains"]) == ["Digits: baseline (no heat), seed 0", "–"]
    assert list(table["step"]) == ["10 of 40", "–"]
    assert list(table["time left"]) == ["about 15 s", "–"]
    assert list(table["device"]) == ["CPU", "told with its first run"]
    assert queue["run"][0].endswith("seed 1"), "what a worker has been given comes first"
    assert "start-engine" not in [button.key for button in app.button]


def test_a_scheduler_that_is_away_is_told_with_the_reason_and_since_when(store, alive, monkeypatch) -> None:
    monkeypatch.setenv("LAB_SCHEDULER", "tcp://127.0.0.1:8786")
    store.requests.add(STUDY.configs(), STUDY.key)
    alive(
        message="The scheduler is away (connection refused); it is tried again every 2 seconds.",
        since=time.time() - 600,
    )
    app = opened("engine")
    assert "**Held up**] The scheduler is away (connection refused)" in said(app)
    assert "For about 10 min now." in said(app)
    assert "0 of 16 runs done" in said(app)
    app.switch_page("pages/heat.py").run()
    assert not app.error, "pages that only read keep working"


def test_a_scheduler_that_is_refused_is_told(monkeypatch, started) -> None:
    monkeypatch.setenv("LAB_SCHEDULER", "tcp://10.0.0.5:8786")
    app = opened("engine")
    assert "LAB_ALLOW_INSECURE_SCHEDULER" in said(app)
    assert not app.exception
    assert started == []


def test_failures_are_shown_by_cause_and_cannot_bring_markup(store) -> None:
    store.requests.add(OTHER, "command line", "done")
    for run in OTHER[:2]:
        store.fail(run.key, "It **broke** ![](http://10.0.0.1/x.png)")
    store.fail(OTHER[2].key, "Another cause.")
    app = opened("engine")
    assert len(app.error) == 2
    assert "seed 0 and 1 run more: It **broke**" in said(app)
    assert not any("**broke**" in error.value or "![]" in error.value for error in app.error)


def test_a_request_whose_runs_cannot_be_read_does_no_harm(store) -> None:
    broken = store.requests.add(OTHER, "command line")
    store._database.write(lambda rows: rows.set(f"plan/{broken}", "[1]"))
    app = opened("engine")
    assert not app.exception
    assert "Asked for" not in said(app)


def test_every_page_has_the_name_of_its_file_in_the_address() -> None:
    pages = re.findall(r'st.Page\("pages/(\w+).py".*url_path="(\w+)"', (ROOT / "app.py").read_text("utf-8"))
    assert ("engine", "engine") in pages
    # In the first run of a server Streamlit looks for the file itself, and says "Page not found" where the names differ.
    assert [path for _, path in pages] == [file for file, _ in pages]
