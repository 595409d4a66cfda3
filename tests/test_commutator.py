"""Heat against attention: the commutator, its bounds, when it vanishes, and the exact split of the order swap."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from token_cases import ALPHAS, heat_matrix

from lab.attention import MATRICES, attention
from lab.commutator import commutator, infinity_bound, infinity_norm, order_swap, spectral_bound, spectral_norm
from lab.errors import LabError
from lab.heat import eigenvalues, heat_step, neumann_laplacian

NAMES = sorted(MATRICES)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def stochastic(n: int, sharpness: float, seed: int) -> torch.Tensor:
    return torch.softmax(sharpness * random(n, n, seed=seed), -1)


@given(st.integers(1, 16), st.sampled_from([0.0, 1.0, 30.0]), ALPHAS, st.integers(0, 1000))
def test_commutator_is_dp_minus_pd_within_both_bounds(n, sharpness, alpha, seed):
    p, d = stochastic(n, sharpness, seed), heat_matrix(n, alpha)
    c = commutator(p, alpha)
    torch.testing.assert_close(c, d @ p - p @ d, rtol=0, atol=1e-14)
    assert spectral_norm(c) <= spectral_bound(p, alpha) + 1e-12
    assert infinity_norm(c) <= infinity_bound(alpha) + 1e-12
    torch.testing.assert_close(c.sum(-1), torch.zeros(n, dtype=torch.float64), rtol=0, atol=1e-14)  # constants commute


@given(st.integers(2, 12), st.integers(0, 1000))
def test_the_spectral_bound_needs_no_stochastic_rows(n, seed):
    p = random(n, n, seed=seed)
    assert spectral_norm(commutator(p, 0.5)) <= spectral_bound(p, 0.5) + 1e-12


def test_a_batch_of_matrices_is_many_single_ones():
    p = torch.stack([stochastic(6, 1.0, s) for s in range(6)]).view(2, 3, 6, 6)
    assert torch.equal(commutator(p, 0.3)[1, 2], commutator(p[1, 2], 0.3))
    assert spectral_norm(p).shape == infinity_norm(p).shape == (2, 3)


def test_norms_of_a_known_matrix():
    a = torch.tensor([[3.0, 0.0], [4.0, -5.0]], dtype=torch.float64)
    assert infinity_norm(a) == 9
    assert spectral_norm(a) == pytest.approx(45**0.5)


@pytest.mark.parametrize("alpha", [0.1, 0.25, 0.5])
def test_a_random_permutation_attains_the_infinity_bound(alpha):
    c = commutator(MATRICES["permutation"].build(64), alpha)
    assert infinity_norm(c) == pytest.approx(infinity_bound(alpha), abs=1e-14)
    assert infinity_bound(alpha) == 4 * alpha


def test_the_spectral_bound_cannot_be_lowered():
    n = 300  # P that turns the mean into the highest mode: [D, P] = -α λ_max P, and λ_max → 4
    mode = torch.linalg.eigh(neumann_laplacian(n)).eigenvectors[:, [-1]]
    p = mode @ torch.full((1, n), n**-0.5, dtype=torch.float64)
    c = commutator(p, 0.25)
    torch.testing.assert_close(c, -0.25 * eigenvalues(n)[-1] * p, rtol=0, atol=1e-13)
    assert float(spectral_norm(c)) == pytest.approx(float(spectral_bound(p, 0.25)), rel=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 20])
def test_it_vanishes_for_uniform_identity_and_polynomials_in_the_laplacian(n):
    laplacian = neumann_laplacian(n)
    polynomial = torch.matrix_exp(-0.7 * laplacian) + 0.1 * laplacian @ laplacian
    for p in (MATRICES["uniform"].build(n), MATRICES["identity"].build(n), heat_matrix(n, 0.3), polynomial):
        assert commutator(p, 0.5).abs().max() < 1e-13


@pytest.mark.parametrize("name", ["local", "shift", "permutation", "content"])
def test_it_does_not_vanish_for_the_others(name):
    assert spectral_norm(commutator(MATRICES[name].build(20), 0.25)) > 1e-2


@pytest.mark.parametrize("alpha", [-0.1, 0.6, float("nan")])
def test_an_unstable_alpha_is_refused(alpha):
    with pytest.raises(LabError, match="alpha"):
        commutator(torch.eye(3), alpha)


# --- the order swap ----------------------------------------------------------------------------------------------


@given(st.integers(1, 12), st.floats(0, 3), ALPHAS, st.integers(0, 1000), st.sampled_from([(1,), (1, 2)]))
def test_the_swap_is_routing_plus_operator(n, sharpness, alpha, seed, strides):
    x = random(n, 4, seed=seed)
    wq, wk, wv = sharpness * random(4, 3, seed=1), random(4, 3, seed=2), random(4, 5, seed=3)

    def heat(v):
        return heat_step(v, alpha, strides=strides)

    p_x, attn_x = attention(x, wq, wk, wv)
    p_dx, attn_dx = attention(heat(x), wq, wk, wv)
    found = order_swap(p_x, p_dx, x @ wv, heat)
    d = heat_matrix(n, alpha, strides)
    # every term from its definition
    torch.testing.assert_close(found.swap, attn_dx - d @ attn_x, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.routing, (p_dx - p_x) @ d @ x @ wv, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.operator, (p_x @ d - d @ p_x) @ x @ wv, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.swap, found.routing + found.operator, rtol=0, atol=1e-12)
    norm = torch.linalg.norm(attn_x)
    torch.testing.assert_close(found.chi, torch.linalg.norm(attn_dx - d @ attn_x) / norm, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found.routing_index, torch.linalg.norm(found.routing) / norm, rtol=1e-12, atol=0)
    torch.testing.assert_close(found.operator_index, torch.linalg.norm(found.operator) / norm, rtol=1e-12, atol=0)
    assert found.chi <= found.routing_index + found.operator_index + 1e-12


def test_fixed_attention_has_no_routing_shift_and_commuting_attention_no_operator():
    x = random(10, 3)
    local, uniform = MATRICES["local"].build(10), MATRICES["uniform"].build(10)

    def heat(v):
        return heat_step(v, 0.3)

    fixed = order_swap(local, local, x, heat)
    assert fixed.routing_index == 0
    assert fixed.operator_index > 1e-3
    torch.testing.assert_close(fixed.operator, -commutator(local, 0.3) @ x)
    commuting = order_swap(uniform, local, x, heat)
    assert commuting.operator_index < 1e-14
    assert commuting.routing_index > 1e-3


def test_constant_tokens_swap_freely():
    x = torch.ones(6, 2, dtype=torch.float64)
    p = stochastic(6, 1.0, 0)
    assert order_swap(p, p, x, lambda v: heat_step(v, 0.4)).chi < 1e-15


def test_a_value_bias_changes_nothing():
    p_x, p_dx, values, bias = stochastic(7, 1.0, 0), stochastic(7, 1.0, 1), random(7, 3), random(3, seed=1)

    def heat(v):
        return heat_step(v, 0.4)

    plain, biased = order_swap(p_x, p_dx, values, heat), order_swap(p_x, p_dx, values + bias, heat)
    torch.testing.assert_close(plain.swap, biased.swap, rtol=0, atol=1e-14)
    torch.testing.assert_close(plain.operator, biased.operator, rtol=0, atol=1e-14)


def test_many_heads_with_padding_are_each_their_own():
    batch, heads, n, lengths = 2, 3, 8, [8, 5]
    mask = torch.arange(n) < torch.tensor(lengths)[:, None]
    keys = torch.zeros(batch, 1, 1, n, dtype=torch.float64).masked_fill(~mask[:, None, None], -torch.inf)
    p_x, p_dx = (torch.softmax(random(batch, heads, n, n, seed=s) + keys, -1) for s in (0, 1))
    values = random(batch, heads, n, 4, seed=2)
    found = order_swap(p_x, p_dx, values, lambda v: heat_step(v, 0.3, mask=mask[:, None]))
    assert found.chi.shape == (batch, heads)
    for b, length in enumerate(lengths):
        for h in range(heads):
            real = slice(0, length)
            own = order_swap(
                p_x[b, h, real, real], p_dx[b, h, real, real], values[b, h, real], lambda v: heat_step(v, 0.3)
            )
            torch.testing.assert_close(found.swap[b, h, real], own.swap, rtol=0, atol=1e-14)
            torch.testing.assert_close(found.operator[b, h, real], own.operator, rtol=0, atol=1e-14)
