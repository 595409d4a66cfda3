"""The heat layer: explicit Euler steps of the heat equation along the token axis.

    D x = x - Σ_s α_s L_s x,   (L_s x)_i = 2 x_i - x_{r(i-s)} - x_{r(i+s)}

with r the half-sample symmetric reflection at both ends. For the single stride s = 1 this is Zhang & Zhou's layer
(arXiv 2510.03272): L is the Neumann Laplacian of the path of n tokens. The multi-scale form is this project's own
definition, since theirs could not be read. Every L_s is symmetric, all commute and share the DCT-II basis, where
L_s has eigenvalues 4 sin²(πks / 2n). So D is non-expansive and keeps the token mean for 0 ≤ Σ_s α_s ≤ 1/2.

α is a number, or a tensor that broadcasts to x with size 1 on its last two axes, e.g. (arms, 1, 1, 1). It is the
total, shared evenly by the strides; a tuple gives every stride its own. D is symmetric, so the gradient through it is
D of the gradient: a fixed α keeps nothing for the backward pass, and one that is learned keeps x.

The values of tensors on a GPU are not checked; see :mod:`lab.heat_checks`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lab import heat_kernels
from lab.errors import LabError
from lab.heat_autograd import causal_heat, first_tokens, symmetric_heat
from lab.heat_checks import (
    Alpha,
    check_mask,
    check_permutation,
    check_permutation_fits,
    check_steps,
    check_strides,
    check_tokens,
    check_x,
    step_sizes,
)
from lab.heat_kernels import Alphas, at_least_float32

LEARNED_LIMIT = 0.5 * (1 - 1e-6)
"""½ (1 - ε): a learned α stays at or below this, and so below the limit of stability, for every parameter."""


def neumann_laplacian(
    n: int, stride: int = 1, *, dtype: torch.dtype = torch.float64, device: torch.device | str | None = None
) -> Tensor:
    """The matrix L_s of n tokens, (n, n), symmetric: rows -1 2 -1 inside, 1 -1 and -1 1 at the ends for stride 1.

    Raises :class:`LabError` unless n and stride are at least 1.
    """
    check_tokens(n)
    check_strides((stride,))
    i = torch.arange(n, device=device)
    matrix = 2 * torch.eye(n, dtype=dtype, device=device)
    for j in (i - stride, i + stride):
        j = j % (2 * n)
        reflected = torch.where(j < n, j, 2 * n - 1 - j)
        matrix.index_put_((i, reflected), torch.tensor(-1, dtype=dtype, device=device), accumulate=True)
    return matrix


def eigenvalues(n: int, stride: int = 1) -> Tensor:
    """λ_k = 4 sin²(πks / 2n) of L_s for k = 0..n-1, (n,) float64, in the order of the DCT-II basis."""
    check_tokens(n)
    check_strides((stride,))
    return heat_kernels.frequencies(n, stride)[:n]


def transfer_function(
    n: int, alpha: Alpha, steps: int = 1, *, strides: Sequence[int] = (1,), allow_unstable: bool = False
) -> Tensor:
    """What D^steps multiplies cosine mode k by: (1 - Σ_s α_s λ_{s,k})^steps, (n,) float64 (arXiv 2510.03272).

    A tensor α (..., 1, 1) gives (..., n). Raises :class:`LabError` as :func:`heat_steps` does.
    """
    check_tokens(n)
    strides = check_strides(strides)
    alphas = step_sizes(alpha, len(strides), allow_unstable=allow_unstable)
    return heat_kernels.multiplier(n, alphas, check_steps(steps), strides)[..., :n]


def heat_step(
    x: Tensor,
    alpha: Alpha,
    *,
    mask: Tensor | None = None,
    strides: Sequence[int] = (1,),
    permutation: Tensor | None = None,
    allow_unstable: bool = False,
) -> Tensor:
    """One step D x; see :func:`heat_steps`."""
    return heat_steps(x, alpha, 1, mask=mask, strides=strides, permutation=permutation, allow_unstable=allow_unstable)


def heat_steps(
    x: Tensor,
    alpha: Alpha,
    steps: int,
    *,
    mask: Tensor | None = None,
    strides: Sequence[int] = (1,),
    permutation: Tensor | None = None,
    allow_unstable: bool = False,
) -> Tensor:
    """D^steps x along the token axis, in one pass however many the steps (arXiv 2510.03272).

    x is (..., tokens, dim) of any float type; the result has its shape and type, and is differentiable in x and in a
    tensor α, twice if asked. ``mask`` (..., tokens) is True at real tokens and broadcasts over leading axes: edges
    that touch padding are dropped, padding comes out unchanged and never reaches a real token, be it NaN. With
    strides beyond 1 each sequence is reflected at its own end, so real tokens must come first there.
    ``permutation`` (..., tokens) turns D into PᵀDP, (Px)_i = x_{permutation_i}: the same spectrum, other
    neighbours. With a mask the permutation is that of the real tokens among themselves.

    Raises :class:`LabError` unless every α_s ≥ 0 and Σ_s α_s ≤ 1/2, or with ``allow_unstable`` unless they are finite;
    and for x, mask, strides, permutation or steps that do not fit.
    """
    strides = check_strides(strides)
    alphas = step_sizes(alpha, len(strides), allow_unstable=allow_unstable)
    check_x(x, alphas)
    if mask is not None:
        check_mask(x, mask, strides)
    if permutation is not None:
        check_permutation(permutation)
        check_permutation_fits(x, permutation)
    return symmetric_heat(x, alphas, check_steps(steps), strides, mask, permutation)


def dirichlet_energy(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """E(X) = ½ tr(Xᵀ L X) = ½ Σ_i ‖x_{i+1} - x_i‖², shape x.shape[:-2], without edges that touch padding.

    Half precision is summed in float32. Raises :class:`LabError` for a mask that does not fit.
    """
    x = at_least_float32(x)
    edges = x[..., 1:, :] - x[..., :-1, :]
    if mask is not None:
        check_mask(x, mask, (1,))
        edges = edges.masked_fill(heat_kernels.cut_edges(mask), 0)
    return 0.5 * edges.square().sum((-2, -1))


class HeatLayer(nn.Module):
    """The heat layer D^steps as a module (arXiv 2510.03272); the top of this file has the equation.

    ``alpha`` is as in :func:`heat_steps`, e.g. a number or a tensor (arms, 1, 1, 1), and is checked once, here.
    ``learnable`` makes it α = ½ (1 - ε) σ(θ), shared by several strides as α_s = α softmax(φ)_s, so that D is stable
    for every θ and φ. An α of 0 has no finite θ; it means that there is no heat layer, so it is exactly 0 and stays 0.
    ``permutation`` (..., tokens) makes the permuted control PᵀDP; of a shorter sequence it orders the tokens there are.
    ``causal`` takes the one-sided stencil x_i - Σ_s α_s (x_i - x_{i-s}), which sees no later token; it is not symmetric
    and does not keep the token mean.

    Raises :class:`LabError` as :func:`heat_steps` does, and for a causal layer with a permutation.
    """

    _alpha: Tensor | None
    _is_on: Tensor
    _permutation: Tensor | None

    def __init__(
        self,
        alpha: Alpha,
        learnable: bool = False,
        strides: Sequence[int] = (1,),
        steps: int = 1,
        causal: bool = False,
        permutation: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.learnable, self.causal = learnable, causal
        self.strides, self.steps = check_strides(strides), check_steps(steps)
        if permutation is not None:
            if causal:
                raise LabError("permutation needs a layer that is not causal, as it meets later tokens.", "permutation")
            check_permutation(permutation)
        # Configs say what α and the permutation are, so only what is learned goes into the state.
        self.register_buffer("_permutation", permutation, persistent=False)
        self.register_buffer("_alpha", None, persistent=False)
        self._numbers: tuple[float, ...] = ()
        alphas = step_sizes(alpha, len(self.strides), trust_gpu=False)
        if learnable:
            self._start(alphas)
        elif all(not isinstance(a, Tensor) or a.numel() == 1 for a in alphas):
            self._numbers = tuple(float(a) for a in alphas)
        else:
            self._alpha = _stacked(alphas)

    def _start(self, alphas: Alphas) -> None:
        each = _stacked(alphas).double()
        total = each.sum(0)
        self.register_buffer("_is_on", total > 0, persistent=False)
        self.theta = nn.Parameter((total / LEARNED_LIMIT).clamp(1e-6, 1 - 1e-6).logit().float())
        if len(self.strides) > 1:
            self.phi = nn.Parameter(each.clamp(min=1e-6).log().float())

    @property
    def alphas(self) -> Alphas:
        """The current α_s, one per stride: numbers, or tensors that are differentiable where they are learned."""
        if not self.learnable:
            return self._numbers if self._alpha is None else tuple(self._alpha.unbind(0))
        # in half precision the shares of the strides would not sum to 1
        total = LEARNED_LIMIT * torch.sigmoid(at_least_float32(self.theta)) * self._is_on
        if len(self.strides) == 1:
            return (total,)
        return tuple((total * torch.softmax(at_least_float32(self.phi), 0)).unbind(0))

    def forward(self, x: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """D^steps x for x (..., tokens, dim) and mask (..., tokens), True at real tokens.

        Raises :class:`LabError` with ``is_causal`` unless the layer was made causal, and for what does not fit x.
        """
        if is_causal and not self.causal:
            raise LabError(
                "causal is False, but in a causal model the symmetric stencil shows every token the next one; "
                "make the layer with causal=True, which takes the one-sided stencil.",
                "causal",
            )
        alphas = self.alphas
        check_x(x, alphas)
        if mask is not None:
            check_mask(x, mask, self.strides)
        if self.causal:
            return causal_heat(x, alphas, self.steps, self.strides, mask)
        permutation = self._permutation
        if permutation is not None:
            if permutation.shape[-1] > x.shape[-2]:  # a batch that was cut to its longest sequence
                permutation = first_tokens(permutation, x.shape[-2])
            check_permutation_fits(x, permutation)
        return symmetric_heat(x, alphas, self.steps, self.strides, mask, permutation)

    def extra_repr(self) -> str:
        """What ``repr`` shows."""
        kind = "learnable" if self.learnable else f"alpha={self.alphas}"
        return f"{kind}, strides={self.strides}, steps={self.steps}, causal={self.causal}"


def _stacked(alphas: Alphas) -> Tensor:
    """All step sizes as one tensor (strides, ..., 1, 1)."""
    tensors = [a.detach() if isinstance(a, Tensor) else torch.tensor([[a]], dtype=torch.float64) for a in alphas]
    shape = torch.broadcast_shapes(*(t.shape for t in tensors))
    return torch.stack([t.expand(shape) for t in tensors])
