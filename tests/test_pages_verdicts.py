"""The pages Step size and locality, and Order and accuracy, through Streamlit's AppTest and once through a browser."""

from pathlib import Path

import numpy as np
import pytest
from browser import browser_page, needs_browser, running_app, settled
from made_results import study
from test_pages import cache, charts, opened  # noqa: F401  the fixture gives every test a cache of its own

from lab.positions import Position
from lab.store import Store

PARAMS = {"seeds": "2", "grid": "0.25,0.5", "steps": "300"}
CELL = (Position.AFTER_FFN, 0.5)


def gains(position: Position, alpha: float, permuted: bool, seed: int) -> float:
    """At α = 1/4 the first position gains 18 points, each other 2 less than the one before; random neighbours bring half of it."""
    more = 0.2 - 0.02 * list(Position).index(position) + 0.1 * (alpha - 0.25)
    jitter = 0.001 * (-1) ** seed
    return more / 2 - jitter if permuted else more + jitter


def put(folder: Path, results) -> None:
    store = Store(folder)
    for result in results:
        store.put(result, {"x": np.zeros(1, dtype=np.float32)})


def said(app) -> str:
    kinds = ("markdown", "caption", "error", "info", "success")
    return " ".join(e.value for kind in kinds for e in app.get(kind)).replace("\\", "")


def spoken(app) -> str:
    """The alt texts of the figures, which stand beside them for those who listen."""
    return " ".join(element.proto.body for element in app.get("html"))


def panel_of(app) -> str:
    """The title of the panel with the runs behind what is chosen."""
    (title,) = [m.value for m in app.markdown if m.value.startswith("##### Runs")]
    return title


@pytest.mark.parametrize(("page", "runs"), [("grid", 355), ("order", 75)])
def test_an_empty_page_says_what_will_be_seen_and_how_it_comes_to_be(page, runs):
    app = opened(page)
    assert not charts(app)
    assert not app.error
    (info,) = app.info
    assert "Nothing is trained yet" in info.value
    if page == "grid":
        assert f"{runs} runs of 300 steps (71 for each of 5 seeds)" in info.value
        assert "takes seconds" in info.value
        assert app.button(key="train").label == f"Train {runs} runs"
    else:
        assert [link.proto.label for link in app.main.get("page_link")] == [
            "Train them on the page Accuracy by position"
        ]


def test_the_grid_shows_its_figures_and_the_runs_behind_a_cell(cache):  # noqa: F811
    made = study(gains, (0.25, 0.5), range(2))
    put(cache, made)
    app = opened("grid", **PARAMS, position="after_ffn", alpha="0.5")
    assert len(charts(app)) == 3
    assert app.button(key="train").label == "All runs trained"
    assert panel_of(app) == "##### Runs: after the FFN, α = 0.5"
    (runs,) = [d.value for d in app.dataframe]
    behind = [r for r in made if r.config.position is Position.BASELINE or (r.config.position, r.config.alpha) == CELL]
    assert sorted(runs["accuracy (%)"]) == pytest.approx(sorted(100 * r.accuracy for r in behind))
    assert len(behind) == 2 + 4
    assert "14 of 14 cells with runs" in spoken(app)
    assert "difference in accuracy to the baseline" in spoken(app)
    app.selectbox(key="position").set_value("baseline").run()
    assert panel_of(app) == "##### Runs: baseline (no heat)"
    app.segmented_control(key="grid_of").set_value("permuted").run()
    assert app.query_params["grid_of"] == "permuted"
    assert "difference in accuracy to random neighbours" in spoken(app)


def test_the_grid_says_of_every_position_what_its_control_says(cache):  # noqa: F811
    put(cache, study(gains, (0.25, 0.5), range(2)))
    app = opened("grid", **PARAMS)
    words = [m.value for m in app.markdown if m.value.startswith("- **")]
    assert len(words) == 1
    assert sum(position.label in words[0] for position in Position) == 7
    assert "over all 14 cells" in said(app)
    table = app.table[0].value
    assert list(table["real − baseline"])[:2] == ["+18.0", "+16.0"]
    assert list(table["real − random"])[:2] == ["+9.0", "+8.0"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": "0.55"}, "beyond the stable limit of 1/2: nothing is trained there"),
        ({"alpha": "0.3"}, "α = 0.3 of the sidebar is not among the α above"),
    ],
)
def test_the_grid_says_why_nothing_is_compared_at_an_alpha(cache, changes, words):  # noqa: F811
    put(cache, study(gains, (0.25, 0.5), range(2)))
    app = opened("grid", **PARAMS, **changes)
    assert len(charts(app)) == 1
    assert words in said(app)
    assert not app.error


