"""What one training run is: a frozen value whose canonical JSON is its cache key, link and command line."""

from __future__ import annotations

import hashlib
import json
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from lab.errors import LabError
from lab.positions import Position

SCHEMA = 1
"""Version of the meaning of a config. Raise it when the same config would give another number."""

SIZES = ("mini", "small", "full")
PRECISIONS = ("float32", "bfloat16")


class ConfigError(LabError):
    """A run that cannot be made."""


@dataclass(frozen=True)
class RunConfig:
    """One arm of an experiment at one seed.

    Two configs that describe the same computation are equal: a baseline has no heat layer, so its α, strides and
    controls are reset, and a *matched total α* means nothing where the layer acts once.

    Raises :class:`ConfigError`, naming the field and what is allowed, for anything that cannot be trained.
    """

    # the data
    task: str = "digits"
    size: str = "mini"
    # the heat layer: D = I - Σ_s α_s L_s, applied `heat_steps` times
    position: Position = Position.BASELINE
    alpha: float = 0.25
    heat_steps: int = 1
    strides: tuple[int, ...] = (1,)
    learnable: bool = False
    # controls
    permuted: bool = False  # PᵀDP with a fixed random permutation: same spectrum, random neighbours
    matched: bool = False  # α / N where the layer acts N times
    # everything random: initial parameters, batch order, permutation, dropout
    seed: int = 0
    # the model
    width: int = 32
    heads: int = 2
    layers: int = 2
    ffn: int = 64
    dropout: float = 0.0
    # the training
    steps: int = 300
    batch: int = 32
    learning_rate: float = 1e-3
    warmup: int = 20
    weight_decay: float = 0.01
    clip: float = 1.0
    eval_every: int = 25
    precision: str = "float32"

    def __post_init__(self) -> None:
        for name, hint in _HINTS.items():
            object.__setattr__(self, name, _typed(name, hint, getattr(self, name)))
        _check(self)
        if self.position is Position.BASELINE:
            for name, value in _NO_HEAT.items():
                object.__setattr__(self, name, value)
        if self.matched and self.position.applications(self.layers) <= 1:
            object.__setattr__(self, "matched", False)

    @cached_property
    def json(self) -> str:
        """Canonical JSON: every field and the schema version, keys sorted, no spaces."""
        # Not asdict, which copies: a page may read a thousand of these.
        record = {"schema": SCHEMA, **{f.name: getattr(self, f.name) for f in fields(self)}}
        return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @cached_property
    def key(self) -> str:
        """The content hash: the first 24 hex digits of the sha256 of :attr:`json`."""
        return hashlib.sha256(self.json.encode()).hexdigest()[:24]

    @classmethod
    def from_json(cls, text: str) -> RunConfig:
        """Read :attr:`json` back. Raises :class:`ConfigError` for another schema or an unknown field."""
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigError(f"A config must be JSON: {error}.") from None
        if not isinstance(record, dict):
            raise ConfigError("A config must be a JSON object.")
        schema = record.pop("schema", None)
        if schema != SCHEMA:
            raise ConfigError(f"schema is {schema!r}; this lab reads schema {SCHEMA}.", "schema")
        unknown = sorted(set(record) - set(_HINTS))
        if unknown:
            raise ConfigError(f"{unknown[0]} is not a field of a run; the fields are {', '.join(_HINTS)}.", unknown[0])
        return cls(**record)

    def with_(self, **changes: object) -> RunConfig:
        """A copy with some fields changed, checked again."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def site_alpha(self) -> float:
        """The step α of each single application: α, or α / N under *matched total α*."""
        return self.alpha / self.position.applications(self.layers) if self.matched else self.alpha

    def pack_key(self) -> tuple[object, ...]:
        """Equal for configs that one pack can train together: all but position, α, the controls and the seed."""
        arm = {"position", "alpha", "permuted", "matched", "seed"}
        return tuple(getattr(self, f.name) for f in fields(self) if f.name not in arm)

    @property
    def label(self) -> str:
        """The arm in words, e.g. ``after_embedding α=0.25 (permuted)``."""
        if self.position is Position.BASELINE:
            return "baseline"
        notes = [name for name in ("permuted", "matched", "learnable") if getattr(self, name)]
        if self.heat_steps > 1:
            notes.append(f"{self.heat_steps} steps")
        if self.strides != (1,):
            notes.append("strides " + ",".join(map(str, self.strides)))
        return f"{self.position} α={self.alpha:g}" + (f" ({', '.join(notes)})" if notes else "")


_HINTS = typing.get_type_hints(RunConfig)
_NO_HEAT = {"alpha": 0.0, "heat_steps": 1, "strides": (1,), "learnable": False, "permuted": False, "matched": False}


def _typed(name: str, hint: object, value: object) -> object:
    """The value in the field's type, or a ConfigError."""
    if hint is Position:
        try:
            return Position(str(value))
        except ValueError:
            raise ConfigError(
                f"position is {repr(value)[:40]}; it must be one of {', '.join(Position)}.", name
            ) from None
    if not _FITS[hint](value):
        raise ConfigError(f"{name} is {repr(value)[:40]}; it must be {_DESCRIPTIONS[hint]}.", name)
    return _CANONICAL.get(hint, lambda v: v)(value)


