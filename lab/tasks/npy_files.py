"""NPY files that somebody brings: their header checked before anything is allocated, never unpickled."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.tasks.base import TaskError
from lab.tasks.tables import Source, opened, shown

_KINDS = {"f": "floats", "i": "integers", "u": "integers", "b": "booleans", "U": "words", "S": "words"}


def read_npy(source: Source, name: str, axes: int, kinds: str) -> NDArray[Any]:
    """The array in a file, a view of its bytes or of the disk.

    ``kinds`` are the NumPy kinds allowed, ``axes`` how many axes it must have. Raises :class:`TaskError`.
    """
    with opened(source, name) as file:
        try:
            version = np.lib.format.read_magic(file)
            if version == (1, 0):
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
            elif version == (2, 0):
                shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
            else:
                raise ValueError(version)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, OverflowError, EOFError):
            raise TaskError(
                f"{shown(name)} has no NPY header that can be read; save it with numpy.save.", "file"
            ) from None
        start = file.tell()
        have = file.seek(0, os.SEEK_END) - start
    if dtype.hasobject:
        raise TaskError(f"{shown(name)} holds Python objects; only plain numbers are allowed.", "file")
    allowed = " or ".join(dict.fromkeys(_KINDS[kind] for kind in kinds))
    if dtype.kind not in kinds:
        raise TaskError(f"{shown(name)} holds values of type {dtype.name}; {allowed} were expected.", "file")
    if len(shape) != axes:
        what = "two, sequences and tokens" if axes == 2 else "one, a label for each sequence"
        raise TaskError(f"{shown(name)} has {len(shape)} axes; {what}, were expected.", "file")
    if not all(size > 0 for size in shape):
        raise TaskError(f"{shown(name)} has the shape {shape}; at least one value was expected.", "file")
    if math.prod(shape) * dtype.itemsize > have or not dtype.itemsize:
        needed = math.prod(shape) * dtype.itemsize
        raise TaskError(f"{shown(name)} ends early; its header promises {needed} bytes and {have} are there.", "file")
    order: Any = "F" if fortran else "C"
    if isinstance(source, bytes):
        return np.ndarray(shape, dtype, buffer=source, offset=start, order=order)
    return np.memmap(source, dtype, "r", offset=start, shape=shape, order=order)
