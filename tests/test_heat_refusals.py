"""What the heat step refuses, by the name of the argument."""

import math

import pytest
import torch

from lab.errors import LabError
from lab.heat import eigenvalues, heat_step, heat_steps, neumann_laplacian, transfer_function


@pytest.mark.parametrize("alpha", [-1e-9, 0.5 + 1e-9, 2.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("wrap", [float, lambda a: torch.full((2, 1, 1), a, dtype=torch.float64)])
def test_alpha_outside_the_stable_range_is_refused_by_name(alpha, wrap):
    x = torch.ones(2, 5, 3)
    for call in (lambda: heat_steps(x, wrap(alpha), 3), lambda: transfer_function(4, wrap(alpha))):
        with pytest.raises(LabError, match=r"alpha is .*between 0 and 0\.5") as error:
            call()
        assert error.value.field == "alpha"
    if not math.isfinite(alpha):  # no demonstration either
        with pytest.raises(LabError, match="alpha"):
            heat_step(x, wrap(alpha), allow_unstable=True)


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("tokens", lambda x: heat_step(x[:0], 0.1)),
        ("tokens", lambda x: neumann_laplacian(0)),
        ("tokens", lambda x: eigenvalues(0)),
        ("tokens", lambda x: transfer_function(0, 0.1)),
        ("x", lambda x: heat_step(x[0], 0.1)),
        ("x", lambda x: heat_step(x.long(), 0.1)),
        ("steps", lambda x: heat_steps(x, 0.1, -1)),
        ("steps", lambda x: heat_steps(x, 0.1, 1.5)),
        ("strides", lambda x: heat_step(x, 0.1, strides=())),
        ("strides", lambda x: heat_step(x, 0.1, strides=(0,))),
        ("strides", lambda x: neumann_laplacian(3, 0)),
        ("alpha", lambda x: heat_step(x, (0.1, 0.1))),
        ("alpha", lambda x: heat_step(x, (0.3, 0.3), strides=(1, 2))),
        ("alpha", lambda x: heat_step(x, (0.6, -0.1), strides=(1, 2))),
        ("alpha", lambda x: heat_step(x, torch.full((4, 1), 0.1))),
        ("alpha", lambda x: heat_step(x, torch.full((3, 1, 1), 0.1))),
        ("mask", lambda x: heat_step(x, 0.1, mask=torch.ones(4))),
        ("mask", lambda x: heat_step(x, 0.1, mask=torch.ones(5, dtype=torch.bool))),
        ("permutation", lambda x: heat_step(x, 0.1, permutation=torch.tensor([0, 1, 1, 2]))),
        ("permutation", lambda x: heat_step(x, 0.1, permutation=torch.arange(5))),
        ("permutation", lambda x: heat_step(x, 0.1, permutation=torch.arange(4.0))),
    ],
)
def test_what_does_not_fit_is_refused_by_name(field, call):
    with pytest.raises(LabError) as error:
        call(torch.ones(4, 3))
    assert error.value.field == field


def test_equal_shares_of_the_limit_are_allowed_though_they_round():
    x = torch.ones(4, 3)
    for strides in ((1,), (1, 2), (1, 2, 3), (1, 2, 3, 4, 5, 6, 7)):
        heat_step(x, 0.5, strides=strides)
        shares = torch.full((len(strides),), 0.5 / len(strides))
        heat_step(x, tuple(shares), strides=strides)
