"""A matrix that somebody uploads: CSV or NPY in, ``(tokens, dim)`` float64 out, or one sentence saying what is wrong.

Nothing is believed before it is checked: an NPY header is read and held against the limits and the number of bytes that
came with it before anything is allocated, and no pickle is ever opened.
"""

from __future__ import annotations

import io
import math
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from lab.errors import LabError

MAX_TOKENS = 4096
MAX_DIM = 1024
MAX_BYTES = 50 * 2**20
MAX_VALUE = 1e30
"""A figure is drawn in float32, which ends at 3e38; this leaves room for what is computed from the numbers."""
LIMITS = f"at most {MAX_TOKENS} rows (tokens) and {MAX_DIM} columns (dimensions)"


class UploadError(LabError):
    """An upload that cannot be used; the sentence names the file and what is allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "upload")


def read_matrix(name: str, data: bytes) -> NDArray[np.float64]:
    """The matrix in a file called ``name``: a row a token, a column a dimension; a single row of numbers in NPY is (n, 1).

    Raises :class:`UploadError` unless it is CSV or NPY, numeric, finite, 2 to 4096 tokens and 1 to 1024 dimensions.
    """
    shown = repr(name if len(name) <= 60 else name[:57] + "…")
    kind = PurePath(name).suffix.lower()
    if kind not in (".csv", ".npy"):
        raise UploadError(f"The upload {shown} is not a .csv or .npy file; these two are allowed.")
    if not data:
        raise UploadError(f"The upload {shown} is empty; it must hold a matrix of numbers with a row for each token.")
    if len(data) > MAX_BYTES:
        raise UploadError(f"The upload {shown} has {len(data)} bytes; at most {MAX_BYTES} are allowed.")
    matrix = _npy(shown, data) if kind == ".npy" else _csv(shown, data)
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise UploadError(
            f"The upload {shown} holds NaN or infinity in row {row + 1}, column {column + 1}; every number must be finite."
        )
    if np.abs(matrix).max() > MAX_VALUE:
        raise UploadError(f"The upload {shown} holds a number beyond 1e30; figures can show at most that, up or down.")
    return matrix


def _check_shape(shown: str, shape: tuple[int, ...]) -> None:
    if len(shape) not in (1, 2):
        raise UploadError(f"The upload {shown} has {len(shape)} axes; it must have two, tokens and dimensions, or one.")
    tokens, dim = shape if len(shape) == 2 else (shape[0], 1)
    if tokens > MAX_TOKENS or dim > MAX_DIM:
        raise UploadError(f"The upload {shown} is {tokens} × {dim}; {LIMITS} are allowed.")
    if tokens < 2 or dim < 1:
        raise UploadError(
            f"The upload {shown} has {tokens} tokens and {dim} dimensions; it must have 2 tokens or more."
        )


def _npy(shown: str, data: bytes) -> NDArray[np.float64]:
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(version)
    except Exception:  # the header is somebody's Python literal: numpy lets through whatever its parser raises
        raise UploadError(f"The upload {shown} has no NPY header that can be read; save it with numpy.save.") from None
    if dtype.hasobject:
        raise UploadError(f"The upload {shown} holds Python objects; only plain numbers are allowed.")
    if dtype.kind not in "fiub":
        what = "complex numbers" if dtype.kind == "c" else f"{dtype.name} values"
        raise UploadError(f"The upload {shown} holds {what}; only real numbers are allowed.")
    _check_shape(shown, shape)
    needed = math.prod(shape) * dtype.itemsize
    if len(data) - file.tell() < needed:
        raise UploadError(f"The upload {shown} ends early; its header promises {needed} bytes of numbers.")
    file.seek(0)
    matrix = np.load(file, allow_pickle=False).astype(np.float64)
    return matrix[:, None] if matrix.ndim == 1 else matrix


def _csv(shown: str, data: bytes) -> NDArray[np.float64]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UploadError(f"The upload {shown} is not UTF-8 text; save the CSV as UTF-8.") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise UploadError(f"The upload {shown} is empty; it must hold a matrix of numbers with a row for each token.")
    separator = next((mark for mark in (",", ";", "\t") if mark in lines[0]), ",")
    if len(lines) > 1 and not any(_is_number(cell) for cell in lines[0].split(separator)):
        lines = lines[1:]  # a heading
    columns = lines[0].count(separator) + 1
    _check_shape(shown, (len(lines), columns))
    rows = []
    for number, line in enumerate(lines, 1):
        cells = line.split(separator)
        if len(cells) != columns:
            raise UploadError(
                f"The upload {shown} has {len(cells)} values in row {number} and {columns} in the first; "
                "every row must have as many."
            )
        try:
            rows.append([float(cell) for cell in cells])
        except ValueError:
            bad = next(cell for cell in cells if not _is_number(cell)).strip()[:20]
            raise UploadError(f"The upload {shown} holds {bad!r} in row {number}; only numbers are allowed.") from None
    return np.array(rows)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
