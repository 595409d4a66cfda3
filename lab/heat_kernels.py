"""How D^T x is computed: three exact ways, and the measured rule that picks the cheapest. No autograd here.

* *stencil*: the Laplacian by slicing, in flux form, step by step: constants stay constants to the last bit.
* *kernel*: T steps are one symmetric matrix. By the method of images its entries are k[i - j] + k[i + j + 1], with k
  the heat kernel on the ring of 2n tokens; they vanish beyond the reach of k, so a block of rows is a small product.
* *modes*: a real FFT of the even extension [x, flip x] multiplies cosine mode k by (1 - Σ_s α_s λ_{s,k})^T.

The rule, measured on one CPU thread (torch 2.13, float32, dim 64): a stencil step costs as much as about 20 columns of
the matrix, so the kernel wins from 3 steps on; the FFT costs as much as 300 to 400 columns at 256 to 1024 tokens, so it
wins where the kernel is wider. With padding every distinct length is a product of its own: 32 of them cost as much as
3 to 6 masked stencil steps. On a GPU (unmeasured) a loop over blocks is launch-bound and values must not be looked at,
so there the FFT takes the kernel's place.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

Alphas = tuple[float | Tensor, ...]
"""One step size per stride: a number, or a tensor (..., 1, 1) that broadcasts to x (..., tokens, dim)."""

Block = tuple[slice, slice, Tensor]
"""Rows, columns and entries of a block of the matrix D^T."""

STENCIL_STEPS = 2
MASKED_STENCIL_STEPS = 6
MASKED_STENCIL_STEPS_GPU = 100  # unmeasured: a length takes some ten launches, a stencil step three
FFT_COLUMNS = 384
BLOCK_ROWS = 64


def run(x: Tensor, alphas: Alphas, steps: int, strides: tuple[int, ...], mask: Tensor | None) -> Tensor:
    """D^steps x. Half precision is computed in float32: many small steps would drown in its rounding."""
    if steps == 0 or x.shape[-2] == 1:
        return x.clone()
    u = at_least_float32(x)
    if mask is not None:
        y = _masked(u, alphas, steps, strides, mask)
    elif steps <= STENCIL_STEPS:
        y = stencil(u, alphas, steps, strides)
    else:
        y = _many(u, alphas, steps, strides)
    return y.to(x.dtype)


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision as float32, the rest as it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


# --- the stencil -------------------------------------------------------------------------------------------------


def fold(stride: int, n: int) -> int:
    """The stride in 0..n that reaches the same tokens: half-sample symmetric reflection is even, with period 2n."""
    s = stride % (2 * n)
    return min(s, 2 * n - s)


def stencil(x: Tensor, alphas: Alphas, steps: int, strides: tuple[int, ...]) -> Tensor:
    """D^steps x by slicing. The heat that leaves one token arrives at another, so the mean moves by rounding only."""
    n = x.shape[-2]
    for _ in range(steps):
        if strides == (1,):
            x = _unit_step(x, alphas[0], None)
            continue
        y = x.clone()
        for alpha, s in zip(alphas, (fold(s, n) for s in strides), strict=True):
            if s < n:
                flux = _scaled(x[..., s:, :] - x[..., : n - s, :], alpha)
                y[..., s:, :] -= flux
                y[..., : n - s, :] += flux
            if s > 1:  # the reflected neighbours: token i < s exchanges heat with token s - 1 - i, and so at the end
                for end in (slice(None, s), slice(n - s, None)):
                    y[..., end, :] -= _scaled(x[..., end, :] - x[..., end, :].flip(-2), alpha)
        x = y
    return x


def _unit_step(x: Tensor, alpha: float | Tensor, cut: Tensor | None) -> Tensor:
    """One step at stride 1, three passes over memory. ``cut`` (..., n - 1, 1) marks the edges that are dropped."""
    y = torch.empty_like(x)
    flux = x[..., 1:, :] - x[..., :-1, :]
    if cut is not None:
        flux.masked_fill_(cut, 0)
    scale = 1.0 if isinstance(alpha, Tensor) else alpha
    if isinstance(alpha, Tensor):
        flux *= alpha.to(flux.dtype)
    torch.sub(x[..., 1:, :], flux, alpha=scale, out=y[..., 1:, :])
    y[..., :1, :] = x[..., :1, :]
    y[..., :-1, :].add_(flux, alpha=scale)
    return y


def _scaled(flux: Tensor, alpha: float | Tensor) -> Tensor:
    return flux.mul_(alpha.to(flux.dtype) if isinstance(alpha, Tensor) else alpha)


# --- padding -----------------------------------------------------------------------------------------------------


def cut_edges(mask: Tensor) -> Tensor:
    """Where one of two neighbouring tokens is padding: (..., n - 1, 1) from a mask (..., n)."""
    return ~(mask[..., 1:] & mask[..., :-1]).unsqueeze(-1)


def is_prefix(mask: Tensor) -> bool:
    """Whether the real tokens come first in every sequence, padding after them."""
    return not bool((mask[..., 1:] & ~mask[..., :-1]).any())


def neighbours(mask: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Indices (..., n) of r(i - s) and r(i + s), reflected at each sequence's own length; padding points at itself."""
    i = torch.arange(mask.shape[-1], device=mask.device)
    length = mask.sum(-1, keepdim=True)
    period = (2 * length).clamp(min=2)

    def reflect(j: Tensor) -> Tensor:
        j = j % period
        return torch.where(mask, torch.where(j < length, j, 2 * length - 1 - j), i)

    return reflect(i - stride), reflect(i + stride)