def _is_number(value: object) -> bool:
    # bool is an int to Python, and not to people
    return isinstance(value, int | float) and not isinstance(value, bool)


_STRIDES = tuple[int, ...]
_FITS: dict[object, Callable[[Any], bool]] = {
    bool: lambda v: isinstance(v, bool),
    int: lambda v: _is_number(v) and v == v // 1 and abs(v) < 2**63,  # NaN and infinity are equal to nothing here
    float: lambda v: _is_number(v) and abs(v) < 2**63,
    str: lambda v: isinstance(v, str),
    _STRIDES: lambda v: isinstance(v, list | tuple) and all(type(s) is int for s in v),
}
_CANONICAL: dict[object, Callable[[Any], object]] = {
    int: int,
    # Rounded, so that 0.1 + 0.2 has the key of 0.3; + 0.0 turns -0.0 into 0.0.
    float: lambda v: round(float(v), 9) + 0.0,
    _STRIDES: lambda v: tuple(sorted(set(v))),
}
_DESCRIPTIONS: dict[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "a word",
    _STRIDES: "a list of whole numbers",
}

# field: (lowest, highest) allowed, ends included
_RANGES: dict[str, tuple[float, float]] = {
    "alpha": (0, 0.5),
    "heat_steps": (1, 1000),
    "seed": (0, 2**31 - 1),
    "width": (2, 1024),
    "heads": (1, 64),
    "layers": (1, 24),
    "ffn": (1, 8192),
    "dropout": (0, 0.9),
    "steps": (1, 1_000_000),
    "batch": (1, 4096),
    "learning_rate": (1e-7, 1),
    "warmup": (0, 1_000_000),
    "weight_decay": (0, 1),
    "clip": (1e-3, 1e6),
    "eval_every": (1, 1_000_000),
}


def _check(config: RunConfig) -> None:
    for name, (low, high) in _RANGES.items():
        value = getattr(config, name)
        if not low <= value <= high:
            raise ConfigError(f"{name} is {value:g}; it must be between {low:g} and {high:g}.", name)
    if config.width % config.heads:
        raise ConfigError(f"width is {config.width}; it must be a multiple of heads, which is {config.heads}.", "width")
    if config.size not in SIZES:
        raise ConfigError(f"size is {config.size!r}; it must be one of {', '.join(SIZES)}.", "size")
    if config.precision not in PRECISIONS:
        raise ConfigError(f"precision is {config.precision!r}; it must be one of {', '.join(PRECISIONS)}.", "precision")
    if not config.strides or not all(1 <= s <= 4096 for s in config.strides):
        raise ConfigError(f"strides is {list(config.strides)}; it must list whole numbers from 1 to 4096.", "strides")
    if not config.task:
        raise ConfigError("task is empty; it must name a task.", "task")
    if config.learnable and not 0 < config.alpha < 0.5 and config.position is not Position.BASELINE:
        raise ConfigError(
            f"alpha is {config.alpha:g}; a learnable α must start strictly between 0 and 0.5, where its sigmoid still moves.",
            "alpha",
        )
    if len(config.strides) > 1 and config.alpha >= 0.5:
        raise ConfigError("alpha is 0.5; several strides share a total α below 0.5.", "alpha")
