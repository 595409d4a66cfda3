"""The claims that compare two arms, each in a few lines: what is compared with what, and which sign the claim says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from lab.config import RunConfig
from lab.positions import Position

ALPHA = 0.25

PAPER, OURS = "Zhang and Zhou", "this lab's question"
Partner = Callable[[RunConfig], RunConfig | None]
"""What an arm is compared with; None where the claim says nothing of it."""


@dataclass(frozen=True)
class Comparison:
    """A claim about pairs of arms: that the first minus its partner has this ``sign``. ``by`` tells the cases of one task apart."""

    name: str
    statement: str
    source: str
    test: str
    sign: int
    partner: Partner
    paper: str = ""
    by: Literal["task", "position", "alpha"] = "task"


def is_plain(config: RunConfig, position: Position, alpha: float = ALPHA) -> bool:
    """Whether this is the arm at a position with one stride, a fixed α and no control."""
    return config == config.with_(
        position=position, alpha=alpha, strides=(1,), learnable=False, permuted=False, matched=False
    )


def _at(place: Position, **other: Any) -> Partner:
    return lambda c: c.with_(**other) if is_plain(c, place) else None


_BASE = {"position": Position.BASELINE}
COMPARISONS = (
    Comparison(
        "embedding",
        "Heat after the embedding raises accuracy.",
        PAPER,
        "After the embedding minus the baseline.",
        +1,
        _at(Position.AFTER_EMBEDDING, **_BASE),
        paper="+4.1 points on the average of the Long Range Arena",
    ),
    Comparison(
        "attention",
        "Heat after the attention lowers accuracy.",
        PAPER,
        "After the attention minus the baseline.",
        -1,
        _at(Position.AFTER_ATTENTION, **_BASE),
        paper="−2.5 points on the average of the Long Range Arena",
    ),
    Comparison(
        "place",
        "The place matters: after the embedding is better than after the attention.",
        PAPER,
        "After the embedding minus after the attention.",
        +1,
        _at(Position.AFTER_EMBEDDING, position=Position.AFTER_ATTENTION),
    ),
    Comparison(
        "multi_scale",
        "Several strides bring consistent gains over one.",
        PAPER + " report the gains; the form is this project's own",
        "Strides 1, 2, 4 minus stride 1 at the same total α, at every position that was trained with both.",
        +1,
        lambda c: c.with_(strides=(1,)) if c.strides != (1,) else None,
        by="position",
    ),
    Comparison(
        "locality",
        "After the embedding it is the neighbours that count: true ones are better than random ones.",
        OURS,
        "After the embedding minus its permuted control: as strong a smoothing over random tokens.",
        +1,
        _at(Position.AFTER_EMBEDDING, permuted=True),
    ),
    Comparison(
        "matched",
        "After the embedding is still better than after the attention at the same total α.",
        OURS,
        "After the embedding minus after the attention with α / N in each of its N layers.",
        +1,
        _at(Position.AFTER_EMBEDDING, position=Position.AFTER_ATTENTION, matched=True),
    ),
    Comparison(
        "end",
        "The gain after the embedding is more than a faster start: it is there at the end of the training.",
        OURS,
        "The learning curves of after the embedding and of the baseline, at their last step.",
        +1,
        _at(Position.AFTER_EMBEDDING, **_BASE),
    ),
    Comparison(
        "learnable",
        "A learned α is better than a fixed one.",
        OURS,
        "α learned from 1/4 on minus α fixed at 1/4, at every position.",
        +1,
        lambda c: c.with_(learnable=False) if c.learnable else None,
        by="position",
    ),
    Comparison(
        "grid",
        "Heat after the embedding helps at every α, not at 1/4 alone.",
        OURS,
        "After the embedding minus the baseline over the grid of α.",
        +1,
        lambda c: c.with_(**_BASE) if is_plain(c, Position.AFTER_EMBEDDING, c.alpha) else None,
        by="alpha",
    ),
)