def test_the_grid_without_controls_asks_for_them(cache):  # noqa: F811
    put(cache, [r for r in study(gains, (0.25, 0.5), range(2)) if not r.config.permuted])
    app = opened("grid", **PARAMS)
    assert len(charts(app)) == 1
    assert "No position has a permuted control at this α yet" in said(app)
    assert app.button(key="train").label == "Train 28 runs"


def test_an_empty_grid_is_one_sentence():
    app = opened("grid", grid="")
    assert [error.value for error in app.error] == ["alphas is empty; a study needs at least one."]


def test_the_baseline_alone_has_nothing_to_compare(cache):  # noqa: F811
    put(cache, [r for r in study(gains, (0.25,), range(2)) if r.config.position is Position.BASELINE])
    for page in ("grid", "order"):
        app = opened(page, **PARAMS)
        assert "needs a run of the baseline and one of a position" in said(app)
        assert not app.exception


def chis(position: Position, seed: int) -> float:
    return 0.5 + 0.02 * list(Position).index(position) + 0.01 * seed


def test_order_gives_its_verdict_its_parts_and_the_depth(cache):  # noqa: F811
    put(cache, study(gains, (0.25,), range(3), chis))
    app = opened("order", seeds="3", position="before_head")
    assert len(charts(app)) == 1 + 2 + 2
    assert "**Verdict.** Accuracy falls with χ at initialisation (7 positions, 3 seeds)" in said(app)
    assert "disagree more gain less" in said(app)
    assert "Spearman's ρ = -1.00" in spoken(app).replace("&#x27;", "'")
    assert panel_of(app) == "##### Runs: before the head"
    assert len(app.dataframe[0].value) == 6
    app.segmented_control(key="chi_when").set_value("final").run()
    assert app.query_params["chi_when"] == "final"
    # the same χ everywhere after training
    assert "goes with the accuracy change cannot be said: no interval: one of the two is the same" in said(app)


def test_order_says_how_much_of_the_study_is_there(cache):  # noqa: F811
    put(cache, study(gains, (0.25,), range(2), chis))
    app = opened("order", seeds="3")
    assert "30 of the 45 runs" in said(app)
    assert "Train the others on the page Accuracy by position" in [p.proto.label for p in app.main.get("page_link")]


def test_order_of_a_task_whose_sequences_are_too_long_for_chi(cache):  # noqa: F811
    put(cache, study(gains, (0.25,), range(2), lambda *_: None))
    app = opened("order", seeds="2")
    assert "so long that attention cannot be formed whole" in said(app)
    assert len(charts(app)) == 2  # roughness alone
    assert not app.error


def test_order_at_an_unstable_alpha_is_one_sentence():
    app = opened("order", alpha="0.55")
    assert [error.value for error in app.error] == ["alpha is 0.55; it must be between 0 and 0.5."]
    assert not charts(app)


@pytest.mark.parametrize("page", ["grid", "order"])
def test_a_task_that_is_not_here_says_what_to_do(page):
    app = opened(page, task="text", size="mini")
    assert "python -m lab fetch text" in said(app)
    assert not app.exception


def test_the_pages_are_reached_from_home():
    labels = {link.proto.label for link in opened("home").main.get("page_link")}
    assert {"Step size and locality", "Order and accuracy", "Tasks"} <= labels


@needs_browser
@pytest.mark.browser
def test_a_click_on_a_cell_shows_the_runs_behind_it(tmp_path):
    put(tmp_path, study(gains, (0.25, 0.5), range(2)))
    query = "&".join(f"{name}={value}" for name, value in PARAMS.items())
    with running_app(tmp_path, LAB_STARTER="") as address, browser_page() as page:
        page.goto(f"{address}/grid?v=1&{query}")
        panel = page.locator(".st-key-behind-cell h5")
        assert panel.inner_text() == "Runs: after the embedding, α = 0.25"
        numbers = page.locator(".st-key-figure-grid svg text", has_text="+8.5")  # before the head at 0.5
        numbers.click(force=True)
        page.wait_for_function(
            "document.querySelector('.st-key-behind-cell h5').innerText == 'Runs: before the head, α = 0.5'"
        )
        settled(page)
        page.wait_for_url("**alpha=0.5&**position=before_head**")
