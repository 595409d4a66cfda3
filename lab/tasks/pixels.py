"""What tasks on square grey pictures share: a picture is read row by row, a pixel is a token, its grey value the token's id."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lab.tasks.base import Split, Task, TaskError

GREYS = 256
GROUND = 96
"""The grey between the pictures of a contact sheet."""


class PixelTask(Task):
    """A task on pictures. A person names one by its number among the held-out ones of the task's first size."""

    def encode(self, text: str) -> NDArray[np.integer]:
        """The pixels of held-out picture number ``text``, from 0."""
        test = self.load(self.info.sizes[0]).test
        if not (text.strip().isdecimal() and int(text) < len(test)):
            raise TaskError(
                f"The picture's number is {text[:20]!r}; it must be a whole number from 0 to {len(test) - 1}.",
                "example",
            )
        return np.asarray(test.tokens[int(text)]).astype(np.uint8)

    def decode(self, tokens: NDArray[np.integer]) -> list[str]:
        """Where each pixel is."""
        side = math.isqrt(len(tokens))
        return [f"row {i // side}, column {i % side}" for i in range(len(tokens))]

    def picture(self, split: Split) -> NDArray[np.uint8]:
        """A contact sheet of sixteen examples."""
        return contact_sheet(split)


def pictures(tokens: NDArray[np.integer], labels: NDArray[np.integer]) -> Split:
    """A split of pictures ``tokens (n, pixels)``, all of full length."""
    return Split(tokens, np.full(len(labels), tokens.shape[1], np.int64), labels)


def contact_sheet(split: Split, n: int = 16, columns: int = 8, gap: int = 2) -> NDArray[np.uint8]:
    """The first ``n`` pictures of a split as one grey picture, those of one label together, lower labels first.

    As many of each label as there are room and pictures for; a label begins a new row.
    """
    side = math.isqrt(split.tokens.shape[-1])
    classes = np.unique(split.labels)
    each = max(1, n // len(classes))
    rows = [np.flatnonzero(split.labels == label)[:each] for label in classes]
    lines = [row[i : i + columns] for row in rows for i in range(0, len(row), columns)]
    step = side + gap
    sheet = np.full((len(lines) * step + gap, columns * step + gap), GROUND, np.uint8)
    for y, line in enumerate(lines):
        for x, index in enumerate(line):
            top, left = gap + y * step, gap + x * step
            sheet[top : top + side, left : left + side] = split.tokens[index].reshape(side, side)
    return sheet
