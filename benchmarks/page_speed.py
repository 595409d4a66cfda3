"""How fast the pages are, beside a plain Streamlit page with one Plotly figure, in a real browser.

    python benchmarks/page_speed.py

Prints ratios of medians, each to be at most 1.5: the first paint of the home page, from opening the address in a fresh
browser profile to its drawing; and page 1 at 256 tokens, from a key on the α slider until its first figure is redrawn, and
until both are (the plain page has one).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.serving import READY, browser, serve

TEXT = ("Heat flows from token to token until all of them agree. " * 5)[:256]

# Milliseconds from the key to the first animation frame in which every kind of mark on the page has been redrawn.
REDRAW = """async lines => {
  const marks = (query, name) => [...document.querySelectorAll(query)].map(e => e.getAttribute(name)).join();
  const now = () => [marks('.heatmaplayer image', 'href') || marks('.heatmaplayer image', 'xlink:href'),
                     lines ? marks('[data-testid=stVegaLiteChart] .mark-line path', 'd') : ''];
  const before = now(), start = performance.now();
  window.lab_redrawn = new Promise(resolve => {
    const look = () => {
      const after = now();
      const done = after[0] && after[0] !== before[0] && (!lines || (after[1] && after[1] !== before[1]));
      if (done) resolve(performance.now() - start); else requestAnimationFrame(look);
    };
    look();
  });
}"""


def first_paint(chromium: Browser, address: str, drawn: str) -> float:
    """Seconds from opening the page with an empty browser cache until ``drawn`` is visible."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    start = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_selector(drawn, state="visible")
    seconds = time.perf_counter() - start
    context.close()
    return seconds


def redraw(page: Page, key: str, *, lines: bool) -> float:
    """Seconds from one press on the α slider to the new figures."""
    slider: Any = page.locator(".st-key-alpha input[type=range]").first
    slider.focus()
    page.evaluate(REDRAW, lines)
    slider.press(key)
    milliseconds: float = page.evaluate("window.lab_redrawn")
    page.wait_for_selector(READY)
    page.wait_for_timeout(300)
    return milliseconds / 1000


def report(name: str, ours: list[float], plain: list[float]) -> None:
    """One line: both medians and their ratio."""
    mine, theirs = statistics.median(ours), statistics.median(plain)
    print(f"{name}: {mine * 1000:.0f} ms, plain page {theirs * 1000:.0f} ms, ratio {mine / theirs:.2f} (at most 1.50)")


def main() -> None:
    """Measure both, turn by turn, so that whatever else the machine does hits both alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paints", type=int, default=9)
    parser.add_argument("--moves", type=int, default=20)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as cache,
        serve("app.py", cache) as (lab, _),
        serve("benchmarks/plain_page.py", cache) as (plain, _),
        sync_playwright() as playwright,
    ):
        chromium = browser(playwright)
        targets = ((lab, ".lab-block svg.wide"), (plain, ".js-plotly-plot .heatmaplayer image"))
        paints: list[list[float]] = [[], []]
        for turn in range(options.paints + 1):
            for times, (address, drawn) in zip(paints, targets, strict=True):
                seconds = first_paint(chromium, address, drawn)
                if turn:  # the first only warms up the server
                    times.append(seconds)
        report("first paint of the home page", *paints)

        ours, yardstick = (chromium.new_page(viewport={"width": 1440, "height": 900}) for _ in range(2))
        ours.goto(f"{lab}/heat?v=1&alpha=0&source=text&text={TEXT.replace(' ', '+')}")
        yardstick.goto(plain)
        for page in (ours, yardstick):
            page.wait_for_selector(".heatmaplayer image")
            page.wait_for_timeout(2000)
        for what, both in (("the first figure", False), ("both figures", True)):
            moves: list[list[float]] = [[], []]
            for turn in range(options.moves + 2):
                for times, page in zip(moves, (ours, yardstick), strict=True):
                    page.bring_to_front()
                    # Always onwards: what has been drawn before would come out of a cache.
                    seconds = redraw(page, "ArrowRight", lines=both and page is ours)
                    if turn > 1:
                        times.append(seconds)
            report(f"α slider at 256 tokens to {what} redrawn", *moves)
            for page in (ours, yardstick):
                page.locator(".st-key-alpha input[type=range]").first.press("Home")
                page.wait_for_timeout(1000)
        chromium.close()


if __name__ == "__main__":
    main()
