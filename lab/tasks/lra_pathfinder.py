"""Pathfinder and Path-X from the release's own pictures.

``pathfinder32/curv_contour_length_14/`` (and ``pathfinder128/…``) holds ``metadata/*.npy``, which are text in spite
of their name: a line a picture, fields between single spaces, of which field 0 is the picture's folder (``imgs/0``),
1 its file name and 3 its label; and the PNG files. Empty PNG files are skipped, as LRA's loader does. LRA cuts its
list of pictures into 80, 10 and 10 %; the order there is its library's, so the lab shuffles with a fixed seed instead
and cuts at the same places.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.tasks.base import TaskData, TaskError, TaskInfo
from lab.tasks.cache import Allocate, cached_arrays, source_identity
from lab.tasks.lra_release import check_inside, find_files, missing_file
from lab.tasks.pixels import GREYS, PixelTask, pictures

DIFFICULTY = "curv_contour_length_14"
FIELDS = 4  # at least; more follow
MAX_LINE = 4096
SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY_8_BIT = (8, 0)  # bit depth and colour type in a PNG's header
LABELS = {b"0": 0, b"1": 1}
SHARES = (0.8, 0.9)


class LraPathfinder(PixelTask):
    """The release's pictures of one size."""

    side = 32
    info = TaskInfo(
        name="lra_pathfinder",
        title="Pathfinder (LRA release)",
        description="The Long Range Arena's own 32×32 pictures of dashed paths, the hardest kind (14 dashes): "
        "does one path join the two discs?",
        source="pathfinder32/curv_contour_length_14 of the Long Range Arena release (arXiv 2011.04006), in the folder LAB_LRA_DIR; "
        "after Linsley et al., arXiv 1805.08315",
        licence="Apache 2.0 (github.com/google-research/long-range-arena)",
        sizes=("full",),
        label_names=("on different paths", "on one path"),
    )

    @property
    def folders(self) -> tuple[str, ...]:
        """Where in the release the pictures are looked for."""
        name = f"pathfinder{self.side}"
        return (f"{name}/{DIFFICULTY}", f"pathfinder/{name}/{DIFFICULTY}", f"{name}/{name}/{DIFFICULTY}")

    def unavailable(self, size: str) -> str:
        """Why a size cannot be loaded here; empty if it can."""
        return super().unavailable(size) or missing_file(self.folders, ["metadata", "imgs"])

    def load_available(self, size: str) -> TaskData:
        """All pictures, as a token table on the disk."""
        metadata, _ = find_files(self.folders, ["metadata", "imgs"])
        lists = sorted(metadata.glob("*.npy"), key=lambda path: (len(path.name), path.name))
        if not lists:
            raise TaskError(f"{metadata} holds no list of pictures; files named like 0.npy were expected.")

        def build(allocate: Allocate) -> None:
            listed = list(listed_pictures(lists, metadata.parent))
            tokens = allocate("tokens", (len(listed), self.side**2), np.uint8)
            order = np.random.default_rng(0).permutation(len(listed))
            for row, index in enumerate(order):
                path, where, _ = listed[index]
                tokens[row] = read_png(path, self.side, where).reshape(-1)
            allocate("labels", (len(listed),), np.int64)[:] = [listed[index][2] for index in order]

        identity = {"reader": 1, "folder": str(metadata.parent), **source_identity(lists)}
        arrays = cached_arrays(self.info.name, identity, build)
        tokens, labels = arrays["tokens"], arrays["labels"]
        end, start = (int(share * len(labels)) for share in SHARES)
        train, test = pictures(tokens[:end], labels[:end]), pictures(tokens[start:], labels[start:])
        return TaskData(train, test, GREYS, 2, arrays.digest)


class LraPathX(LraPathfinder):
    """The same at 128×128."""

    side = 128
    info = TaskInfo(
        name="lra_pathx",
        title="Path-X (LRA release)",
        description="The Long Range Arena's own 128×128 pictures of dashed paths, 16384 tokens each: "
        "does one path join the two discs?",
        source=LraPathfinder.info.source.replace("pathfinder32", "pathfinder128"),
        licence=LraPathfinder.info.licence,
        sizes=("full",),
        label_names=LraPathfinder.info.label_names,
    )


def listed_pictures(lists: list[Path], folder: Path) -> Iterator[tuple[Path, str, int]]:
    """File, place in the lists (for messages) and label of every picture that is not empty. Raises :class:`TaskError`."""
    inside: dict[bytes, Path] = {}
    for path in lists:
        check_inside(path)
        with path.open("rb") as file:
            number = 0
            while raw := file.readline(MAX_LINE + 1):
                number += 1
                where = f"{path}, line {number}"
                if len(raw) > MAX_LINE:
                    raise TaskError(
                        f"{where}: the line is longer than {MAX_LINE} bytes; the fields of one picture were expected."
                    )
                fields = raw.rstrip(b"\r\n").split(b" ")
                if len(fields) < FIELDS:
                    raise TaskError(
                        f"{where}: {len(fields)} field{'s' * (len(fields) != 1)} between spaces; "
                        f"at least {FIELDS} (folder, file, number, label) were expected."
                    )
                if fields[3] not in LABELS:
                    raise TaskError(f"{where}: the label is {_shown(fields[3])}; 0 or 1 was expected.")
                if fields[0] not in inside:
                    inside[fields[0]] = check_inside(folder / _name(fields[0], where))
                name = _name(fields[1], where)
                if "/" in name or name in ("", ".", ".."):
                    raise TaskError(f"{where}: the file's name is {_shown(fields[1])}; a plain name was expected.")
                picture = inside[fields[0]] / name
                try:
                    empty = picture.lstat().st_size == 0
                except OSError:
                    raise TaskError(f"{where}: {picture} is not there; a PNG file was expected.") from None
                if not empty:
                    yield picture, where, LABELS[fields[3]]


def read_png(path: Path, side: int, where: str) -> NDArray[np.uint8]:
    """A grey 8-bit PNG of ``side × side`` pixels, ``(side, side)``.

    Size and kind are read from the header before anything is unpacked, and a file much larger than its pixels is
    refused, so that no picture can fill the memory. ``where`` begins the message. Raises :class:`TaskError`.
    """
    from PIL import Image

    expected = f"a grey 8-bit PNG of {side}×{side} pixels was expected"
    limit = 4 * side * side + 4096
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise TaskError(f"{where}: {path} could not be opened ({error.strerror}); {expected}.") from None
    if len(data) > limit:
        raise TaskError(f"{where}: {path} is larger than {limit} bytes; {expected}.")
    if len(data) < 33 or data[:8] != SIGNATURE or data[12:16] != b"IHDR":
        raise TaskError(f"{where}: {path} does not begin as a PNG does; {expected}.")
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    if (width, height, (depth, colour)) != (side, side, GREY_8_BIT):
        raise TaskError(
            f"{where}: {path} says {width}×{height} pixels of depth {depth} and colour type {colour}; {expected}."
        )
    try:
        with Image.open(BytesIO(data), formats=("PNG",)) as image:
            image.load()
            return np.asarray(image, dtype=np.uint8)
    except (OSError, SyntaxError, ValueError) as error:
        raise TaskError(f"{where}: {path} is truncated or damaged ({error}); {expected}.") from None


def _name(field: bytes, where: str) -> str:
    try:
        name = field.decode("utf-8")
    except UnicodeDecodeError:
        name = "\0"
    if "\0" in name or len(name) > 255:
        raise TaskError(f"{where}: the name {_shown(field)} is no file's name; text was expected.")
    return name


def _shown(field: bytes) -> str:
    return repr(field[:20].decode("utf-8", "replace"))
