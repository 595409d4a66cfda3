"""A study: which arms, at which seeds. A frozen value that lists its runs in the order they should be made."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from lab.config import RunConfig
from lab.errors import LabError
from lab.positions import Position

MAX_RUNS = 5000


@dataclass(frozen=True)
class Study:
    """``positions`` × ``alphas`` (× the permuted control) × ``seeds``, everything else as in ``base``.

    ``base`` has a heat layer, from which the arms take its steps and strides; ``matched`` makes every arm one of matched total α.
    Raises :class:`LabError` where a list is empty, the study is larger than :data:`MAX_RUNS` runs, or ``base`` is a baseline.
    """

    base: RunConfig = field(default_factory=lambda: RunConfig(position=Position.AFTER_EMBEDDING))
    positions: tuple[Position, ...] = tuple(Position)
    alphas: tuple[float, ...] = (0.25,)
    seeds: tuple[int, ...] = (0, 1, 2)
    permuted: bool = False
    matched: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", tuple(Position(p) for p in self.positions))
        for name in ("positions", "alphas", "seeds"):
            if not getattr(self, name):
                raise LabError(f"{name} is empty; a study needs at least one.", name)
        if self.base.position is Position.BASELINE:
            raise LabError("base is a baseline; a study takes the heat layer of its arms from it.", "base")
        # Counted before they are made: a slip of the keyboard must not fill the memory.
        runs = len(self.positions) * len(self.alphas) * len(self.seeds) * (2 if self.permuted else 1)
        if runs > MAX_RUNS:
            raise LabError(f"The study has up to {runs} runs; at most {MAX_RUNS} are allowed in one.", "seeds")

    def configs(self) -> tuple[RunConfig, ...]:
        """The runs, each once, seed by seed: the first seed's full picture comes before any second seed."""
        runs: dict[RunConfig, None] = {}
        for seed in self.seeds:
            for permuted in (False, True) if self.permuted else (False,):
                for alpha in self.alphas:
                    for position in self.positions:
                        arm = self.base.with_(
                            position=position, alpha=alpha, seed=seed, permuted=permuted, matched=self.matched
                        )
                        runs.setdefault(arm)
        return tuple(runs)

    @property
    def key(self) -> str:
        """Content hash of the study: the first 24 hex digits of the sha256 of its runs' keys."""
        return hashlib.sha256(json.dumps([run.key for run in self.configs()]).encode()).hexdigest()[:24]
