"""What one training run leaves behind: numbers with their provenance, as JSON; arrays apart."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from lab.config import RunConfig


@dataclass(frozen=True)
class CurvePoint:
    """One point of a learning curve: mean training loss since the last point, held-out accuracy now."""

    step: int
    loss: float
    accuracy: float


@dataclass(frozen=True)
class Progress:
    """What a run says of itself while it trains. ``point`` is set when accuracy has just been measured."""

    key: str
    step: int
    steps: int
    seconds: float
    point: CurvePoint | None = None


@dataclass(frozen=True)
class OrderSwap:
    """The order swap of heat and one attention layer, on held-out data, each relative to ``‖Attn(X)‖_F``.

    ``chi = ‖Attn(DX) - D Attn(X)‖``; its two parts are the routing shift ``‖[P(DX) - P(X)] D X V‖`` and the operator
    commutator ``‖[P(X), D] X V‖`` (norms, so they need not add up).
    """

    chi: float
    routing: float
    operator: float


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    ``energy`` is the mean Dirichlet energy per token of the held-out representations after the embedding and after every block
    (layers + 1 values); ``swap`` the order swap in every attention layer; ``seconds`` the wall time of training;
    ``provenance`` the device, threads and versions the numbers were made with.
    """

    config: RunConfig
    accuracy: float
    chance: float
    curve: tuple[CurvePoint, ...]
    energy: tuple[float, ...]
    swap: tuple[OrderSwap, ...]
    alphas: tuple[float, ...]
    parameters: int
    n_test: int
    seconds: float
    provenance: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line of JSON; NaN and infinity are refused."""
        record = {**asdict(self), "config": json.loads(self.config.json)}
        return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> RunResult:
        """Read :meth:`to_json` back. Raises ValueError, KeyError or TypeError for anything else."""
        record: dict[str, Any] = json.loads(text)
        record["config"] = RunConfig.from_json(json.dumps(record["config"]))
        record["curve"] = tuple(CurvePoint(**point) for point in record["curve"])
        record["swap"] = tuple(OrderSwap(**swap) for swap in record["swap"])
        record["energy"] = tuple(record["energy"])
        record["alphas"] = tuple(record["alphas"])
        return cls(**record)
