"""The heat step under autograd, and the layer: adjoint, learned α, causal refusal."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from token_cases import ALPHAS, heat_matrix, sequences, size
from torch.autograd import gradcheck, gradgradcheck

from lab.errors import LabError
from lab.heat import LEARNED_LIMIT, HeatLayer, dirichlet_energy, heat_step, heat_steps

PREFIX = torch.arange(5) < torch.tensor([[5], [3]])


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


# --- the adjoint -------------------------------------------------------------------------------------------------


@given(sequences(), ALPHAS, st.sampled_from([1, 2, 9]), st.sampled_from([(1,), (1, 2, 4)]))
def test_the_gradient_is_the_heat_step_of_the_gradient(x, alpha, steps, strides):
    x = (x / size(x)).requires_grad_()
    g = random(*x.shape)
    (grad,) = torch.autograd.grad(heat_steps(x, alpha, steps, strides=strides), x, g)
    assert torch.equal(grad, heat_steps(g, alpha, steps, strides=strides))
    y = heat_steps(x.detach(), alpha, steps, strides=strides)
    assert float((g * y).sum()) == pytest.approx(float((grad * x.detach()).sum()), abs=1e-12)


@pytest.mark.parametrize("steps", [1, 4, 9])
@pytest.mark.parametrize("strides", [(1,), (1, 2, 4)])
@pytest.mark.parametrize("mask", [None, PREFIX])
@pytest.mark.parametrize("permuted", [False, True])
def test_first_and_second_derivatives_also_in_alpha(steps, strides, mask, permuted):
    x = random(2, 2, 5, 1).requires_grad_()
    alpha = torch.tensor([0.2, 0.4], dtype=torch.float64).view(2, 1, 1, 1).requires_grad_()
    order = torch.stack([torch.tensor([3, 1, 0, 4, 2]), torch.arange(5)])[:, None] if permuted else None

    def layer(x, alpha):
        return heat_steps(x, alpha, steps, strides=strides, mask=mask, permutation=order)

    assert gradcheck(layer, (x, alpha))
    assert gradgradcheck(layer, (x, alpha))


def test_every_stride_gets_its_own_gradient():
    x = random(6, 2).requires_grad_()
    a, b = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.1, 0.2))
    assert gradcheck(lambda x, a, b: heat_steps(x, (a, b), 3, strides=(1, 3)), (x, a, b))
    assert gradcheck(lambda a: heat_steps(x, (a, 0.2), 3, strides=(1, 3)), (a,))


@pytest.mark.parametrize(("learned", "expected"), [(False, 0), (True, 1)])
def test_a_fixed_alpha_keeps_no_activations_and_a_learned_one_keeps_x(learned, expected):
    x = random(4, 50, 8).requires_grad_()
    alpha = torch.tensor(0.2, dtype=torch.float64, requires_grad=True) if learned else 0.2
    kept: list[torch.Tensor] = []

    def pack(tensor):
        kept.append(tensor)
        return tensor

    for steps in (1, 100):
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            heat_steps(x, alpha, steps).sum()
        assert sum(t.numel() >= 50 for t in kept) == expected


def test_energy_has_its_gradient():
    x = random(2, 6, 3).requires_grad_()
    assert gradcheck(dirichlet_energy, (x,))


# --- the layer ---------------------------------------------------------------------------------------------------


def test_a_fixed_layer_has_no_parameters_and_is_the_function():
    x = random(2, 9, 3)
    layer = HeatLayer(0.3, strides=(1, 2), steps=4)
    assert list(layer.parameters()) == []
    assert layer.state_dict() == {}
    assert torch.equal(layer(x), heat_steps(x, 0.3, 4, strides=(1, 2)))


@pytest.mark.parametrize("strides", [(1,), (1, 2, 4)])
def test_a_learnable_layer_starts_at_alpha_and_learns(strides):
    x = random(2, 9, 3)
    layer = HeatLayer(0.3, learnable=True, strides=strides).double()
    torch.testing.assert_close(layer(x), heat_step(x, 0.3, strides=strides), rtol=0, atol=1e-6)
    target = heat_step(x, 0.1, strides=strides)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(200):
        optimiser.zero_grad()
        (layer(x) - target).square().sum().backward()
        optimiser.step()
    assert float(sum(a.detach().sum() for a in layer.alphas)) == pytest.approx(0.1, abs=1e-3)


@pytest.mark.parametrize("strides", [(1,), (1, 3)])
def test_gradients_of_the_learned_parameters(strides):
    layer = HeatLayer(torch.tensor([0.1, 0.4]).view(2, 1, 1, 1), learnable=True, strides=strides, steps=2).double()
    x = random(2, 2, 6, 3).requires_grad_()
    names = [name for name, _ in layer.named_parameters()]

    def run(x, *values):
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,))

    assert gradcheck(run, (x, *layer.parameters()))
    assert gradgradcheck(run, (x, *layer.parameters()))


@given(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4), st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
def test_a_learned_alpha_is_stable_for_every_parameter(theta, phi, dtype):
    layer = HeatLayer(0.2, learnable=True, strides=(1, 2, 4)).to(dtype)
    with torch.no_grad():
        layer.theta.fill_(theta)
        layer.phi[0].fill_(phi)
    alphas = torch.stack([a.double() for a in layer.alphas])
    assert alphas.min() >= 0
    assert alphas.sum() < 0.5
    assert LEARNED_LIMIT < 0.5


def test_an_arm_without_heat_stays_the_identity_however_it_is_trained():
    layer = HeatLayer(torch.tensor([0.0, 0.3]).view(2, 1, 1, 1), learnable=True)
    x = torch.randn(2, 3, 8, 4)
    layer(x).square().sum().backward()
    assert layer.theta.grad is not None
    assert layer.theta.grad[0] == 0
    assert layer.theta.grad[1] != 0
    with torch.no_grad():
        layer.theta.add_(5)
    assert torch.equal(layer(x)[0], x[0])
    assert not torch.equal(layer(x)[1], x[1])


def test_a_tensor_of_one_alpha_per_arm_keeps_its_precision():
    alphas = torch.tensor([0.1, 0.3], dtype=torch.float64).view(2, 1, 1, 1)
    x = random(2, 3, 8, 4)
    assert torch.equal(HeatLayer(alphas)(x), heat_step(x, alphas))


@pytest.mark.parametrize("alpha", [-0.1, 0.51, float("nan")])
@pytest.mark.parametrize("learnable", [False, True])
def test_a_layer_never_takes_an_unstable_alpha(alpha, learnable):
    with pytest.raises(LabError, match="alpha"):
        HeatLayer(alpha, learnable)


# --- causal ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strides", [(1,), (1, 2)])
def test_the_symmetric_layer_refuses_a_causal_model(strides):
    layer = HeatLayer(0.25, strides=strides)
    x = torch.randn(1, 6, 2)
    with pytest.raises(LabError, match="causal=True") as error:
        layer(x, is_causal=True)
    assert error.value.field == "causal"
    y = x.clone()
    y[:, 3] += 1
    assert not torch.equal(layer(x)[:, :3], layer(y)[:, :3])  # what it would have leaked


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("strides", [(1,), (1, 2, 100)])
@pytest.mark.parametrize("learnable", [False, True])
def test_the_causal_layer_never_sees_a_later_token(steps, strides, learnable):
    layer = HeatLayer(0.3, learnable, strides, steps, causal=True)
    x = torch.randn(2, 8, 3)
    for is_causal in (False, True):
        for i in range(8):
            y = x.clone()
            y[:, i:] = torch.randn(2, 8 - i, 3)
            assert torch.equal(layer(x, is_causal=is_causal)[:, :i], layer(y, is_causal=is_causal)[:, :i])


def test_the_causal_stencil_is_one_sided_and_keeps_no_mean():
    x = random(5, 2)
    expected = x.clone()
    expected[1:] -= 0.3 * (x[1:] - x[:-1])
    y = HeatLayer(0.3, causal=True)(x)
    torch.testing.assert_close(y, expected)
    assert (y.mean(0) - x.mean(0)).abs().max() > 1e-3
    d = HeatLayer(0.3, causal=True)(torch.eye(5, dtype=torch.float64))
    assert not torch.equal(d, d.T)


def test_the_causal_stencil_drops_edges_to_padding():
    x = random(1, 5, 2)
    mask = torch.tensor([True, True, True, False, False])
    x[:, 3:] = float("nan")
    y = HeatLayer(0.3, causal=True, steps=2, strides=(1, 2))(x, mask)
    assert torch.equal(y[:, :3], HeatLayer(0.3, causal=True, steps=2, strides=(1, 2))(x[:, :3]))
    assert y[:, 3:].isnan().all()
    left = torch.tensor([False, False, True, True, True])
    x = random(1, 5, 2)
    x[:, :2] = float("nan")
    assert torch.equal(HeatLayer(0.3, causal=True)(x, left)[:, 2:], HeatLayer(0.3, causal=True)(x[:, 2:]))


def test_a_causal_layer_cannot_be_permuted():
    with pytest.raises(LabError, match="permutation"):
        HeatLayer(0.3, causal=True, permutation=torch.arange(4))


def test_half_precision_input_under_autocast_keeps_its_type_and_many_steps():
    x = torch.randn(2, 64, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = HeatLayer(0.25, steps=50)(x)
    assert y.dtype == torch.float32
    exact = torch.linalg.matrix_power(heat_matrix(64, 0.25), 50) @ x.double()
    torch.testing.assert_close(y.double(), exact, rtol=0, atol=1e-6)
