"""A training step as one CUDA graph: the GPU is told once what to do, and then only to do it again.

A step of a small model is hundreds of small kernels, and launching them takes longer than running them. Where every batch has the same
shape, the launches are recorded once and replayed. **Unmeasured:** no GPU was at hand when this was written. It follows the documentation
of torch 2.13; neither its speed nor its agreement with the uncaptured step has been seen. ``benchmarks/gpu.py`` shows both on a GPU.
On a CPU nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lab.model import PackTransformer
from lab.snapshots import restore, snapshot

WARM_UP = 3
"""Steps before the recording, in which libraries choose their kernels and set aside their memory."""

Update = Callable[[Tensor, Tensor | None, Tensor], Tensor]
"""One step of the optimiser: each arm's loss, ``(arms,)``, from tokens, lengths and labels."""


def obstacle(device: torch.device, ragged: bool) -> str:
    """Why a step cannot be captured, in a few words; empty if it can be tried."""
    if device.type != "cuda":
        return "it runs on a CPU"
    return "sequences differ in length" if ragged else ""


class Step:
    """An update, captured at its first call unless there is an :func:`obstacle`; if capture fails, the update as it is.

    The optimiser must be capturable, its learning rate a tensor; the update must not read a value back from the GPU.
    """

    def __init__(self, model: PackTransformer, optimiser: torch.optim.Optimizer, obstacle: str) -> None:
        self.obstacle = obstacle
        self._model, self._optimiser = model, optimiser
        self._captured: _Captured | None = None

    @property
    def note(self) -> str:
        """``yes`` if steps are captured, else ``no`` and why."""
        return f"no: {self.obstacle}" if self.obstacle else "yes"

    def __call__(self, update: Update, tokens: Tensor, lengths: Tensor | None, labels: Tensor) -> Tensor:
        """Each arm's loss, ``(arms,)``, to be read before the next call. Raises what the update raises."""
        if self._captured is None and not self.obstacle:
            try:
                self._captured = _Captured(self._model, self._optimiser, update, tokens, labels)
            except torch.OutOfMemoryError:
                raise  # fewer arms at a time will do
            except RuntimeError as error:
                self.obstacle = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        if self._captured is not None:
            return self._captured(tokens, labels)
        return update(tokens, lengths, labels)


class _Captured:
    """The recording, and the tensors that it reads and writes."""

    def __init__(
        self, model: PackTransformer, optimiser: torch.optim.Optimizer, update: Update, tokens: Tensor, labels: Tensor
    ) -> None:
        self._tokens, self._labels = tokens.clone(), labels.clone()
        here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
        before = snapshot(model, optimiser)
        aside.wait_stream(here)
        try:
            with torch.cuda.stream(aside):
                for _ in range(WARM_UP):
                    update(self._tokens, None, self._labels)
        finally:
            here.wait_stream(aside)
            restore(model, optimiser, before)  # in place: the recording writes to the tensors that are there now
        self._graph = torch.cuda.CUDAGraph()
        if model.config.dropout > 0:
            for stream in model.dropout_streams():
                self._graph.register_generator_state(stream)
        # The outer context, since a capture that fails leaves its own stream as the current one.
        with torch.cuda.stream(here), torch.cuda.graph(self._graph, stream=aside):
            self._losses = update(self._tokens, None, self._labels)

    def __call__(self, tokens: Tensor, labels: Tensor) -> Tensor:
        self._tokens.copy_(tokens)
        self._labels.copy_(labels)
        self._graph.replay()
        return self._losses
