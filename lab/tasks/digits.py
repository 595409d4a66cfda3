"""Digits: 8×8 grey images of handwritten digits, read row by row as a sequence of 64 pixels.

The Image task of the Long Range Arena in miniature: a token is a pixel's grey value, 0 (white) to 16 (black). Example: the 64
values of an image of a three, label 3.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from lab.tasks.base import Split, Task, TaskData, TaskError, TaskInfo
from lab.tasks.pixels import contact_sheet

GREYS = 17
SIDE = 8
N_TEST = 500


class Digits(Task):
    """The Image task in miniature; see the top of this file."""

    info = TaskInfo(
        name="digits",
        title="Digits",
        description="8×8 grey images of handwritten digits, read pixel by pixel: which digit is it?",
        source="Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI Machine Learning Repository "
        "(doi 10.24432/C50P49), the copy bundled with scikit-learn",
        licence="CC BY 4.0",
        sizes=("mini",),
        label_names=tuple("0123456789"),
    )

    def load_available(self, size: str) -> TaskData:
        return _load()

    def encode(self, text: str) -> NDArray[np.integer]:
        """The pixels of held-out example number ``text``, 0 to 499."""
        try:
            index = int(text)
        except ValueError:
            index = -1
        if not 0 <= index < N_TEST:
            raise TaskError(
                f"The digit's number is {text!r}; it must be a whole number from 0 to {N_TEST - 1}.", "example"
            )
        return _load().test.tokens[index]

    def picture(self, split: Split) -> NDArray[np.uint8]:
        """Ten of each digit."""
        black = 255 - split.tokens.astype(np.uint16) * 255 // (GREYS - 1)
        return contact_sheet(Split(black.astype(np.uint8), split.lengths, split.labels), 100, 10)

    def decode(self, tokens: NDArray[np.integer]) -> list[str]:
        return [f"row {i // SIDE}, column {i % SIDE}" for i in range(len(tokens))]


@cache
def _load() -> TaskData:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    tokens = bunch.data.astype(np.uint8)[order]
    labels = bunch.target.astype(np.int64)[order]
    lengths = np.full(len(labels), SIDE * SIDE, dtype=np.int64)

    def split(rows: slice) -> Split:
        return Split(tokens[rows], lengths[rows], labels[rows])

    return TaskData(split(slice(N_TEST, None)), split(slice(N_TEST)), GREYS, 10)
