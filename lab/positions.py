"""The places where the heat layer can sit in a Transformer.

Zhang & Zhou (arXiv 2510.03272) name seven canonical insertion positions. The complete list could not be
read, so the block below is this project's reading of it. With a pre-LN block

    a = Attn(LN1 h);   h' = h + a;   h'' = h' + FFN(LN2 h')

and the heat layer D, the seven positions are the members of :class:`Position` after ``BASELINE``.
"""

from __future__ import annotations

from enum import StrEnum


class Position(StrEnum):
    """Where the heat layer D is inserted; the order is the order of the forward pass."""

    BASELINE = "baseline"
    AFTER_EMBEDDING = "after_embedding"
    BEFORE_ATTENTION = "before_attention"
    AFTER_ATTENTION = "after_attention"
    BEFORE_LN = "before_ln"
    AFTER_FFN = "after_ffn"
    BETWEEN_LAYERS = "between_layers"
    BEFORE_HEAD = "before_head"

    @property
    def formula(self) -> str:
        """The one line of the block that changes, e.g. ``h' = h + D a``."""
        return _FORMULAS[self]

    @property
    def label(self) -> str:
        """The name in words, e.g. ``after the attention``."""
        return _LABELS[self]

    def applications(self, layers: int) -> int:
        """How many times D acts in one forward pass of a model with ``layers`` blocks."""
        if self is Position.BASELINE:
            return 0
        return 1 if self in (Position.AFTER_EMBEDDING, Position.BEFORE_HEAD) else layers


_FORMULAS = {
    Position.BASELINE: "no heat layer",
    Position.AFTER_EMBEDDING: "h₀ = D(E + pos)",
    Position.BEFORE_ATTENTION: "a = Attn(D LN₁ h)",
    Position.AFTER_ATTENTION: "h′ = h + D a",
    Position.BEFORE_LN: "h′ = D(h + a)",
    Position.AFTER_FFN: "h″ = h′ + D FFN(LN₂ h′)",
    Position.BETWEEN_LAYERS: "next h = D h″",
    Position.BEFORE_HEAD: "D h before the final LN",
}

_LABELS = {
    Position.BASELINE: "baseline (no heat)",
    Position.AFTER_EMBEDDING: "after the embedding",
    Position.BEFORE_ATTENTION: "before the attention",
    Position.AFTER_ATTENTION: "after the attention",
    Position.BEFORE_LN: "before the second LN",
    Position.AFTER_FFN: "after the FFN",
    Position.BETWEEN_LAYERS: "between the layers",
    Position.BEFORE_HEAD: "before the head",
}
