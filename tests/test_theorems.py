"""The theorems hold on every input they are tested on, come near their bounds, and their tests notice an operator that is wrong."""

import math

import pytest
import torch

from lab import heads
from lab.commutator import commutator, infinity_norm, spectral_norm
from lab.heat import heat_step, heat_steps
from lab.theorems import attention, layer, limits, operator, theorems
from lab.theorems.theorem import bounded, equality, off
from lab.theorems.worst_cases import built, cosines, matrices, path_laplacian, representations, riffle, searched

NAMES = [
    *("spectrum", "transfer_function", "non_expansive", "doubly_stochastic", "growth", "mass", "pooling"),
    *("energy_drop", "energy_bound", "pure_smoothing", "ringing", "roughness", "lipschitz"),
    *("adjoint", "learnable", "shared_basis", "multi_scale", "padding", "permuted_spectrum"),
    *("identity", "spectral", "infinity", "commuting", "generic", "swap"),
]


@pytest.fixture(scope="module")
def found():
    return {theorem.name: theorem for theorem in theorems()}


def test_every_theorem_is_there_and_holds(found):
    assert list(found) == NAMES
    assert [name for name, theorem in found.items() if not theorem.holds] == []


@pytest.mark.parametrize("name", ["non_expansive", "energy_bound", "roughness", "multi_scale", "spectral", "infinity"])
def test_some_input_comes_near_every_bound(found, name):
    assert 0.99 < found[name].worst <= 1 + 1e-9


def test_the_worst_cases_are_the_ones_that_the_theory_names(found):
    assert found["energy_bound"].on.startswith("highest cosine mode")
    assert found["roughness"].on.startswith("highest cosine mode")
    assert found["spectral"].on == "even tokens first, then odd"
    assert found["growth"].worst == pytest.approx(1.04, abs=1e-4)  # 0.51 · λ - 1 with λ just below 4
    assert found["pure_smoothing"].worst == pytest.approx(math.sin(math.pi / 128) ** 2, rel=1e-6)


def scaled(factor):
    def step(x, alpha, **others):
        more = tuple(factor * a for a in alpha) if isinstance(alpha, tuple) else factor * alpha
        return heat_step(x, more, **{**others, "allow_unstable": True})

    return step


def one_sided(x, alpha, **_):
    """Every token flows to the one before it only: the mean is not kept."""
    out = x.clone()
    out[..., :-1, :] += alpha * (x[..., 1:, :] - x[..., :-1, :])
    return out


def steps(step):
    def many(x, alpha, count, **named):
        for _ in range(count):
            x = step(x, alpha, **named)
        return x

    return many


def leaking(x, alpha, count, mask=None):
    return heat_steps(torch.nan_to_num(x, nan=0.0, posinf=0.0), alpha, count)


def in_place_of(step, monkeypatch):
    for module in (operator, layer, attention):
        monkeypatch.setattr(module, "heat_step", step)
    for module in (operator, layer):
        monkeypatch.setattr(module, "heat_steps", steps(step))


@pytest.mark.parametrize(
    ("factor", "fail"),
    [
        (2.1, {"transfer_function", "non_expansive", "doubly_stochastic", "roughness", "multi_scale", "identity"}),
        (2.1, {"energy_drop", "pure_smoothing", "ringing", "permuted_spectrum", "lipschitz"}),
        (0.9, {"transfer_function", "energy_drop", "energy_bound", "permuted_spectrum", "identity", "growth"}),
    ],
)
def test_another_step_size_is_noticed(monkeypatch, factor, fail):
    in_place_of(scaled(factor), monkeypatch)
    assert fail <= {theorem.name for theorem in theorems() if not theorem.holds}


def test_an_operator_that_loses_mass_or_symmetry_is_noticed(monkeypatch):
    in_place_of(one_sided, monkeypatch)
    xs = representations(None)
    wrong = (operator.mass(xs), operator.doubly_stochastic(), layer.permuted_spectrum(), layer.adjoint(xs))
    assert not any(theorem.holds for theorem in wrong)


def test_padding_that_leaks_is_noticed(monkeypatch):
    monkeypatch.setattr(layer, "heat_steps", leaking)
    assert not layer.padding(representations(None)).holds
    monkeypatch.setattr(operator, "heat_step", lambda x, alpha, mask=None: heat_step(x, alpha))
    assert not operator.pooling(representations(None)).holds


