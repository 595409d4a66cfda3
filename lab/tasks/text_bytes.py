"""Text as bytes: token = byte + 1, 0 is padding, as the Long Range Arena reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.tasks.base import PAD, Split, Task, TaskError

VOCABULARY = 257

Tokens = NDArray[np.uint8]


def to_tokens(text: bytes) -> Tokens:
    """Token ids of bytes. 0xFE and 0xFF, which no UTF-8 text holds, share the id 255, so that a token is one byte."""
    return np.minimum(np.frombuffer(text, dtype=np.uint8), 254) + np.uint8(1)


def padded(texts: Sequence[bytes], longest: int) -> tuple[Tokens, NDArray[np.int64]]:
    """Tokens ``(n, length)`` and lengths ``(n,)`` of texts cut to ``longest`` bytes, padded to the longest left."""
    lengths = np.array([min(len(text), longest) for text in texts], dtype=np.int64)
    tokens = np.full((len(texts), int(lengths.max(initial=1))), PAD, dtype=np.uint8)
    for row, text in zip(tokens, texts, strict=True):
        row[: min(len(text), longest)] = to_tokens(text[:longest])
    return tokens, lengths


def encode(text: str) -> Tokens:
    """Tokens of a text as a person types it. Raises :class:`TaskError` if there is none."""
    if not text.strip():
        raise TaskError("The text is empty; it must hold at least one character.", "text")
    return to_tokens(text.encode("utf-8", "replace"))


def decode(tokens: NDArray[np.integer]) -> list[str]:
    """One short string a token: the character where the byte is one, the byte in hexadecimal where it is not."""
    return ["<pad>" if t == PAD else chr(t - 1) if 32 <= t - 1 < 127 else f"{t - 1:02x}" for t in tokens.tolist()]


def shown(tokens: NDArray[np.integer]) -> str:
    """The text that tokens are the bytes of."""
    return bytes(int(token) - 1 for token in tokens if token != PAD).decode("utf-8", "replace")


def same_text(text: bytes) -> bytes:
    """What two texts share if they count as the same: case and white space aside."""
    return b" ".join(text.lower().split())


def same_length(*splits: Split) -> tuple[Split, ...]:
    """The splits padded to one length, that of the longest."""
    longest = max(split.tokens.shape[-1] for split in splits)
    return tuple(replace(split, tokens=_pad_to(split.tokens, longest)) for split in splits)


def _pad_to(tokens: NDArray[Any], length: int) -> NDArray[Any]:
    return np.pad(tokens, [(0, 0)] * (tokens.ndim - 1) + [(0, length - tokens.shape[-1])], constant_values=PAD)


class ByteTask(Task):
    """A task whose inputs are texts, read as bytes."""

    def encode(self, text: str) -> NDArray[np.integer]:
        """Token ids of a text."""
        return encode(text)

    def decode(self, tokens: NDArray[np.integer]) -> list[str]:
        """The character of each token."""
        return decode(tokens)

    def shown(self, tokens: NDArray[np.integer]) -> str:
        """The text."""
        return shown(tokens)