def gather(x: Tensor, index: Tensor) -> Tensor:
    """x[..., index, :] along the token axis, index (..., n), by whole rows: faster than torch.gather's entries."""
    if index.ndim == 1:
        return x.index_select(-2, index)
    *lead, n, dim = x.shape
    flat = x.reshape(-1, dim)
    start = torch.arange(0, flat.shape[0], n, device=x.device).unsqueeze(-1)
    return flat.index_select(0, (index.expand(*lead, n).reshape(-1, n) + start).flatten()).reshape(x.shape)


def _masked(x: Tensor, alphas: Alphas, steps: int, strides: tuple[int, ...], mask: Tensor) -> Tensor:
    capturing = x.is_cuda and torch.cuda.is_current_stream_capturing()  # then nothing may be read back
    few = MASKED_STENCIL_STEPS_GPU if x.is_cuda else MASKED_STENCIL_STEPS
    if steps > few and not capturing and is_prefix(mask):
        return _by_length(x, alphas, steps, strides, mask)
    if strides == (1,):
        cut = cut_edges(mask)
        for _ in range(steps):
            x = _unit_step(x, alphas[0], cut)
        return x
    sides = [neighbours(mask, s) for s in strides]
    padded = ~mask.unsqueeze(-1)
    for _ in range(steps):
        y = x.clone()
        for alpha, (left, right) in zip(alphas, sides, strict=True):
            flow = (x - gather(x, left)) + (x - gather(x, right))
            y -= _scaled(flow.masked_fill_(padded, 0), alpha)
        x = y
    return x


def _by_length(x: Tensor, alphas: Alphas, steps: int, strides: tuple[int, ...], mask: Tensor) -> Tensor:
    """Each distinct length as a sequence of its own."""
    *lead, n, dim = x.shape
    rows = x.reshape(-1, n, dim)
    lengths = mask.expand(*lead, n).reshape(-1, n).sum(-1)
    spread = [a.expand(*lead, 1, 1).reshape(-1, 1, 1) if isinstance(a, Tensor) else a for a in alphas]
    y = rows.clone()
    for length in sorted(set(lengths.tolist())):
        if length > 1:
            chosen = (lengths == length).nonzero().squeeze(-1)
            own = tuple(a[chosen] if isinstance(a, Tensor) else a for a in spread)
            y[chosen, :length] = _many(rows[chosen, :length], own, steps, strides)
    return y.reshape(x.shape)


# --- many steps at once ------------------------------------------------------------------------------------------


def frequencies(n: int, stride: int, device: torch.device | None = None) -> Tensor:
    """λ_k = 4 sin²(πks / 2n), k = 0..n, float64: the spectrum of L_s; k = n exists only on the ring of 2n tokens."""
    k = torch.arange(n + 1, dtype=torch.float64, device=device)
    return 4 * torch.sin(k * (math.pi * fold(stride, n) / (2 * n))) ** 2


