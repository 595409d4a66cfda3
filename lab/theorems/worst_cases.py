"""Inputs that are built to be worst for the theorems about the heat step and attention: whatever bound there is, these come nearest to it.

Everything is float64 and the same in every process. Representations are ``X (n, d)``, attention matrices ``P (n, n)`` with rows that sum
to 1.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from lab.attention import MATRICES
from lab.commutator import commutator, infinity_norm, spectral_norm
from lab.heads import Head

TOKENS = 64
DIM = 4
SEARCH_TOKENS = 12
SEARCH_STEPS = 60


def path_laplacian(n: int) -> Tensor:
    """L of the path of n tokens as ``BᵀB`` of its edges ``(Bx)_i = x_{i+1} - x_i``: independent of the lab's own."""
    edges = torch.eye(n, dtype=torch.float64)[1:] - torch.eye(n, dtype=torch.float64)[:-1]
    return edges.T @ edges


def cosines(n: int) -> Tensor:
    """The orthonormal DCT-II basis, ``(n, n)``, a mode in each column: ``cos(πk (i + 1/2) / n)``."""
    i = torch.arange(n, dtype=torch.float64)
    modes = torch.cos(math.pi * i * (i[:, None] + 0.5) / n)
    return modes / torch.linalg.vector_norm(modes, dim=0)


def eigenvalues(n: int, stride: int = 1) -> Tensor:
    """``4 sin²(πks / 2n)`` written out, ``(n,)``."""
    return 4 * torch.sin(math.pi * stride * torch.arange(n, dtype=torch.float64) / (2 * n)) ** 2


@cache
def built(n: int = TOKENS) -> dict[str, Tensor]:
    """Random and adversarial representations of n tokens by name, ``(n, d)`` each."""
    i = torch.arange(n, dtype=torch.float64)
    random = torch.Generator().manual_seed(n)
    spike = torch.zeros(n, dtype=torch.float64)
    spike[n // 2] = 1
    end = torch.zeros(n, dtype=torch.float64)
    end[0] = 1
    made = {
        "random": torch.randn(n, DIM, generator=random, dtype=torch.float64),
        "random, entries from 1e-6 to 1e6": torch.randn(n, DIM, generator=random, dtype=torch.float64)
        * 10 ** torch.linspace(-6, 6, n, dtype=torch.float64)[:, None],
        "constant": torch.ones(n, dtype=torch.float64),
        "alternating signs": (-1) ** i,
        "highest cosine mode": cosines(n)[:, -1],
        "lowest cosine mode": cosines(n)[:, 1],
        "single spike": spike,
        "spike at the end": end,
        "two constant blocks": torch.where(i < n / 2, 1.0, -1.0).double(),
    }
    return {name: x[:, None] if x.ndim == 1 else x for name, x in made.items()}


def representations(trained: Head | None) -> dict[str, Tensor]:
    """All of them: random, adversarial, and that of a trained model."""
    return {**built(), **({} if trained is None else {"values of a trained head": trained.values})}


def riffle(n: int) -> Tensor:
    """The permutation matrix that sends even tokens to the first half and odd ones to the second.

    It turns the highest frequency, alternating signs, into two blocks, nearly the lowest: so ``PL`` and ``LP`` are as far apart as can be.
    """
    order = torch.cat([torch.arange(0, n, 2), torch.arange(1, n, 2)])
    return torch.eye(n, dtype=torch.float64)[order]


@cache
def _matrices() -> dict[str, Tensor]:
    """Built-in, adversarial and searched attention matrices by name."""
    known = {f"{matrix.label} attention": matrix.build(TOKENS) for matrix in MATRICES.values()}
    one_token = torch.zeros(TOKENS, TOKENS, dtype=torch.float64)
    one_token[:, TOKENS // 2] = 1
    blocks = torch.block_diag(*[torch.full((4, 4), 0.25, dtype=torch.float64)] * (TOKENS // 4))
    return {
        **known,
        "all look at one token": one_token,
        "blocks of four tokens": blocks,
        "even tokens first, then odd": riffle(TOKENS),
        "found by search, 2-norm": searched("2"),
        "found by search, ∞-norm": searched("∞"),
    }


def matrices(trained: Head | None) -> dict[str, Tensor]:
    """All of them, and that of a trained model."""
    return {**_matrices(), **({} if trained is None else {"attention of a trained head": trained.p})}


@cache
def searched(norm: str) -> Tensor:
    """A matrix found by gradient ascent on ``‖[D, P]‖ / ‖P‖``, from a random start; P = softmax(θ) stays row-stochastic.

    ``norm`` is ``2`` or ``∞`` (where ‖P‖ is 1). Small, so that it takes a moment.
    """
    size = spectral_norm if norm == "2" else infinity_norm
    random = torch.Generator().manual_seed(0)
    theta = torch.randn(SEARCH_TOKENS, SEARCH_TOKENS, generator=random, dtype=torch.float64)
    for _ in range(SEARCH_STEPS):
        theta.requires_grad_()
        p = torch.softmax(theta, -1)
        (uphill,) = torch.autograd.grad(size(commutator(p, 0.25)) / size(p), theta)
        theta = theta.detach() + 0.3 * uphill / uphill.abs().max()
    return torch.softmax(theta, -1)
