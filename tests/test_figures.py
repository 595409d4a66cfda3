import itertools
import json
import re

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab import heads, modes, representations
from lab.arms import Arm, arms
from lab.attention import MATRICES
from lab.config import RunConfig
from lab.errors import LabError
from lab.figures import accuracy, commutator, energy, learning, smoothing
from lab.figures.block import block_alt, block_drawing
from lab.figures.figure import Figure, chart
from lab.figures.palette import DIVERGING, POSITION_COLOURS, POSITION_SYMBOLS
from lab.heat import dirichlet_energy, heat_steps, transfer_function
from lab.positions import Position
from lab.results import CurvePoint, DepthProfile, OrderSwap, RunResult

TEXT = representations.of_text("to be or not to be", 0)
SIGNAL = representations.of_signal(40, 0.3, 0)
LARGE = representations.of_matrix(np.random.default_rng(0).standard_normal((900, 70)), "big.npy")
CONSTANT = representations.of_matrix(np.full((5, 3), 2.0), "constant.csv")


def result(position: Position) -> RunResult:
    profile = DepthProfile((1.0, 0.5, 0.1), (2.0, 2.0, 2.0), (OrderSwap(0.1, 0.05, 0.05),) * 2)
    config = RunConfig(position=position)
    return RunResult(config, 0.5, 0.1, (), profile, profile, (), 10, 500, 1.0, {})


def found(kind: str, alpha: float = 0.25) -> heads.Disagreement:
    return heads.disagreement(heads.built_in(kind, 12, alpha, width=2.0, seed=1), alpha)


