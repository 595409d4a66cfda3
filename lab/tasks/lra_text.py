"""Text as the Long Range Arena has it: IMDB movie reviews, positive or negative, byte by byte.

Reads the published folder of the data set, ``aclImdb/{train,test}/{neg,pos}/<id>_<rating>.txt``, from ``LAB_LRA_DIR``
or the data folder: 25,000 reviews to train on and 25,000 held out (LRA validates on its test split, and so does the
lab). A review is cut to 1000 bytes, the ``max_length`` in LRA's code; its paper's tables say 4K. The split is the
publishers', their repeated reviews included. Example: the bytes of "One of the best films …", each plus one, label 1
(positive).
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np

from lab.tasks import text_bytes
from lab.tasks.base import Split, TaskData, TaskError, TaskInfo
from lab.tasks.cache import Allocate, cached_arrays, data_folder
from lab.tasks.lra_release import locate
from lab.tasks.paths import is_folder

FOLDER = "aclImdb"
LONGEST = 1000
PARTS = ("train", "test")
LABELS = ("neg", "pos")


class LraText(text_bytes.ByteTask):
    """IMDB reviews."""

    info = TaskInfo(
        name="lra_text",
        title="Text (LRA: IMDB)",
        description=f"Movie reviews, the first {LONGEST} bytes of each: is the review positive or negative?",
        source="A.L. Maas et al., Learning Word Vectors for Sentiment Analysis, ACL 2011 (Large Movie Review Dataset), "
        "as the Long Range Arena reads it (arXiv 2011.04006); the reader's own copy",
        licence="no licence stated by its publishers; the lab holds no copy",
        sizes=("full",),
        label_names=("negative", "positive"),
    )

    def load_available(self, size: str) -> TaskData:
        """The data of one size."""
        return _load(_root())

    def unavailable(self, size: str) -> str:
        """Why a size cannot be loaded here; empty if it can."""
        if size in ("mini", "small"):
            return f"lra_text has no size {size!r}; text, on sentences instead of whole reviews, has."
        if reason := super().unavailable(size):
            return reason
        root = _root()
        if not is_folder(root):
            return (
                "The IMDB reviews are not here; unpack aclImdb_v1.tar.gz into the folder that LAB_LRA_DIR names, "
                f"or into {root.parent}."
            )
        for part in PARTS:
            for label in LABELS:
                if not is_folder(root / part / label):
                    return f"{root / part / label} is missing; neg and pos were expected in {FOLDER}/train and /test."
        return ""


def _root() -> Path:
    return locate(("",), FOLDER) or data_folder() / FOLDER


@lru_cache(maxsize=1)
def _load(root: Path) -> TaskData:
    files = {
        part: [(path, label) for label, name in enumerate(LABELS) for path in _reviews(root / part / name)]
        for part in PARTS
    }
    identity: dict[str, object] = {"longest": LONGEST}
    for part, found in files.items():
        identity[part] = [
            [f"{path.parent.name}/{path.name}", path.stat().st_size, path.stat().st_mtime_ns] for path, _ in found
        ]

    def build(allocate: Allocate) -> None:
        for part, found in files.items():
            tokens = allocate(f"{part}_tokens", (len(found), LONGEST), np.uint8)
            lengths = allocate(f"{part}_lengths", (len(found),), np.int64)
            labels = allocate(f"{part}_labels", (len(found),), np.int64)
            for row, (path, label) in enumerate(found):
                with path.open("rb") as file:
                    text = file.read(LONGEST)
                tokens[row, : len(text)] = text_bytes.to_tokens(text)
                lengths[row], labels[row] = len(text), label

    arrays = cached_arrays("lra_text", identity, build)
    train, test = (Split(*(arrays[f"{part}_{kind}"] for kind in ("tokens", "lengths", "labels"))) for part in PARTS)
    return TaskData(train, test, text_bytes.VOCABULARY, 2, arrays.digest)


def _reviews(folder: Path) -> list[Path]:
    """The reviews in a folder in the order of their numbers. Raises :class:`TaskError` if there are none, or one is
    empty or a link."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            number, _, rest = entry.name.partition("_")
            if not (number.isdecimal() and rest.endswith(".txt")):
                continue
            if not entry.is_file(follow_symlinks=False) or not entry.stat().st_size:
                raise TaskError(f"{entry.path} is empty or a link; a review in a plain file was expected.")
            found.append((int(number), Path(entry.path)))
    if not found:
        raise TaskError(f"{folder} holds no review; files named like 0_9.txt were expected.")
    return [path for _, path in sorted(found)]
