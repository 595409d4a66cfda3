"""Image: CIFAR-10 in grey, a picture read pixel by pixel, as the Long Range Arena has it.

Reads the data set's *binary version* (``cifar-10-binary.tar.gz``), never the pickled one: ``data_batch_1.bin`` …
``data_batch_5.bin`` and ``test_batch.bin``, each 10,000 records of 3073 bytes: the label, then 1024 red, 1024 green
and 1024 blue values, row by row. The files are looked for in ``LAB_CIFAR_DIR``, then in ``cifar-10-batches-bin`` in
the data folder.

LRA trains on the first 90 % of the training pictures (45,000), validates on the other 5,000 and tests on 10,000. Grey
is what TensorFlow's ``rgb_to_grayscale``, which LRA calls, makes of bytes: ``⌊255.5/255 · (0.2989 R + 0.5870 G +
0.1140 B)⌋``; that gives 1024 tokens of 256 values. Example: the 1024 greys of a picture of a frog, label 6.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.tasks.base import TaskData, TaskError, TaskInfo
from lab.tasks.cache import Allocate, cached_arrays, data_folder, source_identity
from lab.tasks.paths import is_file, is_folder
from lab.tasks.pixels import GREYS, PixelTask, pictures

SIDE = 32
PIXELS = SIDE * SIDE
RECORD = 1 + 3 * PIXELS
RECORDS = 10_000
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAIN_FILES = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST_FILE = "test_batch.bin"
WEIGHTS = np.array([0.2989, 0.5870, 0.1140]) * (255.5 / 255)
FOLDER = "cifar-10-batches-bin"

# size: (training pictures, test pictures, side after averaging over squares of pixels)
SIZES = {"mini": (8000, 1000, 8), "small": (12_000, 2000, 16), "full": (45_000, 10_000, 32)}


class LraImage(PixelTask):
    """CIFAR-10 in grey; see the top of this file."""

    info = TaskInfo(
        name="lra_image",
        title="Image (LRA: CIFAR-10)",
        description="Grey photographs of ten kinds of things, read pixel by pixel: which kind? Averaged down to 8×8 pixels at mini and "
        "16×16 at small; 32×32, 1024 tokens, at full.",
        source="A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009 (CIFAR-10, binary version), in grey as in "
        "the Long Range Arena (arXiv 2011.04006); the reader's own copy",
        licence="no licence stated by its publishers; the lab holds no copy",
        sizes=tuple(SIZES),
        label_names=CLASSES,
    )

    def unavailable(self, size: str) -> str:
        """Why a size cannot be loaded here; empty if it can. Looks at names only."""
        if reason := super().unavailable(size):
            return reason
        folder = _folder()
        for name in (*TRAIN_FILES, TEST_FILE):
            if not is_file(folder / name):
                return (
                    f"{folder / name} is not there; unpack CIFAR-10's binary version (cifar-10-binary.tar.gz) "
                    "and let LAB_CIFAR_DIR name the folder with its six .bin files."
                )
        return ""

    def load_available(self, size: str) -> TaskData:
        """One size, as a token table on the disk; the files themselves are memory-mapped, never read whole."""
        n_train, n_test, side = SIZES[size]
        folder = _folder()
        files = [folder / name for name in (*TRAIN_FILES, TEST_FILE)]

        def build(allocate: Allocate) -> None:
            records = [open_records(path) for path in files]
            for name, batches, n in (("train", records[:-1], n_train), ("test", records[-1:], n_test)):
                tokens = allocate(f"{name}_tokens", (n, side * side), np.uint8)
                labels = allocate(f"{name}_labels", (n,), np.int64)
                for start in range(0, n, RECORDS):
                    part = batches[start // RECORDS][: n - start]
                    rows = slice(start, start + len(part))
                    tokens[rows] = _shrink(to_grey(part), side)
                    labels[rows] = part[:, 0]

        arrays = cached_arrays(f"lra_image-{size}", {"reader": 1, "size": size, **source_identity(files)}, build)
        train, test = (pictures(arrays[f"{name}_tokens"], arrays[f"{name}_labels"]) for name in ("train", "test"))
        return TaskData(train, test, GREYS, len(CLASSES), arrays.digest)


def _folder() -> Path:
    named = os.environ.get("LAB_CIFAR_DIR")
    if not named:
        return data_folder() / FOLDER
    folder = Path(named).absolute()
    return folder / FOLDER if is_folder(folder / FOLDER) else folder


def open_records(path: Path) -> NDArray[np.uint8]:
    """One file's records ``(10000, 3073)``, memory-mapped. Raises :class:`TaskError` for another size or an unknown label."""
    expected = f"{RECORDS} records of {RECORD} bytes, {RECORDS * RECORD} bytes in all, were expected"
    try:
        size = path.stat().st_size
        if size != RECORDS * RECORD:
            raise TaskError(f"{path} has {size} bytes; {expected}.")
        records: NDArray[np.uint8] = np.memmap(path, np.uint8, "r", shape=(RECORDS, RECORD))
    except OSError as error:
        raise TaskError(f"{path} could not be read ({error.strerror}); {expected}.") from None
    unknown = np.flatnonzero(records[:, 0] >= len(CLASSES))
    if len(unknown):
        raise TaskError(
            f"{path}, record {unknown[0] + 1}: the label is {records[unknown[0], 0]}; 0 to {len(CLASSES) - 1} was expected."
        )
    return records


def to_grey(records: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Grey values ``(n, 1024)`` of records ``(n, 3073)``, by the formula at the top of this file."""
    out = np.empty((len(records), PIXELS), np.uint8)
    for start in range(0, len(records), 1000):
        rgb: NDArray[Any] = records[start : start + 1000, 1:].reshape(-1, 3, PIXELS)
        out[start : start + 1000] = np.tensordot(rgb, WEIGHTS, axes=(1, 0))
    return out


def _shrink(grey: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Means over squares of pixels, rounded down: ``(n, side²)``."""
    if side == SIDE:
        return grey
    step = SIDE // side
    squares = grey.reshape(-1, side, step, side, step)
    return (squares.sum((2, 4), dtype=np.int64) // step**2).astype(np.uint8).reshape(-1, side * side)
