"""The order in which a run sees its training examples: a function of the seed alone, the same in every arm."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lab.config import RunConfig
from lab.tasks import Split


def batch_order(n: int, config: RunConfig) -> Iterator[NDArray[np.int64]]:
    """Indices of one batch after another, without end: every example once per epoch, each epoch shuffled anew.

    Drawn from ``default_rng([seed, 1])`` and nothing else, so arms of one seed see the same batches.
    """
    rng = np.random.default_rng([config.seed, 1])
    waiting = np.empty(0, dtype=np.int64)
    while True:
        while len(waiting) < config.batch:
            waiting = np.concatenate([waiting, rng.permutation(n)])
        yield waiting[: config.batch]
        waiting = waiting[config.batch :]


class DeviceSplit:
    """A split as tensors on a device, from which batches are gathered without a copy through the host.

    Tokens stay as narrow as they are stored, and on a CPU where they are stored, a memory map too: only batches are widened.
    """

    def __init__(self, split: Split, device: torch.device) -> None:
        self.tokens = _shared(split.tokens).to(device)
        self.lengths = torch.from_numpy(split.lengths.astype(np.int64)).to(device)
        self.labels = torch.from_numpy(split.labels.astype(np.int64)).to(device)
        self.ragged = bool((split.lengths < split.tokens.shape[-1]).any())

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """Tokens ``(…, batch, [towers,] n)``, lengths or None if every sequence is full, and labels, for ``index (…, batch)``.

        Ragged batches are cut to their longest sequence: padding changes no result, and costs time.
        """
        tokens, labels = self.tokens[index], self.labels[index]
        if not tokens.is_floating_point():
            tokens = tokens.long()
        if not self.ragged:
            return tokens, None, labels
        lengths = self.lengths[index]
        return tokens[..., : int(lengths.max())], lengths, labels


def _shared(tokens: NDArray[np.integer] | NDArray[np.floating]) -> Tensor:
    """Tokens as a tensor, without a copy wherever torch can gather from their type."""
    if np.issubdtype(tokens.dtype, np.floating):
        tokens = tokens.astype(np.float32, copy=False)
    elif tokens.dtype not in (np.uint8, np.int16, np.int32, np.int64):
        tokens = tokens.astype(np.int32)
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*not writable.*"
        )  # a memory map may be read-only; nothing here writes
        return torch.from_numpy(np.asarray(tokens))