def test_wrong_eigenvalues_are_noticed(monkeypatch):
    from lab.theorems import worst_cases

    def slow(n, stride=1):
        return worst_cases.eigenvalues(n, stride) * 1.001

    for module in (operator, layer):
        monkeypatch.setattr(module, "eigenvalues", slow)
    xs = representations(None)
    wrong = (operator.spectrum(), operator.transfer_function(xs), operator.energy_drop(xs), layer.shared_basis())
    assert not any(theorem.holds for theorem in wrong)


def test_a_learned_alpha_that_reaches_the_limit_is_noticed(monkeypatch):
    monkeypatch.setattr("lab.heat.LEARNED_LIMIT", 0.5)
    assert not layer.learnable().holds


def test_a_commutator_that_is_wrong_is_noticed(monkeypatch):
    monkeypatch.setattr(attention, "commutator", lambda p, alpha: 1.1 * commutator(p, alpha) + 1e-6)
    ps = matrices(None)
    wrong = (attention.identity(ps), attention.spectral(ps), attention.infinity(ps), attention.commuting())
    assert not any(theorem.holds for theorem in wrong)
    monkeypatch.setattr(attention, "commutator", lambda p, alpha: 0 * p)
    assert not attention.generic().holds


def test_a_swap_without_one_of_its_parts_is_noticed(monkeypatch):
    from lab.commutator import order_swap

    monkeypatch.setattr(attention, "order_swap", lambda p_x, p_dx, *rest: order_swap(p_x, p_x, *rest))
    assert not attention.swap(None).holds


def test_nan_hides_nothing():
    assert not equality("e", "s", [(0.0, "a"), (math.nan, "b"), (0.0, "c")]).holds
    assert not bounded("b", "s", "w", [(math.nan, "a"), (0.5, "b")]).holds
    assert off(torch.tensor([math.nan, 0.0]), torch.ones(2)) == math.inf


def test_what_is_built_is_what_it_says():
    expected = torch.tensor([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]], dtype=torch.float64)
    assert torch.equal(path_laplacian(3), expected)
    signs = built(8)["alternating signs"][:, 0]
    assert signs.tolist() == [1, -1] * 4
    assert (riffle(8) @ signs).tolist() == [1] * 4 + [-1] * 4
    assert torch.allclose(cosines(5)[:, 0], torch.full((5,), 5**-0.5, dtype=torch.float64))
    for name, p in matrices(None).items():
        assert torch.allclose(p.sum(-1), torch.ones(len(p), dtype=torch.float64)), name
        assert (p >= 0).all(), name


@pytest.mark.parametrize(("norm", "least"), [("2", 0.85), ("∞", 0.999)])
def test_the_search_climbs_far_above_its_start(norm, least):
    size = spectral_norm if norm == "2" else infinity_norm
    random = torch.Generator().manual_seed(0)
    start = torch.softmax(torch.randn(12, 12, generator=random, dtype=torch.float64), -1)
    before, after = (float(size(commutator(p, 0.25)) / size(p)) for p in (start, searched(norm)))
    assert before < 0.75
    assert after > least


def test_a_trained_head_is_one_more_input():
    head = heads.built_in("content", 16, attention.ALPHA, width=2, seed=1)
    assert all(theorem.holds for theorem in theorems(head))
    # A P whose rows sum to 3 breaks the bound that is for row-stochastic P, and is then the worst case that is named.
    wrong = {theorem.name: theorem for theorem in theorems(heads.Head(3 * head.p, head.p_smoothed, head.values))}
    assert not wrong["infinity"].holds
    assert wrong["infinity"].on == "attention of a trained head"
    nothing = heads.Head(head.p, head.p_smoothed, math.nan * head.values)
    assert not {theorem.name: theorem for theorem in theorems(nothing)}["mass"].holds


def test_the_limits_are_measured():
    found = {limit.part: limit for limit in limits()}
    assert list(found) == ["Softmax", "Layer norm", "Residual path", "Repeated application"]
    assert all(0.01 < limit.value < 10 for limit in found.values())
    # h keeps its roughness: half of the energy of h + a, for a and h alike, and what is left of a
    assert found["Residual path"].value == pytest.approx(0.5 + 0.5 * 0.13, abs=0.05)
