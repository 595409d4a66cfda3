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
class DepthProfile:
    """What held-out representations look like through the depth of one model.

    ``energy`` is the Dirichlet energy per token and ``power`` the squared norm per token, after the embedding and after every block
    (layers + 1 values each, means over examples); ``swap`` the order swap in every attention layer, measured in every arm with one and the
    same heat step (:data:`SWAP_ALPHA`), so that arms compare. It is empty where sequences are too long to form attention whole.
    """

    energy: tuple[float, ...]
    power: tuple[float, ...]
    swap: tuple[OrderSwap, ...]

    @property
    def roughness(self) -> tuple[float, ...]:
        """Energy relative to power, ``tr(XᵀLX) / 2‖X‖²``: between 0 (constant along the tokens) and 2, whatever the scale."""
        return tuple(e / p if p > 0 else 0.0 for e, p in zip(self.energy, self.power, strict=True))

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> DepthProfile:
        """Read back what ``dataclasses.asdict`` made of one, through JSON too."""
        swap = tuple(OrderSwap(**layer) for layer in record["swap"])
        return cls(tuple(record["energy"]), tuple(record["power"]), swap)


SWAP_ALPHA = 0.25
"""The α of the heat step that the order swap of every arm, the baseline's too, is measured with."""


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    ``accuracy`` is the held-out accuracy after the last step (nothing is selected on it); ``alphas`` the α of every application of the
    heat layer after training, outermost first; ``initial`` and ``final`` the model before and after training; ``seconds`` the wall time;
    ``provenance`` the device, threads and versions the numbers were made with.
    """

    config: RunConfig
    accuracy: float
    chance: float
    curve: tuple[CurvePoint, ...]
    initial: DepthProfile
    final: DepthProfile
    alphas: tuple[float, ...]
    parameters: int
    n_test: int
    seconds: float
    provenance: dict[str, str] = field(default_factory=dict)

    @property
    def energy(self) -> tuple[float, ...]:
        """Dirichlet energy per token through the depth of the trained model."""
        return self.final.energy

    @property
    def swap(self) -> tuple[OrderSwap, ...]:
        """The order swap in every layer of the trained model."""
        return self.final.swap

    def to_json(self) -> str:
        """One line of JSON; NaN and infinity are refused."""
        record = {**asdict(self), "config": json.loads(self.config.json)}
        return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def row(self) -> dict[str, Any]:
        """One flat row for a table: the key, every field of the config, the numbers, the provenance."""
        config = json.loads(self.config.json)
        return {
            "key": self.config.key,
            **config,
            "strides": " ".join(map(str, config["strides"])),
            "accuracy": self.accuracy,
            "chance": self.chance,
            "loss": self.curve[-1].loss,
            "energy_last_block": self.energy[-1],
            "chi_first_layer": self.swap[0].chi if self.swap else None,
            "parameters": self.parameters,
            "n_test": self.n_test,
            "seconds": round(self.seconds, 3),
            **{f"on_{name}": value for name, value in sorted(self.provenance.items())},
        }

    @classmethod
    def from_json(cls, text: str) -> RunResult:
        """Read :meth:`to_json` back. Raises ValueError, KeyError or TypeError for anything else."""
        record: dict[str, Any] = json.loads(text)
        record["config"] = RunConfig.from_json(json.dumps(record["config"]))
        record["curve"] = tuple(CurvePoint(**point) for point in record["curve"])
        record["initial"] = DepthProfile.from_record(record["initial"])
        record["final"] = DepthProfile.from_record(record["final"])
        record["alphas"] = tuple(record["alphas"])
        return cls(**record)
