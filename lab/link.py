"""The state of the pages and the link in the address bar.

One registry, :data:`FIELDS`, holds every value a page shows, with its parser, default and the words for what is
allowed. A link always carries *every* value, defaults included, and the version of the registry: a default that changes
later never alters what an older link shows. What a link cannot carry is the content of an uploaded file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.config import SIZES, RunConfig
from lab.positions import Position
from lab.tasks import TASKS, own_names
from lab.tasks.recipes import recipe

LINK_VERSION = 1
"""Raise it when a field changes its meaning, and translate older links in :func:`read`."""

VERSION_FIELD = "v"

ALPHA_MAX = 0.6
"""The end of the α slider. Above 1/2 the heat step is unstable: a demonstration, never trained with."""

SOURCES = {
    "text": "Text you type",
    "expression": "ListOps expression",
    "digit": "Handwritten digit",
    "signal": "Noisy signal",
    "upload": "Your own matrix",
}
WEIGHTS = {"raw": "grey values", "fresh": "fresh embedding", "trained": "trained embedding"}
ATTENTIONS = ("uniform", "identity", "local", "shift", "permutation", "content", "trained")


@dataclass(frozen=True)
class Field:
    """One value of the link: ``parse`` turns its text into a value or raises ValueError; ``allowed`` says what it takes."""

    name: str
    default: Any
    allowed: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str


def _number(text: str) -> float:
    return round(float(text), 9) + 0.0


def show_number(value: float) -> str:
    """The shortest decimal that reads back as the same value to nine places."""
    return f"{value:.9f}".rstrip("0").rstrip(".")


def _real(name: str, default: float, low: float, high: float) -> Field:
    def parse(text: str) -> float:
        value = _number(text)
        if not low <= value <= high:  # also refuses NaN
            raise ValueError(text)
        return value

    return Field(name, default, f"a number from {low:g} to {high:g}", parse, show_number)


def _whole(name: str, default: int, low: int, high: int) -> Field:
    def parse(text: str) -> int:
        if len(text) > 12 or not text.strip().removeprefix("-").isascii() or not low <= int(text) <= high:
            raise ValueError(text)
        return int(text)

    return Field(name, default, f"a whole number from {low} to {high}", parse)


def _choice(name: str, default: str, options: tuple[str, ...]) -> Field:
    def parse(text: str) -> str:
        if text not in options:
            raise ValueError(text)
        return text

    return Field(name, default, f"one of {', '.join(options)}", parse)


def _text(name: str, default: str, longest: int) -> Field:
    def parse(text: str) -> str:
        if len(text) > longest:
            raise ValueError(text)
        return text

    return Field(name, default, f"a text of at most {longest} characters", parse)


def _flag(name: str, default: bool) -> Field:
    words = {"true": True, "false": False}

    def parse(text: str) -> bool:
        if text not in words:
            raise ValueError(text)
        return words[text]

    return Field(name, default, "true or false", parse, lambda value: "true" if value else "false")


def _alphas(name: str, default: tuple[float, ...], high: float = ALPHA_MAX) -> Field:
    one = _real(name, 0, 0, high)

    def parse(text: str) -> list[float]:
        values = [one.parse(part) for part in text.split(",")] if text else []
        if len(values) > MAX_ALPHAS:
            raise ValueError(text)
        return sorted(set(values))

    allowed = f"at most {MAX_ALPHAS} numbers from 0 to {high:g} with commas between"
    return Field(name, list(default), allowed, parse, lambda values: ",".join(map(show_number, values)))


def _task(name: str, default: str) -> Field:
    def parse(text: str) -> str:
        if text not in TASKS and text not in own_names():
            raise ValueError(text)
        return text

    return Field(name, default, f"one of {', '.join(TASKS)}, or a task of your own data on this machine", parse)


STRIDES = {"1": (1,), "1,2": (1, 2), "1,2,4": (1, 2, 4), "1,2,4,8": (1, 2, 4, 8)}
MAX_ALPHAS = 6
MAX_SEEDS = 20
MAX_TEXT = 512
MAX_DIGIT = 499
MAX_STEPS = 100_000

FIELDS: dict[str, Field] = {
    field.name: field
    for field in (
        # the sidebar
        _real("alpha", 0.25, 0, ALPHA_MAX),
        _whole("heat_steps", 1, 1, 100),
        _choice("position", Position.AFTER_EMBEDDING.value, tuple(p.value for p in Position)),
        _task("task", "digits"),
        _whole("seed", 0, 0, 2**31 - 1),
        # what is smoothed: pages 1 and 2
        _choice("source", "text", tuple(SOURCES)),
        _text("text", "Heat flows until all tokens agree.", MAX_TEXT),
        _text("expression", "[MAX 2 9 [MIN 4 7 ] 0 [SM 5 8 3 ] [MED 1 6 2 ] ]", MAX_TEXT),
        _whole("digit", 3, 0, MAX_DIGIT),
        _choice("weights", "fresh", tuple(WEIGHTS)),
        _real("noise", 0.5, 0, 2),
        _whole("signal_tokens", 128, 16, 512),
        # page 2
        _alphas("alphas", (0.05, 0.25, 0.45, 0.55)),
        _whole("decay_steps", 60, 5, 200),
        # page 3
        _choice("attention", "content", ATTENTIONS),
        _whole("tokens", 32, 4, 128),
        _real("reach", 2.0, 0.5, 16),
        _whole("layer", 1, 1, 24),
        _whole("head", 1, 1, 64),
        _whole("example", 0, 0, MAX_DIGIT),
        # page 4
        _choice("size", "mini", SIZES),
        _whole("seeds", 5, 1, MAX_SEEDS),
        _whole("steps", 300, 1, MAX_STEPS),
        _flag("permuted", True),
        _flag("matched", False),
        _choice("strides", "1", tuple(STRIDES)),
        _flag("learnable", False),
        _real("until", 0.0, 0, 50),
        _choice("curve_of", "accuracy", ("accuracy", "loss", "difference")),
        _real("reach_accuracy", 50.0, 1, 100),
        # pages 5 and 6
        _alphas("grid", (0.0625, 0.125, 0.25, 0.375, 0.5), 0.5),
        _choice("grid_of", "baseline", ("baseline", "permuted")),
        _choice("chi_when", "initial", ("initial", "final")),
    )
}


def defaults() -> dict[str, Any]:
    """Every field at its default."""
    return {name: _copy(field.default) for name, field in FIELDS.items()}


def read(params: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The values a link names, and one sentence for each thing in it that could not be used.

    Always returns every field: one that is missing or wrong is at its default, all the others are as the link says.
    """
    values, problems = defaults(), []
    version = params.get(VERSION_FIELD, str(LINK_VERSION))
    if version != str(LINK_VERSION):
        problems.append(
            f"{VERSION_FIELD} is {_quote(version)} in the link; this lab reads links of version {LINK_VERSION}, "
            "so what it shows may differ from what was shared."
        )
    for name, text in params.items():
        if name == VERSION_FIELD:
            continue
        field = FIELDS.get(name)
        if field is None:
            known = ", ".join(FIELDS)
            problems.append(
                f"{_quote(name)} is not a field of the lab's links and is left out; the fields are {known}."
            )
            continue
        try:
            values[name] = field.parse(text)
        except (ValueError, OverflowError):
            shown = field.show(field.default)
            problems.append(f"{name} is {_quote(text)} in the link; it must be {field.allowed}, so {shown} is used.")
    return values, problems