def multiplier(
    n: int, alphas: Alphas, steps: int, strides: tuple[int, ...], device: torch.device | None = None
) -> Tensor:
    """(1 - Σ_s α_s λ_{s,k})^steps in float64, (..., n + 1), with the leading axes of the step sizes."""
    factor = torch.ones(n + 1, dtype=torch.float64, device=device)
    for s, alpha in zip(strides, alphas, strict=True):
        factor = factor - (alpha[..., 0].double() if isinstance(alpha, Tensor) else alpha) * frequencies(n, s, device)
    return factor**steps


def _many(x: Tensor, alphas: Alphas, steps: int, strides: tuple[int, ...]) -> Tensor:
    *lead, n, dim = x.shape
    blocks: tuple[Block, ...] | None = None
    if not x.is_cuda:
        fixed = tuple(a for a in alphas if not isinstance(a, Tensor))
        if len(fixed) == len(alphas):
            blocks = _fixed_blocks(n, fixed, steps, strides, x.dtype)
        else:
            blocks = _blocks(multiplier(n, alphas, steps, strides), x.dtype)
    if blocks is None:
        return _modes(x, multiplier(n, alphas, steps, strides, x.device))
    flat = x.reshape(-1, n, dim)
    y = torch.empty_like(flat)
    for rows, columns, entries in blocks:
        matrix = entries.expand(*lead, *entries.shape[-2:]).reshape(-1, *entries.shape[-2:])
        torch.bmm(matrix, flat[:, columns], out=y[:, rows])  # with out=, autocast leaves the precision alone
    return y.reshape(x.shape)


@lru_cache(maxsize=64)
def _fixed_blocks(
    n: int, alphas: tuple[float, ...], steps: int, strides: tuple[int, ...], dtype: torch.dtype
) -> tuple[Block, ...] | None:
    with torch.inference_mode(False):  # the blocks outlive this call
        return _blocks(multiplier(n, alphas, steps, strides), dtype)


def _blocks(factor: Tensor, dtype: torch.dtype) -> tuple[Block, ...] | None:
    """The matrix of a multiplier (..., n + 1) in blocks of rows; None where the FFT is cheaper."""
    n = factor.shape[-1] - 1
    ring = torch.fft.irfft(factor, n=2 * n)
    reach = _reach(ring[..., : n + 1].abs().reshape(-1, n + 1).amax(0), torch.finfo(dtype).eps)
    columns = BLOCK_ROWS + 2 * reach
    if min(n, columns) > FFT_COLUMNS:
        return None
    height = n if n <= columns else BLOCK_ROWS
    inner: Tensor | None = None  # all blocks away from the ends are equal: the images are out of reach
    blocks = []
    for start in range(0, n, height):
        stop = min(n, start + height)
        low, high = max(0, start - reach), min(n, stop + reach)
        is_inner = low == start - reach and high == stop + reach and stop - start == height
        if inner is None or not is_inner:
            i = torch.arange(start, stop).unsqueeze(-1)
            j = torch.arange(low, high)
            entries = (ring[..., (i - j).abs()] + ring[..., i + j + 1]).to(dtype)
            inner = entries if is_inner else inner
        else:
            entries = inner
        blocks.append((slice(start, stop), slice(low, high), entries))
    return tuple(blocks)


def _reach(ring: Tensor, eps: float) -> int:
    """The distance beyond which the kernel's entries sum to less than a tenth of a rounding error."""
    tail = ring.flip(0).cumsum(0).flip(0)  # tail[d] = what is dropped when the reach is d - 1
    return int((tail > eps / 20).sum())


def _modes(x: Tensor, factor: Tensor) -> Tensor:
    """By FFT, along the last axis of the transpose: measured faster than along the token axis."""
    n = x.shape[-2]
    u = x.transpose(-1, -2)
    spectrum = torch.fft.rfft(torch.cat([u, u.flip(-1)], -1))
    spectrum *= factor.to(x.dtype).unsqueeze(-2)
    y: Tensor = torch.fft.irfft(spectrum, n=2 * n)[..., :n].transpose(-1, -2).contiguous()
    return y
