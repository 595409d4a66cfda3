"""Pages 5 and 6: what their figures draw of results whose numbers are known, and what is said of them."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from made_results import BASE, HEATED, result, study, wobble

from lab import locality, modes
from lab.arms import arms
from lab.figures import grid, order
from lab.figures.figure import Figure
from lab.positions import Position
from lab.prediction import chi, correlation, mean_chi
from lab.statistics import RankCorrelation
from lab.tasks.recipes import recipe

STRONG, WEAK, EMPTY = HEATED[0], HEATED[1], HEATED[6]


def gains(position: Position, alpha: float, permuted: bool, seed: int) -> float | None:
    """One position gains 20 points beyond doubt, one 3 points that stand alone but not among seven, one has no runs at α = 0.5."""
    if position is EMPTY and alpha == 0.5:
        return None
    if position is STRONG:
        return wobble(0.2, seed) if not permuted else wobble(0.05, 4 - seed)
    return wobble(0.03, seed, 0.015) if position is WEAK else wobble(0.0, 4 - seed, 0.02)


FOUND = arms(study(gains, (0.25, 0.5)))
ONE = [arm for arm in FOUND if arm.config.alpha != 0.5]


def rows(figure: Figure, layer: int = -1) -> pd.DataFrame:
    """The data of one layer of a chart, by default the marks; that of the whole chart where all layers share it."""
    data = figure.chart.layer[layer].data
    return data if isinstance(data, pd.DataFrame) else figure.chart.data


def cells(figure: Figure) -> dict[tuple[str, float], dict]:
    """The drawn cells of a heatmap by position and α: those of the layer that is coloured by the difference."""
    coloured = [
        layer.data
        for layer in figure.chart.layer
        if "difference:Q" in str(layer.encoding.color) and isinstance(layer.data, pd.DataFrame)
    ]
    assert len(coloured) == 1
    return {(row["position"], row["alpha"]): row for row in coloured[0].to_dict("records")}


def test_a_cell_holds_the_mean_paired_difference_and_its_interval():
    drawn = cells(grid.heatmap(FOUND, (0.25, 0.5)))
    strong = drawn[STRONG.label, 0.25]
    assert strong["difference"] == pytest.approx(20)
    half = 100 * 2.7764451 * np.std([-0.02, -0.01, 0, 0.01, 0.02], ddof=1) / math.sqrt(5)  # t with 4 degrees of freedom
    assert (strong["low"], strong["high"]) == pytest.approx((20 - half, 20 + half))
    assert (strong["n"], strong["words"]) == (5, "+20.0 ▲")


def test_a_cell_is_marked_only_where_it_clears_0_after_correction():
    arm = next(a for a in FOUND if a.config.position is WEAK and a.config.alpha == 0.25 and not a.config.permuted)
    assert arm.difference.p < 0.05 < arm.p  # alone it would be clear
    drawn = cells(grid.heatmap(FOUND, (0.25, 0.5)))
    assert {where for where, row in drawn.items() if row["mark"]} == {(STRONG.label, 0.25), (STRONG.label, 0.5)}
    assert drawn[WEAK.label, 0.25]["words"] == "+3.0"
    assert "13 cells" in grid.heatmap(FOUND, (0.25, 0.5)).guide


def test_a_loss_is_marked_downwards():
    lost = arms(study(lambda position, alpha, permuted, seed: -gains(position, alpha, permuted, seed)))
    assert cells(grid.heatmap(lost, (0.25,)))[STRONG.label, 0.25]["words"] == "-20.0 ▼"


def test_cells_without_runs_are_empty_and_can_be_clicked():
    figure = grid.heatmap(FOUND, (0.125, 0.25, 0.5))
    drawn = cells(figure)
    assert len(drawn) == 13
    assert (EMPTY.label, 0.5) not in drawn
    empty = next(layer for layer in figure.chart.layer if "strokeDash" in layer.to_dict()["mark"]).data
    assert len(empty) == 8
    assert empty["difference"].isna().all()
    assert set(empty["words"]) == {""}
    (selection,) = figure.chart.to_dict()["params"]
    assert selection["name"] == "chosen"
    assert selection["select"]["fields"] == ["position", "alpha"]
    assert "13 of 21 cells" in figure.alt


def test_the_alt_text_tells_the_numbers_of_the_heatmap():
    alt = grid.heatmap(FOUND, (0.25, 0.5)).alt
    assert f"{STRONG.label} at α = 0.25 +20.0, n = 5" in alt
    assert f"{WEAK.label} at α = 0.5 +3.0, n = 5" in alt
    assert "none" not in alt
    assert "none" in grid.heatmap(arms(study(lambda *_: 0.0)), (0.25,)).alt


def test_the_colours_are_symmetric_about_0():
    coloured = next(
        layer for layer in grid.heatmap(FOUND, (0.25, 0.5)).chart.layer if "difference:Q" in str(layer.encoding.color)
    )
    domain = coloured.to_dict()["encoding"]["color"]["scale"]["domain"]
    assert domain == pytest.approx([-at for at in reversed(domain)])
    assert domain[-1] == pytest.approx(20)


def test_real_minus_random_neighbours_in_the_heatmap():
    drawn = cells(grid.heatmap(FOUND, (0.25, 0.5), "permuted"))
    assert drawn[STRONG.label, 0.25]["difference"] == pytest.approx(15)
    assert drawn[WEAK.label, 0.25]["difference"] == pytest.approx(0)
    real = arms([r for r in study(gains, (0.25,)) if not r.config.permuted])
    figure = grid.heatmap(real, (0.25,), "permuted")
    assert "0 of 7 cells" in figure.alt
    assert figure.basis == "theory"


def test_the_bands_are_the_regimes_of_the_heat_step():
    alphas = (0.0625, 0.25, 0.26, 0.49, 0.5)
    spans = rows(grid.heatmap(FOUND, alphas), 0)
    assert list(zip(spans["step"], spans["last"], strict=True)) == [
        ("0.0625", "0.25"),
        ("0.26", "0.49"),
        ("0.5", "0.5"),
    ]
    for alpha in alphas:
        least = modes.factors(400, alpha, 1).min()
        (words,) = [words for words, *_, inside in grid.REGIMES if inside(alpha)]
        assert (words == "smooths") == (least >= 0)
        assert (words == "edge") == (least < -0.99)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"matched": True}, "α/N"), ({"strides": (1, 2)}, "share α"), ({"learnable": True}, "where training starts")],
)
def test_the_guide_says_where_alpha_is_not_what_every_application_takes(changes, words):
    other = arms([result(r.config.with_(**changes), r.accuracy) for r in study(gains, (0.25,), range(2))])
    assert words in grid.heatmap(other, (0.25,)).guide
    assert words not in grid.heatmap(FOUND, (0.25,)).guide


def test_real_and_random_neighbours_stand_side_by_side_and_joined():
    figure = grid.neighbours(ONE)
    drawn = rows(figure).set_index(["position", "control"])["difference"]
    assert drawn[STRONG.label, "real neighbours"] == pytest.approx(20)
    assert drawn[STRONG.label, "random neighbours"] == pytest.approx(5)
    assert len(drawn) == 14
    joined = [layer for layer in figure.chart.to_dict()["layer"] if layer["mark"]["type"] == "line"]
    assert [layer["encoding"]["detail"]["field"] for layer in joined] == ["position"]
    assert f"{STRONG.label} (permuted) +5.0" in figure.alt


def test_what_locality_adds_is_paired_by_seed_and_corrected_for_its_own_comparisons():
    figure = grid.locality(ONE)
    strong = rows(figure).set_index("position").loc[STRONG.label]
    pairs = [wobble(0.2, seed) - wobble(0.05, 4 - seed) for seed in range(5)]
    half = 100 * 2.7764451 * np.std(pairs, ddof=1) / math.sqrt(5)
    assert (strong["difference"], strong["high"]) == pytest.approx((15, 15 + half))
    assert "13 such comparisons" in figure.guide
    assert f"{STRONG.label} +15.0 points, above its permuted control at n = 5" in figure.alt
    with pytest.raises(ValueError, match="random neighbours"):
        grid.locality([arm for arm in ONE if arm.local is None])


def test_the_comparisons_with_the_control_are_a_family_of_their_own():
    """α = 0.5 has no permuted control, so seven were compared with one and fourteen with the baseline."""
    some = study(lambda p, *rest: gains(STRONG, *rest), (0.25, 0.5))
    found = arms([r for r in some if not (r.config.permuted and r.config.alpha == 0.5)])
    arm = next(a for a in found if a.local)
    assert (arm.looks, arm.looks_local) == (14, 7)
    assert "for 7 such comparisons" in grid.locality(found).guide


CASES = {
    locality.KEPT: (0.2, 0.199, 0.02),
    locality.SHARED: (0.2, 0.1, 0.005),
    locality.LOCAL: (0.2, 0.0, 0.005),
    locality.OPEN: (0.04, 0.02, 0.02),
    locality.WORSE: (0.0, 0.2, 0.005),
    locality.BETTER: (0.0, -0.2, 0.005),
    locality.NONE: (0.0, 0.001, 0.02),
}


@pytest.mark.parametrize("said", CASES)
def test_what_a_control_says_of_a_gain(said):
    real, random, size = CASES[said]

    def gain(position, alpha, permuted, seed):
        if position is not STRONG:
            return None
        return wobble(random, 3 * seed, size) if permuted else wobble(real, seed, size)

    found = arms(study(gain))
    assert {words: [a.config.position for a in group] for words, group in locality.in_words(found).items()} == {
        said: [STRONG]
    }


def test_without_a_control_nothing_is_said_of_locality():
    found = arms([r for r in study(gains) if not r.config.permuted])
    assert list(locality.in_words(found)) == [locality.MISSING]


# -- order and accuracy ----------------------------------------------------------------------------------------------


def chis(position: Position, seed: int) -> float:
    """χ falls from position to position, by a tenth each."""
    return 1.0 - 0.1 * list(Position).index(position) + 0.01 * seed


def falling(position: Position, alpha: float, permuted: bool, seed: int) -> float:
    """The gain rises from position to position, so it falls with χ; under permutation the other way round."""
    rank = list(Position).index(position)
    return wobble(0.02 * (rank if not permuted else 8 - rank), seed, 0.001)


ORDERED = arms(study(falling, chi=chis))


def test_chi_is_the_mean_over_layers_before_or_after_training():
    config = recipe("digits")
    run = result(config, 0.5, chi=0.3, final_chi=0.7)
    assert (chi(run, "initial"), chi(run, "final")) == pytest.approx((0.3, 0.7))
    assert chi(result(config, 0.5, chi=None), "initial") is None
    first = next(a for a in ORDERED if a.config.position is STRONG)
    assert mean_chi(first, "initial").mean == pytest.approx(0.9 + 0.02)


def test_the_rank_correlation_is_over_real_neighbours_and_shared_seeds():
    rank = correlation(ORDERED, "initial")
    assert (rank.rho, rank.n, rank.seeds) == (-1.0, 7, 5)
    assert (rank.low, rank.high) == pytest.approx((-1, -1))
    fewer = arms([r for r in study(falling, chi=chis) if not (r.config.position is STRONG and r.config.seed > 2)])
    assert correlation(fewer, "initial").seeds == 3
    flat = correlation(ORDERED, "final")  # the same χ everywhere
    assert math.isnan(flat.rho)
    assert correlation(arms(study(falling, chi=lambda *_: None)), "initial").n == 0
    assert correlation([], "initial").seeds == 0


def test_chi_against_accuracy_draws_both_means_with_their_intervals_and_says_rho():
    rank = correlation(ORDERED, "initial")
    figure = order.against_accuracy(ORDERED, "initial", rank)
    drawn = rows(figure).set_index(["position", "control"]).loc[(STRONG.label, "real neighbours")]
    assert (drawn["x_mean"], drawn["y_mean"]) == pytest.approx((0.92, 2.0))
    half = 2.7764451 * np.std([0, 0.01, 0.02, 0.03, 0.04], ddof=1) / math.sqrt(5)
    assert (drawn["x_low"], drawn["x_high"]) == pytest.approx((0.92 - half, 0.92 + half))
    assert len(rows(figure)) == 14
    said = "Spearman's ρ = -1.00, 95 % interval -1.00 to -1.00 (7 positions, n = 5 seeds)"
    assert figure.chart.to_dict()["title"]["text"] == said
    assert said in figure.alt
    assert f"{STRONG.label} χ 0.920, +2.0 points" in figure.alt


@pytest.mark.parametrize(
    ("rank", "words"),
    [
        (RankCorrelation(math.nan, math.nan, math.nan, 2, 5), "No rank correlation: 2 positions at 5 shared seeds"),
        (
            RankCorrelation(0.5, math.nan, math.nan, 7, 2),
            "Spearman's ρ = +0.50, no interval (7 positions, n = 2 seeds)",
        ),
    ],
)
def test_a_correlation_without_an_interval_says_so(rank, words):
    assert order.in_words(rank) == words


@pytest.mark.parametrize("layer", [0, 1])
def test_the_parts_of_chi_are_drawn_for_each_layer_on_one_scale(layer):
    figure = order.parts(ORDERED, layer)
    drawn = rows(figure)
    assert set(drawn["layer"]) == {layer + 1}
    assert len(drawn) == 8 * 3 * 2  # positions, parts, before and after
    at = drawn.set_index(["position", "part", "when"])["mean"]
    value = 0.92
    expected = (value + 0.1, value / 2, value / 4) if layer == 0 else (value - 0.1, value / 3, value / 5)
    for part, size in zip(order.PARTS.values(), expected, strict=True):
        assert at[STRONG.label, part, "at initialisation"] == pytest.approx(size)
    assert at[STRONG.label, "both (χ)", "after training"] == pytest.approx(0.7 if layer == 0 else 0.5)
    scales = [order.parts(ORDERED, at).chart.to_dict()["layer"][-1]["encoding"]["x"]["scale"] for at in (0, 1)]
    assert scales[0] == scales[1]
    assert scales[0]["domain"][1] > drawn["mean"].max()


def test_roughness_through_the_depth_is_the_mean_over_seeds_with_its_band():
    before, after = (order.depth(ORDERED, when) for when in ("initial", "final"))
    at = rows(after).set_index(["position", "after"])
    last = at.loc[(STRONG.label, "block 2")]
    half = 2.7764451 * np.std([0, 0.1, 0.2, 0.3, 0.4], ddof=1) / math.sqrt(5)
    assert (last["mean"], last["low"], last["high"]) == pytest.approx((0.4, 0.4 - half, 0.4 + half))
    assert len(at) == 8 * 3
    assert f"{STRONG.label} 0.400" in after.alt
    assert f"{STRONG.label} 0.200" in before.alt
    domains = [f.chart.to_dict()["layer"][1]["encoding"]["y"]["scale"]["domain"] for f in (before, after)]
    assert domains[0] == domains[1]
    assert domains[0][1] >= at["high"].max()


ALL = {
    "heatmap": lambda found: grid.heatmap(found, (0.25,), chosen=(STRONG, 0.25)),
    "heatmap of the control": lambda found: grid.heatmap(found, (0.25, 0.5), "permuted"),
    "neighbours": lambda found: grid.neighbours(found, STRONG),
    "locality": grid.locality,
    "against accuracy": lambda found: order.against_accuracy(found, "final", correlation(found, "final")),
    "parts": lambda found: order.parts(found, 1),
    "depth": lambda found: order.depth(found, "final"),
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("seeds", [1, 5])
def test_every_figure_has_its_words_and_titles_with_one_seed_and_with_several(name, seeds):
    figure = ALL[name](arms(study(falling, seeds=range(seeds), chi=chis)))
    assert figure.guide.endswith(".")
    assert figure.alt.endswith(".")
    assert "nan" not in figure.alt
    assert figure.basis == ("one seed" if seeds == 1 else "5 seeds")
    spec = figure.chart.to_dict()
    titles = {c: {layer["encoding"].get(c, {}).get("title") for layer in spec["layer"]} - {None} for c in "xy"}
    assert all(titles.values()), titles
    assert "NaN" not in json.dumps(spec["datasets"])


def test_made_up_results_are_what_they_say():
    strong = next(a for a in FOUND if a.config.position is STRONG and not a.config.permuted)
    assert strong.mean == pytest.approx(BASE + 0.2 + np.mean([0, 0.01, 0.02, 0, 0.01]))