def write(values: Mapping[str, Any]) -> dict[str, str]:
    """The link of ``values``: the version and every field, fields that are missing at their default."""
    params = {VERSION_FIELD: str(LINK_VERSION)}
    for name, field in FIELDS.items():
        params[name] = field.show(values.get(name, field.default))
    return params


def of_run(config: RunConfig) -> dict[str, Any]:
    """The values that show a run on the pages; see :func:`carries` for what a link leaves out."""
    names = ("task", "size", "steps", "seed", "heat_steps", "permuted", "matched", "learnable")
    values = {**defaults(), **{name: getattr(config, name) for name in names}, "position": config.position.value}
    if config.position is not Position.BASELINE:
        values["alpha"] = config.alpha
    strides = ",".join(map(str, config.strides))
    return {**values, "seeds": 1, "strides": strides if strides in STRIDES else "1"}


def carries(config: RunConfig) -> bool:
    """Whether a link says all of a run: its other fields, such as the width, are what its task's recipe has."""
    values = of_run(config)
    names = ("position", "alpha", "heat_steps", "learnable", "permuted", "matched", "seed", "steps")
    arm = {name: values[name] for name in names}
    return recipe(config.task, config.size, **arm, strides=STRIDES[values["strides"]]) == config


def _quote(text: str) -> str:
    """A value as it may stand in a sentence: short, on one line, in quotation marks."""
    return repr(text if len(text) <= 40 else text[:40] + "…")


def _copy(value: Any) -> Any:
    return list(value) if isinstance(value, list) else value
