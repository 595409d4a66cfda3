"""The heat step under autograd: D is its own adjoint, so the gradient through it is the heat step of the gradient.

Nothing is checked here: :mod:`lab.heat` does that, and says what the equation is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lab import heat_kernels
from lab.heat_kernels import Alphas, at_least_float32


def symmetric_heat(
    x: Tensor, alphas: Alphas, steps: int, strides: tuple[int, ...], mask: Tensor | None, permutation: Tensor | None
) -> Tensor:
    """D^steps x, or PᵀD^steps P x."""
    if permutation is None:
        return _apply(x, steps, strides, mask, alphas)
    order = permutation
    if mask is not None:
        order, mask = _real_first(permutation, mask)
    inverse = torch.empty_like(order).scatter_(
        -1, order, torch.arange(order.shape[-1], device=x.device).expand_as(order)
    )
    return _reorder(_apply(_reorder(x, order, inverse), steps, strides, mask, alphas), inverse, order)


def causal_heat(x: Tensor, alphas: Alphas, steps: int, strides: tuple[int, ...], mask: Tensor | None) -> Tensor:
    """Steps of x_i - Σ_s α_s (x_i - x_{i-s}); a token without a predecessor at distance s has no such edge."""
    u = at_least_float32(x)
    n = x.shape[-2]
    for _ in range(steps):
        after = u
        for s, alpha in zip(strides, alphas, strict=True):
            if s < n:
                drop = u[..., s:, :] - u[..., :-s, :]
                if mask is not None:
                    drop = drop.masked_fill(~(mask[..., s:] & mask[..., :-s]).unsqueeze(-1), 0)
                drop = drop * (alpha.to(u.dtype) if isinstance(alpha, Tensor) else alpha)
                after = after - nn.functional.pad(drop, (0, 0, s, 0))
        u = after
    return u.to(x.dtype)


class _Heat(torch.autograd.Function):
    """D^T x. A fixed α keeps no activations. ∂(D^T x)/∂α_s = -T L_s D^{T-1} x, since every L_s commutes with D."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, steps: int, strides: tuple[int, ...], mask: Tensor | None, *alphas: float | Tensor
    ) -> Tensor:
        learned = any(ctx.needs_input_grad[4:])
        tensors = [a if isinstance(a, Tensor) else None for a in alphas]
        ctx.save_for_backward(mask, x if learned else None, *tensors)
        ctx.steps, ctx.strides, ctx.numbers = steps, strides, [None if isinstance(a, Tensor) else a for a in alphas]
        return heat_kernels.run(x, alphas, steps, strides, mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # Written with differentiable operations only, itself among them, so it can be differentiated again.
        (g,) = grads
        mask, x, *tensors = ctx.saved_tensors
        alphas = tuple(n if t is None else t for n, t in zip(ctx.numbers, tensors, strict=True))
        grad_x = _apply(g, ctx.steps, ctx.strides, mask, alphas) if ctx.needs_input_grad[0] else None
        grad_alphas: list[Tensor | None] = [None] * len(alphas)
        if x is not None and ctx.steps > 0:
            u = _apply(x, ctx.steps - 1, ctx.strides, mask, alphas)
            for k, (stride, alpha) in enumerate(zip(ctx.strides, tensors, strict=True)):
                if ctx.needs_input_grad[4 + k]:
                    slope = -ctx.steps * _laplacian_form(g, u, stride, mask)
                    grad_alphas[k] = slope.sum_to_size(alpha.shape).to(alpha.dtype)
        return (grad_x, None, None, None, *grad_alphas)


def _apply(x: Tensor, steps: int, strides: tuple[int, ...], mask: Tensor | None, alphas: Alphas) -> Tensor:
    y: Tensor = _Heat.apply(x, steps, strides, mask, *alphas)
    return y


def _laplacian_form(g: Tensor, u: Tensor, stride: int, mask: Tensor | None) -> Tensor:
    """⟨g, L_s u⟩ of each sequence, (..., 1, 1), as a sum over edges, so that no large numbers cancel."""
    g, u = at_least_float32(g), at_least_float32(u)
    n = u.shape[-2]
    if mask is not None and stride > 1:
        padded = ~mask.unsqueeze(-1)
        forms = []
        for side in heat_kernels.neighbours(mask, stride):
            index = side.expand(u.shape[:-1]).unsqueeze(-1).expand(u.shape)
            du, dg = ((v - v.gather(-2, index)).masked_fill(padded, 0) for v in (u, g))
            forms.append(0.5 * (du * dg).sum((-2, -1), keepdim=True))  # every edge is met from both of its tokens
        return forms[0] + forms[1]
    s = heat_kernels.fold(stride, n)
    du, dg = (v[..., s:, :] - v[..., : n - s, :] for v in (u, g))
    if mask is not None:
        cut = heat_kernels.cut_edges(mask)
        du, dg = du.masked_fill(cut, 0), dg.masked_fill(cut, 0)
    form = (du * dg).sum((-2, -1), keepdim=True)
    if s > 1:
        for end in (slice(None, s), slice(n - s, None)):
            du, dg = (v[..., end, :] - v[..., end, :].flip(-2) for v in (u, g))
            form = form + 0.5 * (du * dg).sum((-2, -1), keepdim=True)  # a reflected pair is met from both of its tokens
    return form


class _Rows(torch.autograd.Function):
    """Rows in another order. The gradient goes back by the inverse order: a copy rather than a scattered sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(order, inverse)
        return heat_kernels.gather(x, order)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        order, inverse = ctx.saved_tensors
        return _reorder(grads[0], inverse, order), None, None


def _reorder(x: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
    y: Tensor = _Rows.apply(x, order, inverse)
    return y


def first_tokens(permutation: Tensor, n: int) -> Tensor:
    """The order in which a permutation of more tokens meets the first n; on a GPU nothing waits."""
    kept = torch.arange(permutation.shape[-1], device=permutation.device) < n
    return _real_first(permutation, kept)[0][..., :n]


def _real_first(permutation: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The permutation with padding moved behind the real tokens, whose order it keeps, and the mask in that order.

    Otherwise many of the random neighbours would be padding, and the control would have fewer edges than the layer.
    """
    shape = torch.broadcast_shapes(permutation.shape, mask.shape)
    permutation, mask = permutation.expand(shape), mask.expand(shape)
    real = mask.gather(-1, permutation)
    behind = real.sum(-1, keepdim=True) + (~real).cumsum(-1) - 1
    place = torch.where(real, real.cumsum(-1) - 1, behind)
    order = torch.empty_like(permutation, memory_format=torch.contiguous_format).scatter_(-1, place, permutation)
    return order, mask.gather(-1, order)
