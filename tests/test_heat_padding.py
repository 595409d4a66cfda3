"""Padding and the permuted control: what a real token may meet."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from token_cases import heat_matrix

from lab.errors import LabError
from lab.heat import HeatLayer, dirichlet_energy, heat_step, heat_steps

STEPS = [0, 1, 2, 5, 6, 7, 60]


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def prefix(lengths: list[int], n: int) -> torch.Tensor:
    return torch.arange(n) < torch.tensor(lengths)[:, None]


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=4),
    st.sampled_from(STEPS),
    st.sampled_from([(1,), (2,), (1, 2, 4), (3, 30)]),
    st.sampled_from([float("nan"), float("inf"), 1e30]),
    st.sampled_from([0.0, 0.25, 0.5]),
    st.booleans(),
)
def test_each_sequence_is_its_own_whatever_the_padding_holds(lengths, steps, strides, junk, alpha, as_tensor):
    mask = prefix(lengths, 12)
    x = random(len(lengths), 12, 3)
    x[~mask] = junk
    a = torch.full((len(lengths), 1, 1), alpha, dtype=torch.float64) if as_tensor else alpha
    y = heat_steps(x, a, steps, mask=mask, strides=strides)
    assert torch.equal(y[~mask].nan_to_num(-1.0), x[~mask].nan_to_num(-1.0))
    for row, length in enumerate(lengths):
        if length:
            own = heat_steps(x[row, :length], alpha, steps, strides=strides)
            torch.testing.assert_close(y[row, :length], own, rtol=0, atol=1e-13)


@pytest.mark.parametrize("steps", [1, 3, 60])
@pytest.mark.parametrize("strides", [(1,), (1, 2, 4)])
def test_padding_reaches_neither_values_nor_gradients_nor_alpha(steps, strides):
    mask = prefix([7, 3, 1], 7)
    alpha = torch.tensor([0.2, 0.3, 0.1], dtype=torch.float64).view(3, 1, 1)
    grads = []
    for junk in (0.0, float("nan")):
        x = random(3, 7, 2)
        x[~mask] = junk
        x.requires_grad_()
        a = alpha.clone().requires_grad_()
        y = heat_steps(x, a, steps, mask=mask, strides=strides)
        loss = y[mask].square().sum()
        grad_x, grad_a = torch.autograd.grad(loss, (x, a))
        grads.append((grad_x, grad_a))
        assert (grad_x[~mask] == 0).all()
    assert torch.equal(grads[0][0], grads[1][0])
    assert torch.equal(grads[0][1], grads[1][1])
    assert grads[0][1].isfinite().all()


@pytest.mark.parametrize("steps", STEPS)
def test_a_hole_cuts_the_path_and_a_class_token_is_left_out(steps):
    x = random(9, 2)
    mask = torch.tensor([False, True, True, True, False, True, True, True, True])
    y = heat_steps(x, 0.3, steps, mask=mask)
    torch.testing.assert_close(y[1:4], heat_steps(x[1:4], 0.3, steps))
    torch.testing.assert_close(y[5:], heat_steps(x[5:], 0.3, steps))
    assert torch.equal(y[[0, 4]], x[[0, 4]])


def test_strides_refuse_a_real_token_after_padding():
    x, mask = torch.ones(5, 2), torch.tensor([False, True, True, True, True])
    for call in (
        lambda: heat_step(x, 0.1, mask=mask, strides=(1, 2)),
        lambda: HeatLayer(0.1, strides=(1, 2))(x, mask),
    ):
        with pytest.raises(LabError, match="real tokens must come first") as error:
            call()
        assert error.value.field == "mask"


def test_a_mask_broadcasts_over_arms_and_a_full_one_changes_nothing():
    x = random(2, 3, 8, 4)
    mask = prefix([8, 5, 2], 8)
    for strides in ((1,), (1, 2)):
        y = heat_steps(x, 0.2, 3, mask=mask, strides=strides)
        assert torch.equal(y, heat_steps(x, 0.2, 3, mask=mask.expand(2, 3, 8), strides=strides))
        full = heat_steps(x, 0.2, 3, mask=torch.ones(8, dtype=torch.bool), strides=strides)
        torch.testing.assert_close(full, heat_steps(x, 0.2, 3, strides=strides), rtol=0, atol=1e-13)


@given(st.integers(1, 12), st.sampled_from([1, 4, 60]))
def test_the_mean_of_the_real_tokens_is_kept_and_their_energy_falls(length, steps):
    mask = prefix([length], 12)
    x = random(1, 12, 3, seed=length)
    y = heat_steps(x, 0.4, steps, mask=mask)
    torch.testing.assert_close(y[mask].mean(0), x[mask].mean(0), rtol=0, atol=1e-14)
    torch.testing.assert_close(dirichlet_energy(x, mask)[0], dirichlet_energy(x[0, :length]))
    assert dirichlet_energy(y, mask)[0] <= dirichlet_energy(x, mask)[0]


def test_the_energy_does_not_see_padding():
    x = torch.ones(2, 4, 3)
    x[:, 2:] = float("nan")
    x[1, 0] = 2
    assert dirichlet_energy(x, prefix([2, 2], 4)).tolist() == [0, 1.5]
    assert dirichlet_energy(x.bfloat16(), prefix([2, 2], 4)).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [1, 60])
@pytest.mark.parametrize("mask", [None, prefix([9, 4], 9)])
def test_every_type_comes_back_in_its_type_and_precision(dtype, steps, mask):
    x = random(2, 9, 3)
    y = heat_steps(x.to(dtype), 0.3, steps, mask=mask)
    assert y.dtype == dtype
    exact = heat_steps(x.to(dtype).double(), 0.3, steps, mask=mask)
    torch.testing.assert_close(y.double(), exact, rtol=0, atol=4 * torch.finfo(dtype).eps)


# --- the permuted control ----------------------------------------------------------------------------------------


def permutation(n: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).permutation(n))


@pytest.mark.parametrize("n", [1, 2, 9, 40])
@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("strides", [(1,), (1, 2)])
def test_the_control_is_p_transposed_d_p(n, steps, strides):
    order = permutation(n)
    p = torch.eye(n, dtype=torch.float64)[order]  # (P x)_i = x_order(i)
    d = torch.linalg.matrix_power(heat_matrix(n, 0.3, strides), steps)
    got = heat_steps(torch.eye(n, dtype=torch.float64), 0.3, steps, strides=strides, permutation=order)
    torch.testing.assert_close(got, p.T @ d @ p, rtol=0, atol=1e-14)
    x = random(2, n, 3)
    torch.testing.assert_close(HeatLayer(0.3, strides=strides, steps=steps, permutation=order)(x), got @ x)
    # the same spectrum, mass and budget of energy
    torch.testing.assert_close(torch.linalg.eigvalsh(got), torch.linalg.eigvalsh(d), rtol=0, atol=1e-13)
    torch.testing.assert_close(got.sum(0), torch.ones(n, dtype=torch.float64), rtol=0, atol=1e-14)
    assert torch.trace(got.T @ got) == pytest.approx(float(torch.trace(d.T @ d)))


def test_the_control_has_other_neighbours():
    n, order = 40, permutation(40)
    x = torch.eye(n, dtype=torch.float64)[:, :1]
    assert heat_step(x, 0.3).nonzero()[:, 0].tolist() == [0, 1]
    assert heat_step(x, 0.3, permutation=order).nonzero()[:, 0].tolist() != [0, 1]


def test_arms_may_have_their_own_permutation():
    x = random(2, 3, 9, 4)
    orders = torch.stack([permutation(9), torch.arange(9)])[:, None]
    y = HeatLayer(0.3, permutation=orders)(x)
    torch.testing.assert_close(y[0], heat_step(x[0], 0.3, permutation=orders[0, 0]), rtol=0, atol=0)
    torch.testing.assert_close(y[1], heat_step(x[1], 0.3), rtol=0, atol=0)


@pytest.mark.parametrize("steps", [1, 60])
@pytest.mark.parametrize("strides", [(1,), (1, 2)])
def test_with_padding_real_tokens_are_permuted_among_themselves(steps, strides):
    n, lengths, order = 9, [9, 5, 1], permutation(9, 4)
    mask = prefix(lengths, n)
    x = random(3, n, 2)
    x[~mask] = float("nan")
    y = heat_steps(x, 0.3, steps, mask=mask, strides=strides, permutation=order)
    assert y[~mask].isnan().all()
    for row, length in enumerate(lengths):
        own = order[order < length]
        expected = heat_steps(x[row, :length], 0.3, steps, strides=strides, permutation=own)
        torch.testing.assert_close(y[row, :length], expected, rtol=0, atol=1e-13)


def test_a_layer_takes_shorter_sequences_but_no_longer_ones():
    orders = torch.stack([permutation(9, 1), permutation(9, 2)])[:, None]
    x = random(2, 3, 6, 4)
    y = HeatLayer(0.3, permutation=orders)(x)
    for arm in range(2):
        own = orders[arm, 0][orders[arm, 0] < 6]
        assert torch.equal(y[arm], heat_step(x[arm], 0.3, permutation=own))
    with pytest.raises(LabError, match="permutation"):
        HeatLayer(0.3, permutation=orders)(random(2, 3, 10, 4))
