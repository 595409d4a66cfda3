"""Token representations to smooth: ``(tokens, dim)`` matrices with a name for every token and a word on where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.config import RunConfig
from lab.errors import LabError
from lab.tasks import get_task

TEXT_DIM = 16


@dataclass(frozen=True)
class Representations:
    """``x (tokens, dim)``, a short name for each token, what they are in words, and what a figure of them is based on."""

    x: NDArray[np.float64]
    tokens: tuple[str, ...]
    what: str
    basis: str

    def __post_init__(self) -> None:
        if len(self.x) < 2:
            raise LabError("There is one token; smoothing needs at least 2, so type more.", "text")


def of_text(text: str, seed: int) -> Representations:
    """Byte embeddings of a freshly initialised model, N(0, 1), places aside: the same byte has the same vector wherever it stands."""
    data = text.encode("utf-8", errors="replace")
    if len(data) < 2:
        raise LabError(f"The text has {len(data)} bytes; it must have at least 2, a token each.", "text")
    table = np.random.default_rng(seed).standard_normal((256, TEXT_DIM))
    names = tuple("␣" if byte == 32 else chr(byte) if 32 < byte < 127 else f"{byte:02x}" for byte in data)
    return Representations(table[np.frombuffer(data, np.uint8)], names, f"embeddings of {len(data)} bytes", "untrained")


def of_signal(tokens: int, noise: float, seed: int) -> Representations:
    """A slow wave with a jump, one dimension, plus Gaussian noise of the given standard deviation."""
    t = (np.arange(tokens) + 0.5) / tokens
    clean = np.sin(2 * np.pi * t) + np.where(t > 0.6, 1.0, 0.0)
    noisy = clean + noise * np.random.default_rng(seed).standard_normal(tokens)
    names = tuple(map(str, range(tokens)))
    return Representations(noisy[:, None], names, f"a wave with a jump and noise {noise:g}", "one seed")


def of_matrix(matrix: NDArray[np.float64], name: str) -> Representations:
    """An uploaded matrix as it is."""
    return Representations(matrix, tuple(map(str, range(len(matrix)))), f"your matrix {name}", "your data")


def of_pixels(typed: str) -> Representations:
    """The grey values of a held-out digit, 0 to 16, one dimension, read row by row."""
    task = get_task("digits")
    tokens = task.encode(typed)
    return Representations(
        np.asarray(tokens, np.float64)[:, None], tuple(task.decode(tokens)), f"grey values of digit {typed}", "data"
    )


def of_embedding(
    typed: str, config: RunConfig, arrays: Mapping[str, NDArray[np.float32]], *, trained: bool
) -> Representations:
    """What a model's first heat layer would see: the embedding of each token plus that of its place.

    Raises :class:`LabError` where the input is longer than the model's longest.
    """
    task = get_task(config.task)
    tokens = task.encode(typed)
    longest = len(arrays["position"])
    if len(tokens) > longest:
        raise LabError(
            f"The input has {len(tokens)} tokens; the trained model takes at most {longest}, so shorten it.", "text"
        )
    x = arrays["embedding"][tokens] + arrays["position"][: len(tokens)]
    state = "trained" if trained else "freshly initialised"
    what = f"{state} embeddings, {len(tokens)} tokens × {x.shape[1]} dimensions"
    return Representations(
        x.astype(np.float64), tuple(task.decode(tokens)), what, "one seed" if trained else "untrained"
    )


def fresh_arrays(config: RunConfig) -> dict[str, NDArray[np.float32]]:
    """The parameters a run starts from. Loads torch."""
    from lab.model import PackTransformer

    data = get_task(config.task).load(config.size)
    return PackTransformer([config], data.vocabulary, data.length, data.classes).arrays(0)
