"""Claims: what is compared with what, the verdicts by the stated rule, and the page that shows them."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from made_results import HEATED, result
from made_study import every_run, gains, made
from streamlit.testing.v1 import AppTest

import pages.parts  # noqa: F401  what it does in the first run of a server is for a server
from lab import link
from lab.claims import RULE, Case, Claim, Verdict, claims, keys
from lab.claims.claim import verdict
from lab.positions import Position
from lab.store import Store
from lab.store.starter import write_starter
from lab.tasks.recipes import recipe

ROOT = Path(__file__).parents[1]
TASKS = ("digits", "listops", "text", "pathfinder")


def named(results) -> dict[str, Claim]:
    return {claim.name: claim for claim in claims(results)}


def plain(config) -> bool:
    return not (config.permuted or config.matched or config.learnable or config.strides != (1,)) and config.alpha in (
        0,
        0.25,
    )


def test_the_claims_look_at_the_runs_of_the_starter_study():
    assert set(keys()) == {config.key for config in every_run()}


def test_without_runs_everything_is_planned_and_nothing_measured():
    found = named({})
    assert list(found) == [
        *("embedding", "attention", "worst", "place", "multi_scale", "commutation"),
        *("locality", "matched", "end", "learnable", "grid"),
    ]
    assert {claim.direction for claim in found.values()} == {Verdict.NOT_YET}
    assert {case.verdict for claim in found.values() for case in claim.cases} == {Verdict.NOT_YET}
    for name in ("embedding", "attention", "worst", "place", "commutation", "locality", "end"):
        assert tuple(case.task for case in found[name].cases) == TASKS, name
    assert [case.config.alpha for case in found["grid"].cases] == [0.0625, 0.125, 0.25, 0.375, 0.5]
    assert {case.task for case in found["matched"].cases} == {"digits"}
    assert [case.config.position for case in found["learnable"].cases] == list(HEATED)
    assert [(case.task, case.config.position) for case in found["multi_scale"].cases] == [
        *(("digits", position) for position in HEATED),
        ("listops", Position.AFTER_EMBEDDING),
    ]


def test_every_claim_finds_its_difference_and_its_sign():
    found = named(made(gains))
    expected = {
        "embedding": (4, Verdict.HOLDS),
        "attention": (-3, Verdict.HOLDS),
        "worst": (-4, Verdict.HOLDS),
        "place": (7, Verdict.HOLDS),
        "multi_scale": (2, Verdict.HOLDS),
        "locality": (8 / 3, Verdict.HOLDS),
        "matched": (7, Verdict.HOLDS),
        "end": (4, Verdict.HOLDS),
        "learnable": (-2, Verdict.FAILS),
        "grid": (4, Verdict.HOLDS),
    }
    for name, (points, said) in expected.items():
        claim = found[name]
        for case in claim.cases:
            assert case.value == pytest.approx(points, abs=0.25), (name, case.what)
            assert case.n == case.wanted
        assert claim.direction is said, name


def test_a_number_of_the_paper_needs_the_full_tasks_whatever_the_small_ones_say():
    found = named(made(gains))
    for name in ("embedding", "attention"):
        assert found[name].verdict is Verdict.NEEDS_LRA
        assert found[name].direction is Verdict.HOLDS
    assert found["place"].verdict is Verdict.HOLDS
    assert named(made(lambda config: -gains(config)))["embedding"].direction is Verdict.FAILS


def test_what_is_compared_is_the_same_seed():
    # With ten seeds on the one side and five on the other, only the five are pairs.
    found = named(made(gains, only=lambda c: plain(c) and (c.position is Position.BASELINE or c.seed < 5)))
    digits = found["embedding"].cases[0]
    assert (digits.n, digits.wanted) == (5, 10)
    assert digits.value == pytest.approx(4, abs=0.2)


def noisy(sizes):
    """A gain after the embedding that differs from seed to seed, by task."""

    def gain(config):
        return (
            sizes[config.task] * (1 + 0.9 * math.cos(2 * config.seed))
            if config.position is Position.AFTER_EMBEDDING
            else 0.0
        )

    return gain


def test_holm_counts_every_task_that_was_looked_at():
    sizes = dict.fromkeys(TASKS, 0.03)
    one = named(made(noisy(sizes), only=lambda c: c.task == "listops"))["embedding"]
    all_four = named(made(noisy(sizes)))["embedding"]
    alone = next(case for case in one.cases if case.task == "listops")
    among = next(case for case in all_four.cases if case.task == "listops")
    assert alone.value == among.value
    assert alone.verdict is Verdict.HOLDS
    assert alone.p < 0.05 < among.p
    assert among.verdict is Verdict.OPEN
    # What is said of the curves is corrected for as many tasks as the verdict beside it.
    end = next(case for case in named(made(noisy(sizes)))["end"].cases if case.task == "listops")
    assert end.verdict is Verdict.OPEN
    assert "not once corrected for 4 looks" in end.note


def test_worst_means_below_each_of_the_others():
    tie = named(made(lambda c: -0.03 if c.position in (Position.AFTER_ATTENTION, Position.AFTER_FFN) else 0.0))["worst"]
    assert {case.verdict for case in tie.cases} == {Verdict.OPEN}
    assert "after the FFN" in tie.cases[0].note
    lower = named(made(lambda c: {Position.AFTER_ATTENTION: -0.03, Position.BEFORE_HEAD: -0.06}.get(c.position, 0.01)))[
        "worst"
    ]
    assert {case.verdict for case in lower.cases} == {Verdict.FAILS}
    assert lower.cases[0].value == pytest.approx(3, abs=0.3)
    assert "before the head" in lower.cases[0].note
    # one of the six others is missing: nothing can be said
    without = named(made(gains, only=lambda c: c.position is not Position.BEFORE_HEAD))["worst"]
    assert without.direction is Verdict.NOT_YET


def chi_that_foretells(config) -> float:
    return 0.3 + 0.1 * (list(Position).index(config.position) * 5 % 8) / 8 + 0.001 * config.seed


@pytest.mark.parametrize(("sign", "said"), [(-1, Verdict.HOLDS), (+1, Verdict.FAILS)])
def test_commutation_is_a_rank_correlation_with_a_negative_sign(sign, said):
    found = named(made(lambda c: sign * (chi_that_foretells(c) - 0.35), chi=chi_that_foretells))["commutation"]
    assert found.direction is said
    assert all(case.value == pytest.approx(sign) for case in found.cases)
    assert found.cases[0].number.startswith("ρ = ")


def test_without_chi_there_is_no_rank_correlation():
    found = named(made(gains, chi=lambda config: None))
    assert found["commutation"].direction is Verdict.NOT_YET
    assert found["place"].direction is Verdict.HOLDS


def case_of(said: Verdict) -> Case:
    return Case("digits", "Digits", recipe("digits"), 5, verdict=said)


@pytest.mark.parametrize(
    ("said", "direction"),
    [
        ([], Verdict.NOT_YET),
        ([Verdict.NOT_YET] * 2, Verdict.NOT_YET),
        ([Verdict.HOLDS, Verdict.NOT_YET], Verdict.HOLDS),
        ([Verdict.HOLDS, Verdict.OPEN], Verdict.OPEN),
        ([Verdict.HOLDS, Verdict.FAILS], Verdict.FAILS),
        ([Verdict.OPEN, Verdict.OPEN], Verdict.OPEN),
    ],
)
def test_the_rule_over_several_tasks(said, direction):
    claim = Claim("name", "statement", "source", "test", tuple(map(case_of, said)))
    assert claim.direction is claim.verdict is direction


def test_the_rule_on_one_task():
    assert verdict(+1.0, 0.049) is Verdict.HOLDS
    assert verdict(-1.0, 0.049) is Verdict.FAILS
    assert verdict(+1.0, 0.05) is Verdict.OPEN
    assert verdict(+1.0, math.nan) is Verdict.OPEN
    assert all(said.value in RULE for said in Verdict if said is not Verdict.NOT_YET)


def test_a_number_is_written_with_its_interval():
    case = Case("digits", "Digits", recipe("digits"), 5, value=-4.125, low=-6.2, high=1.04, n=5)
    assert case.number == "−4.1 points [−6.2, +1.0]"
    assert Case("digits", "Digits", recipe("digits"), 5, value=-0.01, n=1).number == "+0.0 points"
    assert Case("digits", "Digits", recipe("digits"), 5, value=2.0, n=1).number == "+2.0 points"
    assert case_of(Verdict.NOT_YET).number == "not measured yet"


def test_a_link_shows_the_arm_that_a_case_is_about():
    for claim in claims({}):
        for case in claim.cases:
            values, problems = link.read(link.write(case.fields))
            assert not problems
            assert link.carries(case.config)
            asked = {
                k: values[k]
                for k in ("position", "alpha", "heat_steps", "seed", "permuted", "matched", "learnable", "steps")
            }
            shown = recipe(values["task"], values["size"], **asked, strides=link.STRIDES[values["strides"]])
            assert shown == case.config
            assert values["seeds"] == case.wanted


# -- the page ----------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    def run_app(path: str) -> None:
        exec(compile(Path(path).read_text(), path, "exec"), {"__name__": "__main__", "__file__": path})

    # AppTest takes a folder called pages/ for Streamlit's older kind of app in every run, and would leave app.py out.
    monkeypatch.setattr("streamlit.runtime.scriptrunner.script_runner._mpa_v1", run_app)
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAB_STARTER", str(tmp_path / "starter"))
    for cached in (st.cache_resource, st.cache_data):
        cached.clear()
    yield tmp_path
    for cached in (st.cache_resource, st.cache_data):
        cached.clear()


def opened(**params: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=90)
    app.query_params.update(params)
    app.run()
    app.switch_page("pages/claims.py").run()
    assert not app.exception
    assert not app.error
    return app


def words(app: AppTest) -> str:
    return "\n".join(element.value for element in (*app.markdown, *app.caption))


def test_the_page_on_an_empty_lab_says_what_is_missing_and_tests_the_theorems(cache: Path) -> None:
    app = opened()
    said = words(app)
    assert said.count(":gray-badge[not measured yet]") == 9
    assert said.count(":violet-badge[needs the full LRA]") == 2
    assert RULE in said
    assert len(app.table[0].value) == 25
    assert set(app.table[0].value["verdict"]) == {"holds"}
    assert "25 of 25 hold" in said
    assert "No trained model took part" in said
    assert all(part in said for part in ("Softmax", "Layer norm", "Residual path", "Repeated application"))


def test_the_page_shows_what_the_starter_study_says(cache: Path) -> None:
    results = made(gains, only=lambda c: c.task == "digits")
    write_starter(cache / "starter", results.values(), [], "abc", "2026-01-01")
    said = words(opened())
    assert "- Digits: **+4.0 points" in said
    assert "10 seeds, p < 0.001: holds" in said
    assert "Not measured yet: ListOps, Text, Pathfinder." in said
    assert ":red-badge[does not hold] **A learned α is better than a fixed one.**" in said
    assert ":green-badge[holds] **The place matters" in said
    # a result of the reader's own, made at the same config, takes the place of the one that was shipped
    own = recipe("digits", position=Position.AFTER_EMBEDDING, seed=1)
    Store(cache / "cache").put(result(own, 0.99), {})
    assert "- Digits: **+4.0 points" not in words(opened())


def test_a_trained_model_takes_part_where_there_is_one(cache: Path) -> None:
    import torch

    from lab.training import train_pack

    torch.set_num_threads(1)
    (trained,) = train_pack([recipe("digits", position=Position.AFTER_EMBEDDING, steps=2)], device="cpu")
    assert trained is not None
    Store(cache / "cache").put(trained.result, trained.arrays)
    app = opened(steps="2")
    said = words(app)
    assert "The trained model: digits" in said
    assert "No trained model" not in said
    assert set(app.table[0].value["verdict"]) == {"holds"}


def test_a_sidebar_that_describes_no_run_leaves_the_theorems(cache: Path) -> None:
    app = opened(alpha="0.5", learnable="true")
    assert "describes no run that can be trained" in words(app)
    assert len(app.table[0].value) == 25
