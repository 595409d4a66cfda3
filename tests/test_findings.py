"""The page of findings: numbers in their places, nothing left open, figures that are there, and the page in the repository up to date."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from made_study import gains, made

from lab.errors import LabError
from lab.findings import FOLDER, render, svg, write
from lab.positions import Position
from lab.store.starter import Manifest, Starter, write_starter

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TEMPLATE = (DOCS / "findings.template.md").read_text(encoding="utf-8")
SHIPPED = ROOT / "cache" / "starter"
MANIFEST = Manifest("0123456789abcdef", "2026-01-02", {"torch": "2.13.0"}, ("python -m lab study",), 345, 660.0, "")


@pytest.fixture(scope="module")
def digits():
    return made(gains, only=lambda config: config.task == "digits")


def test_every_place_of_the_template_is_filled():
    text, figures = render(TEMPLATE, made(gains), MANIFEST)
    assert "not measured yet" not in text
    assert "$" not in text
    assert set(re.findall(rf"\({FOLDER}/([^)]+)\)", text)) == set(figures)
    assert len(figures) == len(re.findall(r"\$figure_", TEMPLATE)) >= 3


def test_numbers_stand_where_they_are_named(digits):
    text, _ = render(
        "$embedding_digits|$embedding_listops|$multi_scale_digits|$learnable_verdict|$runs|$commit|$minutes",
        digits,
        MANIFEST,
    )
    embedding, listops, strides, learnable, *rest = text.split("|")
    assert re.fullmatch(r"\+4\.0 points \[\+3\.\d, \+4\.\d\] \(n = 10: holds\)", embedding)
    assert listops == "not measured yet"
    assert strides == "holds in 7 of 7"
    assert learnable == "does not hold"
    assert rest == ["345", "0123456789", "11"]


def test_the_table_of_claims_has_a_column_for_every_task(digits):
    rows = [row.split(" | ") for row in render("$claims", digits, MANIFEST)[0].splitlines()]
    assert rows[0] == ["| claim", "Digits", "ListOps", "Text", "Pathfinder", "verdict |"]
    assert len(rows) == 2 + 11
    assert {len(row) for row in rows} == {6}
    first = rows[2]
    assert first[2:5] == ["not measured yet"] * 3
    assert first[5] == "needs the full LRA; direction: holds |"
    assert next(row for row in rows if "same total α. (this" in row[0])[2:5] == ["–"] * 3


def test_the_baselines_are_those_of_each_task(digits):
    rows = render("$baselines", digits, MANIFEST)[0].splitlines()
    # the made baselines are 50 to 65 %, the same four again from seed to seed
    assert re.fullmatch(r"\| Digits \| 300 \| 56\.\d% \| 10\.0% \| 10 \| 500 \|", rows[2])
    assert rows[3].startswith("| ListOps | 600 | not measured yet")


@pytest.mark.parametrize(
    ("template", "word"),
    [
        ("$acuracy_digits", "acuracy_digits"),
        ("$figure_difference_chess", "figure_difference_chess"),
        ("$figure_portrait_digits", "figure_portrait_digits"),
        ("costs $ 5", "placeholder"),
    ],
)
def test_a_place_that_nothing_fills_is_an_error(digits, template, word):
    with pytest.raises(LabError, match=word):
        render(template, digits, MANIFEST)


def test_a_figure_without_runs_is_said_to_be_missing(digits):
    text, figures = render("$figure_difference_text $figure_difference_digits", digits, MANIFEST)
    assert "A figure of these runs: not measured yet." in text
    assert list(figures) == ["difference-digits.svg"]


def test_figures_are_exported_with_their_axes(digits, tmp_path):
    template = "$figure_difference_digits\n$figure_grid_digits\n$figure_growth_digits\n$figure_order_digits\n"
    assert write(tmp_path / "page.md", template, digits, MANIFEST) == 4
    assert (tmp_path / "page.md").read_text(encoding="utf-8").count("![") == 4
    words = {
        "difference": "difference (percentage points)",
        "grid": "0.375",
        "growth": "training step",
        "order": "accuracy change (points)",
    }
    for name, word in words.items():
        drawn = (tmp_path / FOLDER / f"{name}-digits.svg").read_text(encoding="utf-8")
        assert drawn.startswith("<svg")
        assert word in drawn


def test_the_same_runs_draw_the_same_picture(digits):
    draw = lambda: svg(render("$figure_difference_digits", digits, MANIFEST)[1]["difference-digits.svg"])  # noqa: E731
    assert draw() == draw()


def test_the_grid_of_a_task_is_that_of_the_fixed_single_stride():
    """A learned α, several strides or a matched total at the same α must not be taken for a cell of the grid."""

    def gain(config):
        return gains(config) - (0.1 if config.matched or config.learnable or config.strides != (1,) else 0.0)

    _, figures = render("$figure_grid_digits", made(gain, only=lambda config: config.task == "digits"), MANIFEST)
    words = figures["grid-digits.svg"].alt
    assert "after the embedding at α = 0.25 +4.0, n = 10" in words
    assert "after the embedding at α = 0.5 +4.0, n = 5" in words
    assert "after the attention at α = 0.25 -3.0, n = 10" in words


def command(tmp_path, *words):
    env = {
        **os.environ,
        "LAB_CACHE": str(tmp_path / "cache"),
        "LAB_STARTER": str(tmp_path / "starter"),
        "NO_COLOR": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "lab", "findings", *words],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_command_writes_the_page_of_the_study_that_is_there(digits, tmp_path):
    some = [run for run in digits.values() if run.config.position in (Position.BASELINE, Position.AFTER_EMBEDDING)]
    write_starter(tmp_path / "starter", some, [], "abc", "2026-01-02")
    done = command(tmp_path, "--out", str(tmp_path / "docs" / "page.md"))
    assert done.returncode == 0, done.stderr
    starter = Starter(tmp_path / "starter")
    expected, _ = render(TEMPLATE, {run.config.key: run for run in starter.results()}, starter.manifest)
    assert (tmp_path / "docs" / "page.md").read_text(encoding="utf-8") == expected
    assert len(list((tmp_path / "docs" / FOLDER).glob("*.svg"))) >= 2


def test_the_command_without_a_study_is_one_sentence(tmp_path):
    done = command(tmp_path)
    assert done.returncode == 2
    assert "no starter study" in done.stderr
    assert done.stderr.count("\n") == 1


def test_every_figure_of_the_page_in_the_repository_is_there_and_no_other():
    text = (DOCS / "findings.md").read_text(encoding="utf-8")
    assert set(re.findall(rf"\({FOLDER}/([^)]+)\)", text)) == {path.name for path in (DOCS / FOLDER).iterdir()}


@pytest.mark.skipif(
    not SHIPPED.exists(), reason="the starter study is not in cache/starter yet, so there is nothing to compare"
)
def test_the_page_in_the_repository_is_what_the_command_writes_now():
    starter = Starter(SHIPPED)
    assert starter.manifest is not None, starter.problem
    text, _ = render(TEMPLATE, {run.config.key: run for run in starter.results()}, starter.manifest)
    assert (DOCS / "findings.md").read_text(encoding="utf-8") == text