FIGURES = {
    **{
        f"{name} {alpha} {steps}": (
            lambda given=given, alpha=alpha, steps=steps: smoothing.smoothing(given, alpha, steps)
        )
        for (name, given), alpha, steps in itertools.product(
            {"text": TEXT, "signal": SIGNAL, "large": LARGE, "constant": CONSTANT}.items(),
            (0.0, 0.25, 0.6),
            (1, 7, 100),
        )
    },
    **{
        f"transfer {alpha} {steps}": (lambda alpha=alpha, steps=steps: smoothing.transfer(TEXT, alpha, steps))
        for alpha, steps in itertools.product((0.0, 0.2, 0.4, 0.6), (1, 9))
    },
    "transfer of a constant": lambda: smoothing.transfer(CONSTANT, 0.25, 1),
    "decay": lambda: energy.decay(TEXT, [0.05, 0.25, 0.55], 60),
    "depth": lambda: energy.depth({p: result(p) for p in Position}),
    **{f"attention {k}": (lambda k=k: commutator.attention(found(k).attention, k, "theory")) for k in MATRICES},
    **{f"bracket {k}": (lambda k=k: commutator.bracket(found(k), 0.25, k, "theory")) for k in MATRICES},
    "norms": lambda: commutator.norms(found("content"), 0.25, "one seed"),
    "norms at 0": lambda: commutator.norms(found("content", 0.0), 0.0, "one seed"),
    "swap": lambda: commutator.swap(found("content", 0.6), "one seed"),
    "swap of identity": lambda: commutator.swap(found("identity"), "theory"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_says_what_it_is(name: str) -> None:
    figure = FIGURES[name]()
    assert figure.title
    assert figure.guide.endswith(".")
    assert figure.alt.endswith(".")
    if isinstance(figure.chart, dict):
        assert {"rows", "zones"} == set(figure.chart["datasets"])
        assert "Infinity" not in figure.chart["datasets"]["rows"].to_json()
        return
    titles = [
        a.title.text
        for a in (*figure.chart.select_xaxes(), *figure.chart.select_yaxes())
        if a.showticklabels is not False
    ]
    assert len(titles) >= 2
    assert all(titles)
    assert go.Figure(figure.chart.to_dict()).layout.height
    spec = figure.chart.to_json()
    assert "Infinity" not in spec
    assert len(spec) < 500_000


@pytest.mark.parametrize("missing", ["title", "guide", "alt"])
def test_a_figure_cannot_go_without_its_words(missing: str) -> None:
    plain = chart(300, [], xaxis={"title": {"text": "x"}}, yaxis={"title": {"text": "y"}})
    words = {"title": "A title", "guide": "How to read it.", "alt": "What it shows.", "basis": "theory"}
    Figure(plain, **words)
    with pytest.raises(ValueError, match=missing):
        Figure(plain, **{**words, missing: " "})
    with pytest.raises(ValueError, match="basis"):
        Figure(plain, **{**words, "basis": "guess"})
    with pytest.raises(ValueError, match="yaxis has no title"):
        Figure(chart(300, [], xaxis={"title": {"text": "x"}}, yaxis={}), **words)


def test_frames_are_the_heat_steps_that_the_slider_names() -> None:
    picture = smoothing.smoothing(TEXT, 0.3, 7).chart
    assert picture.layout.sliders[0].steps[picture.layout.sliders[0].active].label == "7"
    assert [frame.name for frame in picture.frames] == [step.label for step in picture.layout.sliders[0].steps]
    x = torch.from_numpy(TEXT.x)
    for frame in picture.frames:
        expected = heat_steps(x, 0.3, int(frame.name)).numpy().T
        np.testing.assert_allclose(np.asarray(frame.data[0].z), expected, atol=1e-5)
        assert frame.data[0].z.dtype == np.float32


def test_the_transfer_figure_holds_the_transfer_function_and_stands_while_alpha_moves() -> None:
    one, other = (smoothing.transfer(TEXT, alpha, 3).chart for alpha in (0.2, 0.6))
    assert {**one, "datasets": None} == {**other, "datasets": None}  # or the browser makes the chart anew
    rows, zones = other["datasets"]["rows"], other["datasets"]["zones"]
    n = len(TEXT.x)
    np.testing.assert_allclose(rows["one"], transfer_function(n, 0.6, allow_unstable=True).numpy(), atol=1e-12)
    ratio = np.abs(transfer_function(n, 0.6, 3, allow_unstable=True).numpy())
    seen = rows["after"] > rows["low"]
    np.testing.assert_allclose((rows["after"] / rows["before"])[seen], ratio[seen], rtol=1e-9)
    assert [(words.split()[0], reached) for words, reached in zip(zones["words"], zones["reached"], strict=True)] == [
        ("smoothing:", False),
        ("ringing", False),
        ("unstable", True),
    ]
    written = str({**one, "datasets": None})
    assert all(title in written for title in ("cosine mode k (slow → fast)", "'factor'", "amplitude (rms)"))


def test_signed_figures_are_symmetric_about_zero() -> None:
    axis = smoothing.smoothing(TEXT, 0.3, 7).chart.layout.coloraxis
    assert axis.cmin == -axis.cmax
    trace = commutator.bracket(found("content"), 0.25, "content", "one seed").chart.data[0]
    assert trace.zmin == -trace.zmax
    assert [1 - at for at, _ in reversed(DIVERGING)] == pytest.approx([at for at, _ in DIVERGING])


@given(st.integers(2, 40), st.floats(0, 0.6), st.integers(0, 30), st.integers(0, 9))
def test_the_numpy_heat_step_is_the_lab_s(n: int, alpha: float, steps: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((n, 3))
    tensor = torch.from_numpy(x)
    smooth = heat_steps(tensor, alpha, steps, allow_unstable=True)
    size = float(smooth.abs().max()) + 1
    np.testing.assert_allclose(modes.smoothed(x, alpha, [steps])[0], smooth.numpy(), atol=1e-9 * size)
    expected = transfer_function(n, alpha, steps, allow_unstable=True).numpy()
    np.testing.assert_allclose(modes.factors(n, alpha, steps), expected, atol=1e-9 * size)
    measured = float(dirichlet_energy(smooth))
    for of in (modes.exact_energy, modes.measured_energy):
        np.testing.assert_allclose(of(x, alpha, [0, steps])[1], measured, rtol=1e-6, atol=1e-9)


def test_heads_are_the_built_in_matrices_and_only_content_looks_elsewhere() -> None:
    for kind, matrix in MATRICES.items():
        head = heads.built_in(kind, 20, 0.3, width=2.0, seed=4)
        torch.testing.assert_close(head.p, matrix.build(20, width=2.0, seed=4))
        assert bool((head.p == head.p_smoothed).all()) == (kind != "content")
        swap = heads.disagreement(head, 0.3)
        for norm, bound in swap.norms.values():
            assert norm <= bound * (1 + 1e-12)
        assert swap.chi <= swap.routing + swap.operator + 1e-12
    assert found("uniform").chi == pytest.approx(0, abs=1e-12)
    assert np.abs(found("identity").commutator).max() == 0


def test_the_unstable_commutator_is_the_formula() -> None:
    p = MATRICES["content"].build(9, seed=1)
    laplacian = (
        torch.diag(torch.full((9,), 2.0, dtype=torch.float64))
        - torch.diag(torch.ones(8), 1)
        - torch.diag(torch.ones(8), -1)
    )
    laplacian[0, 0] = laplacian[-1, -1] = 1
    shown = heads.disagreement(heads.built_in("content", 9, 0.6, width=2.0, seed=1), 0.6)
    np.testing.assert_allclose(shown.commutator, (0.6 * (p @ laplacian - laplacian @ p)).numpy(), atol=1e-12)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("background", ["#FCFBF9", "#12161C"])
def test_positions_have_their_own_colour_and_symbol_that_can_be_seen(background: str) -> None:
    assert set(POSITION_COLOURS) == set(POSITION_SYMBOLS) == set(Position)
    assert len(set(POSITION_COLOURS.values())) == len(set(POSITION_SYMBOLS.values())) == len(Position)
    for colour in POSITION_COLOURS.values():
        light, dark = sorted((luminance(colour), luminance(background)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 2


@pytest.mark.parametrize("position", Position)
def test_the_drawing_marks_the_chosen_place(position: Position) -> None:
    drawing = block_drawing(position)
    assert drawing.count("<svg") == 2
    assert drawing.count('class="chosen"') == (position is not Position.BASELINE)
    assert all(p.label in drawing for p in Position if p is not Position.BASELINE)
    assert (position.label in block_alt(position).rsplit(".", 2)[1]) == (position is not Position.BASELINE)


def test_equal_tokens_have_no_energy_to_decay():
    with pytest.raises(LabError, match="All tokens are equal"):
        energy.decay(CONSTANT, [0.05], 5)


def test_energy_is_said_to_grow_only_where_it_does():
    """Just above 1/2 the fastest mode of a short sequence still shrinks."""
    short = representations.of_matrix(np.random.default_rng(0).standard_normal((4, 2)), "short.csv")
    assert "falls for every" in energy.decay(short, [0.51], 20).alt
    assert "grows for α = 0.6" in energy.decay(short, [0.25, 0.6], 20).alt


BASE = (0.50, 0.54, 0.46, 0.52, 0.48)
GAINS = {
    (Position.AFTER_EMBEDDING, False): (0.10, 0.12, 0.11, 0.09, 0.10),
    (Position.AFTER_EMBEDDING, True): (0.02, 0.05, 0.03, 0.02, 0.04),
    (Position.AFTER_FFN, False): (0.02, -0.02, 0.01, -0.01, 0.005),
}


def trained(seeds: int = 5, permuted: bool = True) -> list[Arm]:
    """Arms of made-up runs whose curves rise straight to their accuracy."""
    profile = DepthProfile((1.0, 0.5), (2.0, 2.0), ())

    def run(seed: int, end: float, **arm: object) -> RunResult:
        curve = (CurvePoint(10, 2.0, 0.2), CurvePoint(20, 1.0, end))
        return RunResult(RunConfig(seed=seed, **arm), end, 0.1, curve, profile, profile, (), 10, 500, 1.0, {})

    runs = [run(s, BASE[s]) for s in range(seeds)]
    for (position, random), gains in GAINS.items():
        if permuted or not random:
            runs += [run(s, BASE[s] + gains[s], position=position, permuted=random) for s in range(seeds)]
    return arms(runs)


def drawn(figure: Figure, field: str) -> list[dict[str, object]]:
    """The rows of an Altair figure's data that have a field."""
    datasets = figure.chart.to_dict()["datasets"].values()
    return [row for rows in datasets for row in rows if field in row]


def test_every_seed_is_a_mark_and_the_chosen_row_is_tinted():
    found = trained()
    figure = accuracy.by_position(found, 0.1, Position.AFTER_FFN)
    marks = [(r["position"], r["control"], r["seed"], r["accuracy"]) for r in drawn(figure, "accuracy")]
    expected = [
        (a.config.position.label, "random neighbours" if a.config.permuted else "real neighbours", r.config.seed)
        for a in found
        for r in a.results
    ]
    assert [mark[:3] for mark in marks] == expected
    assert [mark[3] for mark in marks] == pytest.approx([100 * r.accuracy for a in found for r in a.results])
    assert [row["position"] for row in drawn(figure, "tint") if row["tint"]] == [Position.AFTER_FFN.label]
    assert not [row for row in drawn(accuracy.by_position(found, 0.1), "tint") if row["tint"]]
    assert figure.basis == "5 seeds"
    assert "after_embedding" in figure.alt


def test_a_click_selects_a_position_and_nothing_else():
    for figure in (accuracy.by_position(trained(), 0.1), accuracy.difference(trained())):
        selections = [p for p in figure.chart.to_dict()["params"] if "select" in p]
        assert [(p["name"], p["select"]["fields"]) for p in selections] == [("chosen", ["position"])]


def test_choosing_changes_the_data_of_a_figure_and_not_its_specification():
    """Or the browser would make the chart anew at every click. Streamlit gives the names of data and views a stable form."""

    def specification(chosen: Position) -> str:
        spec = accuracy.difference(trained(), chosen).chart.to_dict()
        return re.sub(r"(data-|view_)\w+", r"\1", json.dumps({**spec, "datasets": None}))

    assert specification(Position.AFTER_FFN) == specification(Position.BEFORE_HEAD)


def test_the_intervals_are_their_own_and_the_verdicts_corrected():
    figure = accuracy.difference(trained())
    rows = {(row["position"], row["control"]): row for row in drawn(figure, "verdict")}
    first = rows["after the embedding", "real neighbours"]
    arm = next(a for a in trained() if a.difference and not a.config.permuted)
    assert (first["difference"], first["low"]) == pytest.approx((100 * arm.difference.mean, 100 * arm.difference.low))
    assert first["verdict"] == "above the baseline at n = 5"
    assert rows["after the FFN", "real neighbours"]["verdict"] == "not distinguishable from the baseline at n = 5"
    assert "Holm" in figure.guide
    assert "2 positions" in figure.guide
    assert "after the embedding (permuted) +3.2 points, above the baseline at n = 5" in figure.alt


def test_slopes_join_each_seed_from_the_baseline_to_the_arm():
    found = trained()
    real, random = (
        next(a for a in found if a.config.position is Position.AFTER_EMBEDDING and a.config.permuted is p)
        for p in (False, True)
    )
    figure = accuracy.slopes(real, random)
    lines = {seed: [row["accuracy"] for row in drawn(figure, "at") if row["seed"] == seed] for seed in range(5)}
    for seed, heights in lines.items():
        gains = [0, GAINS[Position.AFTER_EMBEDDING, True][seed], GAINS[Position.AFTER_EMBEDDING, False][seed]]
        assert heights == pytest.approx([100 * (BASE[seed] + gain) for gain in gains])
    assert "In 5 of 5" in figure.guide
    assert "seed 0 50.0 % to 60.0 %" in figure.alt
    alone = accuracy.slopes(next(a for a in trained(1, permuted=False) if a.config.position is Position.AFTER_FFN))
    assert [row["at"] for row in drawn(alone, "at")] == ["baseline", "real neighbours"]
    assert alone.basis == "one seed"
    with pytest.raises(ValueError, match="both the baseline and the arm"):
        accuracy.slopes(found[0])


@pytest.mark.parametrize("quantity", ["accuracy", "loss"])
def test_learning_curves_hold_every_point_and_the_means(quantity):
    found = trained()
    runs = {r.config: r.curve for arm in found for r in arm.results}
    figure = learning.curves(runs, quantity)
    assert len(drawn(figure, "run")) == 2 * len(runs)
    ends = [row["value"] for row in drawn(figure, "n") if row["step"] == 20]
    expected = [100 * arm.mean for arm in found] if quantity == "accuracy" else [1.0] * len(found)
    assert sorted(ends) == pytest.approx(sorted(expected))


def test_the_difference_of_curves_has_the_band_of_the_chosen_position_alone():
    figure = learning.difference(trained(), Position.AFTER_EMBEDDING)
    lines = drawn(figure, "strong")
    assert {(r["position"], r["control"]) for r in lines if r["strong"]} == {
        ("after the embedding", "real neighbours"),
        ("after the embedding", "random neighbours"),
    }
    end = next(r for r in lines if r["position"] == "after the FFN" and r["step"] == 20)
    assert end["difference"] == pytest.approx(0.1)
    assert [r["difference"] for r in lines if r["step"] == 10] == pytest.approx(
        [0.0] * len([r for r in lines if r["step"] == 10])
    )
    assert "after the embedding +10.4 points" in figure.alt
    assert "own interval" in figure.guide
    other = learning.difference(trained(), Position.BEFORE_HEAD)
    assert not any(r["strong"] for r in drawn(other, "strong"))
    assert "random neighbours" not in {r["control"] for r in drawn(other, "strong")}
    with pytest.raises(ValueError, match="both the baseline and an arm"):
        learning.difference(trained()[:1], Position.AFTER_FFN)
