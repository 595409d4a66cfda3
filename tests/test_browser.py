"""The lab as a person meets it: a real browser, a real engine, real training."""

import csv
import re

import pytest
from browser import browser_page, needs_browser, running_app, settled

pytestmark = [needs_browser, pytest.mark.browser]

LINK = "accuracy?v=1&task=digits&alpha=0.25&seeds=1&steps=8&permuted=false"
ROWS = ".st-key-table-baseline [data-testid=stTable] tbody tr"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def app(cache):
    with running_app(cache) as address:
        yield address


def _accuracies(page):
    """The mean accuracies of the table by position, once it has all eight."""
    page.wait_for_function(f"document.querySelectorAll('{ROWS}').length == 8", timeout=180_000)
    rows = page.locator(ROWS).all_inner_texts()
    return {row.split("\t")[0].strip(): re.search(r"(\d+\.\d)%", row).group(1) for row in rows}


def test_train_watch_read_reload_and_find_it_cached(app, cache):
    with browser_page() as page:
        page.goto(f"{app}/{LINK}")
        page.locator(".st-key-train button").click()
        # the table ends with all eight arms, each with an accuracy
        page.wait_for_function(f"document.querySelectorAll('{ROWS}').length == 8", timeout=180_000)
        page.get_by_role("button", name="All runs trained").wait_for()
        first = _accuracies(page)
        assert len(first) == 8
        assert all(0 <= float(value) <= 100 for value in first.values())
        assert page.locator(".st-key-figure-by-position canvas, .st-key-figure-by-position svg").count() > 0
        assert page.locator(".st-key-figure-curves canvas, .st-key-figure-curves svg").count() > 0

        with page.expect_download() as download:
            page.locator(".st-key-csv button").click()
        rows = list(csv.DictReader(download.value.path().read_text("utf-8").splitlines()))
        assert len(rows) == 8
        assert {f"{100 * float(row['accuracy']):.1f}" for row in rows} == set(first.values())

        page.reload()
        page.get_by_role("button", name="All runs trained").wait_for()
        assert _accuracies(page) == first
    # another browser, same link: there at once, and nothing is trained again
    with browser_page() as other:
        other.goto(f"{app}/{LINK}")
        other.get_by_role("button", name="All runs trained").wait_for()
        assert _accuracies(other) == first


def test_stop_ends_a_study_and_train_takes_it_up_again(app):
    with browser_page() as page:
        page.goto(f"{app}/accuracy?v=1&task=digits&seeds=1&steps=4000&permuted=false")
        for _ in range(2):
            page.locator(".st-key-train button").click()
            page.get_by_text(re.compile("Training now")).wait_for(timeout=120_000)
            page.get_by_role("button", name="Stop", exact=True).wait_for()
            page.reload()  # which forgets whose the request was
            page.get_by_role("button", name="Stop for everyone").click()
            page.get_by_role("button", name=re.compile(r"Train 8 runs")).wait_for()
        assert page.locator("[data-testid=stException]").count() == 0


def test_a_link_cannot_bring_a_picture_or_a_link_of_its_own(app):
    with browser_page() as page:
        page.goto(f"{app}/heat?v=1&task=![x](//evil.example/x.png)&alpha=[here](//evil.example)")
        page.get_by_text("evil.example/x.png").wait_for()
        assert page.locator("img[src*=evil], a[href*=evil]").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("heat", ["smoothing", "transfer"]),
        ("energy", ["decay"]),
        ("commutator", ["attention", "bracket", "norms", "swap"]),
        (LINK, ["by-position", "difference"]),
    ],
)
def test_the_first_screen_shows_the_figures_whole(app, path, shown, scheme):
    with browser_page(scheme=scheme) as page:
        page.goto(f"{app}/{path}")
        for key in shown:
            chart = page.locator(
                f".st-key-figure-{key} [data-testid=stPlotlyChart], .st-key-figure-{key} [data-testid=stVegaLiteChart]"
            )
            chart.first.wait_for()
            # drawn, not an empty box: something has been painted into it
            page.wait_for_selector(
                f".st-key-figure-{key} svg.main-svg, .st-key-figure-{key} canvas, .st-key-figure-{key} svg"
            )
        settled(page)
        bottoms = page.evaluate(
            "keys => keys.map(k => document.querySelector(`.st-key-figure-${k}`).getBoundingClientRect().bottom)", shown
        )
        assert max(bottoms) <= 900, dict(zip(shown, bottoms, strict=True))
        background = page.evaluate("getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor")
        brightness = sum(map(int, re.findall(r"\d+", background)[:3])) / 3
        assert (brightness < 100) == (scheme == "dark")


@pytest.mark.parametrize("path", ["", "heat", "energy", "commutator", "accuracy", "tasks", "engine"])
@pytest.mark.parametrize("width", [1440, 800, 390])
def test_every_page_opens_without_an_error_and_fits_its_width(app, path, width):
    with browser_page(width=width) as page:
        page.goto(f"{app}/{path}")
        page.locator("h1").first.wait_for()
        settled(page)
        assert page.locator("[data-testid=stException]").count() == 0
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 1
