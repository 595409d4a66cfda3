"""What the heat step allows; everything else is a :class:`LabError` that names the argument.

Values are checked where that is free: numbers and tensors on the CPU. A tensor on a GPU is trusted, since looking at
it would make the host wait at every step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lab import heat_kernels
from lab.errors import LabError
from lab.heat_kernels import Alphas

Alpha = float | Tensor | Sequence[float | Tensor]
"""A total that the strides share evenly, or a sequence with one entry per stride."""

LIMIT = 0.5
ROUNDING = 1e-7  # entries of a sequence that sum to the limit may exceed it by their rounding in float32


def step_sizes(alpha: Alpha, strides: int, *, allow_unstable: bool = False, trust_gpu: bool = True) -> Alphas:
    """One α per stride, each a number or a tensor (..., 1, 1). Without ``trust_gpu`` the host waits for the values.

    Raises :class:`LabError` unless all are finite and, but for ``allow_unstable``, at least 0 and at most 1/2 in sum.
    """
    if isinstance(alpha, Sequence):
        if len(alpha) != strides:
            raise LabError(f"alpha has {len(alpha)} entries; it must have one per stride, so {strides}.", "alpha")
        alphas = tuple(_step_size(a) for a in alpha)
        _check_alphas(alphas, LIMIT + ROUNDING if strides > 1 else LIMIT, allow_unstable, trust_gpu)
        return alphas
    total = _step_size(alpha)
    _check_alphas((total,), LIMIT, allow_unstable, trust_gpu)
    return (total / strides if strides > 1 else total,) * strides


def _step_size(alpha: float | Tensor) -> float | Tensor:
    if not isinstance(alpha, Tensor):
        return float(alpha)
    if not alpha.is_floating_point():
        raise LabError(f"alpha is {alpha.dtype}; it must be floating.", "alpha")
    if alpha.numel() == 1 and alpha.ndim < 2:
        return alpha.reshape(1, 1)
    if alpha.ndim < 2 or alpha.shape[-2:] != (1, 1):
        raise LabError(f"alpha has shape {tuple(alpha.shape)}; its last two axes must have size 1.", "alpha")
    return alpha


def _check_alphas(alphas: Alphas, limit: float, allow_unstable: bool, trust_gpu: bool) -> None:
    numbers = [a for a in alphas if not isinstance(a, Tensor)]
    if len(numbers) == len(alphas):
        lowest, total = min(numbers), sum(numbers)
    elif trust_gpu and any(isinstance(a, Tensor) and a.is_cuda for a in alphas):
        return
    else:
        each = [torch.as_tensor(a, dtype=torch.float64, device="cpu") for a in alphas]
        values = torch.stack([e.detach().expand(torch.broadcast_shapes(*(e.shape for e in each))) for e in each])
        # NaN propagates through min and max, so it is seen below
        lowest, total = float(values.min()), float(values.sum(0).max())
    if not (math.isfinite(lowest) and math.isfinite(total)):
        raise LabError("alpha is not finite; it must be between 0 and 0.5.", "alpha")
    if not allow_unstable and not (lowest >= 0 and total <= limit):
        wrong = lowest if lowest < 0 else total
        raise LabError(f"alpha is {wrong:.9g}; it must be between 0 and 0.5, where no mode can grow.", "alpha")


def check_steps(steps: int) -> int:
    """The number of steps, a whole number from 0."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        raise LabError(f"steps is {steps!r}; it must be a whole number, 0 or more.", "steps")
    return steps


def check_tokens(n: int) -> None:
    """At least one token."""
    if n < 1:
        raise LabError(f"There are {n} tokens; the heat step needs at least 1.", "tokens")


def check_strides(strides: Sequence[int]) -> tuple[int, ...]:
    """At least one stride, each a whole number from 1."""
    if not strides or any(isinstance(s, bool) or not isinstance(s, int) or s < 1 for s in strides):
        raise LabError(f"strides is {list(strides)}; it must list whole numbers from 1.", "strides")
    return tuple(strides)


def check_x(x: Tensor, alphas: Alphas) -> None:
    """A floating x (..., tokens, dim) to whose shape every α broadcasts."""
    if not x.is_floating_point() or x.ndim < 2:
        raise LabError(f"x is {x.dtype} with {x.ndim} axes; it must be floating, (..., tokens, dim).", "x")
    check_tokens(x.shape[-2])
    for a in alphas:
        if isinstance(a, Tensor) and not _fits(a.shape, x.shape):
            raise LabError(f"alpha has shape {tuple(a.shape)}; it must broadcast to x's {tuple(x.shape)}.", "alpha")


def check_mask(x: Tensor, mask: Tensor, strides: tuple[int, ...]) -> None:
    """A boolean mask (..., tokens) that broadcasts to x; real tokens first where a stride is beyond 1."""
    if mask.dtype != torch.bool:
        raise LabError(f"mask is {mask.dtype}; it must be boolean, True at real tokens.", "mask")
    if not _fits_tokens(mask, x):
        raise LabError(f"mask has shape {tuple(mask.shape)}; it must broadcast to {tuple(x.shape[:-1])}.", "mask")
    if strides != (1,) and not mask.is_cuda and not heat_kernels.is_prefix(mask):
        raise LabError("mask has a real token after padding; for strides beyond 1 real tokens must come first.", "mask")


def check_permutation(permutation: Tensor) -> None:
    """Indices (..., tokens), each of 0..tokens-1 once."""
    n = permutation.shape[-1] if permutation.ndim else 0
    wrong = permutation.dtype != torch.int64 or n == 0
    if not wrong and not permutation.is_cuda:
        wrong = bool((permutation.sort(-1).values != torch.arange(n)).any())
    if wrong:
        raise LabError("permutation must hold each of 0..tokens-1 once along its last axis, as int64.", "permutation")


def check_permutation_fits(x: Tensor, permutation: Tensor) -> None:
    """A permutation that broadcasts to x.shape[:-1], of exactly its tokens."""
    if not _fits_tokens(permutation, x):
        shape = tuple(permutation.shape)
        raise LabError(f"permutation has shape {shape}; it must broadcast to {tuple(x.shape[:-1])}.", "permutation")


def _fits(shape: torch.Size, target: torch.Size) -> bool:
    ends = zip(reversed(shape), reversed(target), strict=False)
    return len(shape) <= len(target) and all(a in (1, b) for a, b in ends)


def _fits_tokens(index: Tensor, x: Tensor) -> bool:
    return index.ndim > 0 and index.shape[-1] == x.shape[-2] and _fits(index.shape, x.shape[:-1])
