import itertools

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab import heads, modes, representations
from lab.attention import MATRICES
from lab.config import RunConfig
from lab.errors import LabError
from lab.figures import commutator, energy, smoothing
from lab.figures.block import block_alt, block_drawing
from lab.figures.figure import Figure, chart
from lab.figures.palette import DIVERGING, POSITION_COLOURS, POSITION_SYMBOLS
from lab.heat import dirichlet_energy, heat_steps, transfer_function
from lab.positions import Position
from lab.results import DepthProfile, OrderSwap, RunResult

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
