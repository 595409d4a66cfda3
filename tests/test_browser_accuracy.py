"""Page 4 in a real browser: a click on a mark shows the runs behind it, and nothing flickers."""

import pytest
from browser import browser_page, needs_browser, running_app, settled

from lab.store import Store
from tests.test_pages import runs

pytestmark = [needs_browser, pytest.mark.browser]
HEADING = ".st-key-behind-position h5"
MARKS = ".st-key-figure-by-position svg.marks"


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    store = Store(cache)
    for result in runs(3):
        store.put(result, {})
    store.close()
    with running_app(cache, LAB_SCHEDULER="tcp://127.0.0.1:1") as address:
        yield address


def _click(page, label):
    """Click a mark of the row of a position: one whose description Vega writes for those who listen."""
    page.locator(f"{MARKS} path[aria-label*='position: {label}'][aria-label*='seed: 1']").first.click()
    page.locator(HEADING, has_text=label).wait_for()
    settled(page)


def test_a_click_on_a_mark_shows_the_runs_behind_it_and_the_link_restores_them(app):
    with browser_page() as page:
        page.goto(f"{app}/accuracy?v=1&seeds=3")
        page.locator(HEADING, has_text="after the embedding").wait_for()
        page.locator(MARKS).wait_for()
        settled(page)
        page.evaluate(f"document.querySelector('{MARKS}').dataset.first = 'yes'")
        _click(page, "after the FFN")
        assert "position=after_ffn" in page.url
        _click(page, "between the layers")
        # back by way of the sidebar, then the same mark again: that is a click too
        page.locator(".st-key-position input").click()
        page.get_by_role("option", name="baseline").click()
        page.locator(HEADING, has_text="baseline").wait_for()
        _click(page, "between the layers")
        assert page.locator(MARKS).get_attribute("data-first") == "yes"  # the same drawing, not one made anew
        page.locator(".st-key-behind-position").get_by_role("tab", name="Command").click()
        page.get_by_text("python -m lab run --task digits --position between_layers").wait_for()
        page.reload()
        page.locator(HEADING, has_text="between the layers").wait_for()
