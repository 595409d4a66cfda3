"""The mathematics of the heat step: spectrum, mass, energy, regimes, several strides, many steps at once."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.fft import dct, idct
from token_cases import ALPHAS, heat_matrix, laplacian_by_padding, sequences, size, tokens
from torch.nn import functional

from lab import heat_kernels
from lab.heat import dirichlet_energy, eigenvalues, heat_step, heat_steps, neumann_laplacian, transfer_function

SIZES = [1, 2, 3, 8, 33]


def modes(n: int) -> torch.Tensor:
    """The orthonormal DCT-II basis, one mode a row."""
    return torch.from_numpy(dct(np.eye(n), type=2, norm="ortho", axis=0))


# --- spectrum ----------------------------------------------------------------------------------------------------


def test_the_laplacian_is_the_one_of_the_path():
    expected = [[1, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 1]]
    assert neumann_laplacian(4).tolist() == expected
    assert neumann_laplacian(1).tolist() == [[0]]
    assert neumann_laplacian(2, dtype=torch.float32).dtype == torch.float32


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 7, 100])
def test_eigenvectors_are_the_dct_basis_with_the_stated_eigenvalues(n, stride):
    laplacian, basis, values = neumann_laplacian(n, stride), modes(n), eigenvalues(n, stride)
    closed_form = [4 * math.sin(math.pi * k * stride / (2 * n)) ** 2 for k in range(n)]
    torch.testing.assert_close(values, torch.tensor(closed_form, dtype=torch.float64), rtol=0, atol=1e-11)
    torch.testing.assert_close(laplacian @ basis.T, basis.T * values, rtol=0, atol=1e-12)
    assert torch.equal(laplacian, laplacian.T)
    assert values.min() >= 0
    assert values.max() <= 4
    if stride == 1:
        assert values.max() < 4


@given(sequences(), ALPHAS, st.integers(0, 40))
def test_every_mode_is_multiplied_by_the_transfer_function(x, alpha, steps):
    n = len(x)
    expected = idct(
        transfer_function(n, alpha, steps).numpy()[:, None] * dct(x.numpy(), norm="ortho", axis=0), norm="ortho", axis=0
    )
    factor = [(1 - 4 * alpha * math.sin(math.pi * k / (2 * n)) ** 2) ** steps for k in range(n)]
    np.testing.assert_allclose(transfer_function(n, alpha, steps), factor, atol=1e-13)
    np.testing.assert_allclose(heat_steps(x, alpha, steps) / size(x), expected / size(x), atol=1e-13)


@given(sequences(), ALPHAS)
def test_one_step_is_the_matrix(x, alpha):
    expected = x - alpha * neumann_laplacian(len(x)) @ x
    torch.testing.assert_close(heat_step(x, alpha) / size(x), expected / size(x), rtol=0, atol=1e-14)
    torch.testing.assert_close(heat_step(x, alpha), heat_steps(x, alpha, 1), rtol=0, atol=0)


# --- mass and contraction ----------------------------------------------------------------------------------------


@given(sequences(), ALPHAS, st.integers(1, 30))
def test_non_expansive_and_mass_preserving(x, alpha, steps):
    y = heat_steps(x, alpha, steps)
    assert (y / size(x)).norm() <= (x / size(x)).norm() * (1 + 1e-13)
    assert size(y) <= size(x) * (1 + 1e-13)  # doubly stochastic: no maximum grows either
    # heat right before mean pooling is an exact no-op
    torch.testing.assert_close(y.mean(0) / size(x), x.mean(0) / size(x), rtol=0, atol=1e-14)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.25, 0.4, 0.5])
@pytest.mark.parametrize("strides", [(1,), (1, 2, 4)])
def test_doubly_stochastic_symmetric_and_of_norm_one(n, alpha, strides):
    d = heat_step(torch.eye(n, dtype=torch.float64), alpha, strides=strides)
    ones = torch.ones(n, dtype=torch.float64)
    assert d.min() >= -1e-15
    torch.testing.assert_close(d.sum(0), ones, rtol=0, atol=1e-14)
    torch.testing.assert_close(d.sum(1), ones, rtol=0, atol=1e-14)
    torch.testing.assert_close(d, d.T, rtol=0, atol=1e-15)
    assert torch.linalg.matrix_norm(d, 2) == pytest.approx(1, abs=1e-12)


def test_constants_are_kept_to_the_last_bit():
    x = torch.full((4, 50, 3), 0.1)
    assert torch.equal(heat_step(x, 0.3), x)
    assert torch.equal(heat_step(x, 0.3, strides=(1, 2, 4)), x)


@given(sequences())
def test_alpha_zero_is_the_identity(x):
    assert torch.equal(heat_step(x, 0.0), x)
    torch.testing.assert_close(heat_steps(x, 0.0, 50), x, rtol=1e-13, atol=1e-13 * size(x))


# --- energy ------------------------------------------------------------------------------------------------------


@given(sequences())
def test_the_forms_of_the_energy_agree(x):
    x = x / size(x)
    energy, hat = dirichlet_energy(x), modes(len(x)) @ x
    assert energy.shape == ()
    torch.testing.assert_close(energy, 0.5 * torch.trace(x.T @ neumann_laplacian(len(x)) @ x), rtol=1e-9, atol=1e-13)
    edges = sum(((x[i + 1] - x[i]) ** 2).sum() for i in range(len(x) - 1))
    torch.testing.assert_close(energy, torch.as_tensor(0.5 * edges, dtype=torch.float64), rtol=1e-12, atol=0)
    by_mode = 0.5 * (eigenvalues(len(x)) * hat.square().sum(1)).sum()
    torch.testing.assert_close(energy, by_mode, rtol=1e-9, atol=1e-13)


@given(sequences(), ALPHAS)
def test_energy_drop_identity_and_bound(x, alpha):
    x = x / size(x)
    values, hat = eigenvalues(len(x)), modes(len(x)) @ x
    drop = dirichlet_energy(x) - dirichlet_energy(heat_step(x, alpha))
    per_mode = alpha * values**2 * (2 - alpha * values) * hat.square().sum(1)
    torch.testing.assert_close(drop, 0.5 * per_mode.sum(), rtol=1e-9, atol=1e-12)
    assert drop >= alpha * (1 - 2 * alpha) * (neumann_laplacian(len(x)) @ x).square().sum() - 1e-12
    assert drop >= -1e-12


@pytest.mark.parametrize("alpha", [0.01, 0.25, 0.49])
def test_the_energy_of_anything_but_a_constant_drops_strictly(alpha):
    for kind in ("random", "highest mode", "spike"):
        x = tokens(16, 2, kind, 1.0, 3)
        assert dirichlet_energy(heat_step(x, alpha)) < dirichlet_energy(x) * (1 - 1e-3)
    # the bound is no better than it can be: at the highest mode of many tokens both sides meet
    x = tokens(400, 1, "highest mode", 1.0, 0)
    drop = dirichlet_energy(x) - dirichlet_energy(heat_step(x, alpha))
    bound = alpha * (1 - 2 * alpha) * (neumann_laplacian(400) @ x).square().sum()
    assert drop == pytest.approx(float(bound), rel=1e-3)


@given(sequences(), ALPHAS)
def test_roughness_bounds_what_a_step_changes(x, alpha):
    x = x / size(x)
    change = (heat_step(x, alpha) - x).norm()
    bound = 2 * alpha * (2 * dirichlet_energy(x)).sqrt()
    assert change <= bound * (1 + 1e-12) + 1e-14
    w = torch.from_numpy(np.random.default_rng(0).standard_normal((x.shape[1], 3)))  # F(x) = tanh(x W): Lip ≤ ‖W‖₂
    moved = (torch.tanh(heat_step(x, alpha) @ w) - torch.tanh(x @ w)).norm()
    assert moved <= torch.linalg.matrix_norm(w, 2) * bound * (1 + 1e-12) + 1e-14


# --- regimes -----------------------------------------------------------------------------------------------------


def test_up_to_a_quarter_no_mode_changes_sign_and_at_a_quarter_the_highest_dies():
    for n in SIZES:
        assert transfer_function(n, 0.25).min() >= 0
    x = tokens(200, 1, "highest mode", 1.0, 0)
    assert heat_step(x, 0.25).abs().max() < 1e-4
    assert transfer_function(200, 0.25)[-1] == pytest.approx(math.sin(math.pi / 400) ** 2)


@pytest.mark.parametrize("alpha", [0.3, 0.45])
def test_between_a_quarter_and_a_half_the_highest_mode_rings_but_shrinks(alpha):
    x = tokens(64, 1, "highest mode", 1.0, 0)
    y = heat_step(x, alpha)
    assert (y * x).max() < 0
    assert y.norm() < x.norm()


def test_beyond_a_half_the_highest_mode_grows_and_is_refused():
    x = tokens(64, 1, "highest mode", 1.0, 0)
    y = heat_steps(x, 0.6, 10, allow_unstable=True)
    assert y.norm() > 10 * x.norm()
    torch.testing.assert_close(y, torch.linalg.matrix_power(heat_matrix(64, 0.6), 10) @ x, rtol=1e-10, atol=1e-10)


# --- several strides ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 7, 100])
def test_strides_reflect_half_sample_symmetrically(n, stride):
    torch.testing.assert_close(
        neumann_laplacian(n, stride), torch.from_numpy(laplacian_by_padding(n, stride)), rtol=0, atol=0
    )


@given(sequences(), ALPHAS, st.lists(st.integers(1, 60), min_size=1, max_size=4, unique=True), st.integers(1, 12))
def test_several_strides_share_alpha_and_equal_the_matrix(x, alpha, strides, steps):
    expected = torch.linalg.matrix_power(heat_matrix(len(x), alpha, strides), steps) @ x
    y = heat_steps(x, alpha, steps, strides=strides)
    torch.testing.assert_close(y / size(x), expected / size(x), rtol=0, atol=1e-13)
    assert transfer_function(len(x), alpha, strides=strides).abs().max() <= 1 + 1e-15


def test_each_stride_may_have_its_own_alpha():
    x = tokens(9, 2, "random", 1.0, 0)
    d = torch.eye(9, dtype=torch.float64) - 0.1 * neumann_laplacian(9, 1) - 0.3 * neumann_laplacian(9, 3)
    torch.testing.assert_close(heat_step(x, (0.1, 0.3), strides=(1, 3)), d @ x)


def test_laplacians_of_all_strides_commute():
    a, b = neumann_laplacian(11, 2), neumann_laplacian(11, 5)
    torch.testing.assert_close(a @ b, b @ a, rtol=0, atol=1e-13)


def test_torch_padding_modes_are_not_this_reflection():
    x = tokens(9, 1, "random", 1.0, 1)
    for stride, mode, same in ((1, "replicate", True), (1, "reflect", False), (2, "replicate", False)):
        padded = functional.pad(x.T[None], (stride, stride), mode=mode)[0].T
        step = x - 0.2 * (2 * x - padded[:9] - padded[2 * stride :])
        assert torch.allclose(heat_step(x, 0.2, strides=(stride,)), step, atol=1e-12) == same


# --- many steps at once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 7, 64, 200, 500])
@pytest.mark.parametrize("steps", [2, 3, 100, 1000])
@pytest.mark.parametrize("alpha", [0.02, 0.25, 0.5])
def test_many_float32_steps_equal_the_loop(n, steps, alpha):
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((2, n, 3))).float()
    loop = x
    for _ in range(steps):
        loop = heat_step(loop, alpha)
    torch.testing.assert_close(heat_steps(x, alpha, steps), loop, rtol=0, atol=1e-5)


@pytest.mark.parametrize("strides", [(1,), (1, 2, 4)])
def test_stencil_kernel_and_modes_agree(strides, monkeypatch):
    x = tokens(300, 3, "random", 1.0, 2)
    loop = heat_kernels.stencil(x, (0.3 / len(strides),) * len(strides), 40, strides)
    per_arm = torch.full((1, 1), 0.3, dtype=torch.float64)
    for columns in (0, 10**9):  # only the FFT; only the kernel
        monkeypatch.setattr(heat_kernels, "FFT_COLUMNS", columns)
        heat_kernels._fixed_blocks.cache_clear()
        for alpha in (0.3, per_arm):
            y = heat_steps(x, alpha, 40, strides=strides)
            torch.testing.assert_close(y, loop, rtol=0, atol=1e-13)
    heat_kernels._fixed_blocks.cache_clear()


def test_the_rule_takes_the_kernel_where_it_is_narrow_and_the_fft_where_it_is_wide():
    assert heat_kernels._fixed_blocks(2000, (0.25,), 100, (1,), torch.float32) is not None
    assert heat_kernels._fixed_blocks(2000, (0.25,), 100_000, (1,), torch.float32) is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("n", [50, 500])
def test_a_hundred_thousand_steps_end_at_the_solution_in_every_type(dtype, n):
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((n, 4)) + 3).to(dtype)
    y = heat_steps(x, 0.25, 100_000)
    hat = dct(x.double().numpy(), norm="ortho", axis=0)
    exact = idct(transfer_function(n, 0.25, 100_000).numpy()[:, None] * hat, norm="ortho", axis=0)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), torch.from_numpy(exact), rtol=2 * torch.finfo(dtype).eps, atol=2e-5)


def test_per_arm_alphas_equal_one_run_each():
    x = torch.from_numpy(np.random.default_rng(2).standard_normal((3, 2, 70, 4)))
    alphas = torch.tensor([0.0, 0.1, 0.5], dtype=torch.float64).view(3, 1, 1, 1)
    for steps in (1, 2, 60):
        for strides in ((1,), (1, 2)):
            y = heat_steps(x, alphas, steps, strides=strides)
            for arm, alpha in enumerate((0.0, 0.1, 0.5)):
                torch.testing.assert_close(
                    y[arm], heat_steps(x[arm], alpha, steps, strides=strides), rtol=0, atol=1e-12
                )
    assert transfer_function(70, alphas).shape == (3, 1, 70)
