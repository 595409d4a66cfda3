"""What a task is: labelled token sequences with a fixed split, and where they come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lab.errors import LabError

PAD = 0
"""The token id of padding, in tasks whose sequences differ in length."""


class TaskError(LabError):
    """A task that does not exist, or whose data is not there or not sound."""


@dataclass(frozen=True)
class Split:
    """Sequences with labels: ``tokens (n, length)``, ``lengths (n,)``, ``labels (n,)``.

    Tokens are integer ids, or floats where the sequence is a signal. A task on pairs of documents has ``tokens (n, 2, length)``
    and ``lengths (n, 2)``. Positions at and after a sequence's own length hold :data:`PAD` and are never read by the model.
    """

    tokens: NDArray[np.integer] | NDArray[np.floating]
    lengths: NDArray[np.integer]
    labels: NDArray[np.integer]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class TaskData:
    """A task's examples at one size: a training split and the held-out split that accuracy is measured on.

    ``vocabulary`` is the number of token ids, 0 where the tokens are floats. ``digest`` is a hash of what was read from
    files whose content the task's name does not settle; empty where it does: for generated and for verified data.
    """

    train: Split
    test: Split
    vocabulary: int
    classes: int
    digest: str = ""

    @property
    def length(self) -> int:
        """The longest sequence, in tokens: how many positions the model needs."""
        return int(self.train.tokens.shape[-1])

    @property
    def towers(self) -> int:
        """How many documents make one example: 1, or 2 for a task on pairs."""
        return int(self.train.tokens.shape[1]) if self.train.tokens.ndim == 3 else 1

    @cached_property
    def chance(self) -> float:
        """Accuracy on the held-out split of always answering the most frequent training class."""
        return float(np.mean(self.test.labels == np.bincount(self.train.labels).argmax()))


@dataclass(frozen=True)
class TaskInfo:
    """What the pages say about a task, known without loading it."""

    name: str
    title: str
    description: str
    source: str
    licence: str
    sizes: tuple[str, ...]
    label_names: tuple[str, ...]


class Task(ABC):
    """One task: one file in this folder, registered in :mod:`lab.tasks`."""

    info: TaskInfo

    def load(self, size: str) -> TaskData:
        """Load or generate the data of one size; the same values on every machine. Raises :class:`TaskError`."""
        if reason := self.unavailable(size):
            raise TaskError(reason, "size")
        try:
            return self.load_available(size)
        except OSError as error:
            what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or error
            raise TaskError(f"The data of {self.info.name} could not be read ({what}).", "size") from None

    @abstractmethod
    def load_available(self, size: str) -> TaskData:
        """The data of a size that :meth:`unavailable` has nothing against."""

    @abstractmethod
    def encode(self, text: str) -> NDArray[np.integer]:
        """Token ids ``(tokens,)`` of one input as a person types it. Raises :class:`TaskError`."""

    @abstractmethod
    def decode(self, tokens: NDArray[np.integer]) -> list[str]:
        """One short string per token, for the axis of a figure."""

    def shown(self, tokens: NDArray[np.integer]) -> str:
        """One input ``(tokens,)`` as a person reads it."""
        return " ".join(self.decode(tokens))

    def picture(self, split: Split) -> NDArray[np.uint8] | None:
        """A sheet of examples as one grey picture, labels in rows; None where an example is no picture."""
        return None

    def unavailable(self, size: str) -> str:
        """Why this size cannot be loaded on this machine, in one sentence; empty if it can."""
        return (
            ""
            if size in self.info.sizes
            else f"{self.info.name} has no size {size!r}; it has {', '.join(self.info.sizes)}."
        )
