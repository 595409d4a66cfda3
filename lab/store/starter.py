"""The starter study that ships with the lab: results without weights, read only, under every store's own.

A folder with ``runs.txt.xz``, a line for each run (its key, a space, its JSON), and ``manifest.json``: what made it, where, when, and the
sha256 of the runs. ``python -m lab starter`` writes it.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from lab.results import RunResult
from lab.store.database import UNREADABLE

RUNS, MANIFEST = "runs.txt.xz", "manifest.json"
MOST_BYTES = 2**28
"""Of the table unpacked: a small file may hide a very large one."""


def starter_path() -> Path | None:
    """``LAB_STARTER``, or ``cache/starter`` beside the package; None where ``LAB_STARTER`` is empty."""
    named = os.environ.get("LAB_STARTER")
    if named is None:
        return Path(__file__).parents[2] / "cache" / "starter"
    return Path(named).absolute() if named else None


@dataclass(frozen=True)
class Manifest:
    """Where a starter study comes from: the commit and versions of the code, the device, the day, the commands, the wall time.

    ``on`` is what all its runs' provenance agrees on; ``commands`` make it again.
    """

    commit: str
    date: str
    on: dict[str, str]
    commands: tuple[str, ...]
    runs: int
    seconds: float
    sha256: str


_result = lru_cache(maxsize=5000)(RunResult.from_json)


class Starter:
    """The results of a starter study, by key. Nothing is read before it is asked for; an unreadable one is empty."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.problem = ""

    @cached_property
    def manifest(self) -> Manifest | None:
        """Its provenance; None without a starter study."""
        if self.path is None:
            return None
        try:
            record: dict[str, Any] = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            return Manifest(**{**record, "commands": tuple(record["commands"])})
        except FileNotFoundError:
            return None
        except (OSError, *UNREADABLE) as error:
            self.problem = f"The starter study in {self.path} cannot be read: {error}"
            return None

    @cached_property
    def texts(self) -> dict[str, str]:
        """The JSON of every run by its key; parsed where it is used, because a page uses few of them."""
        if self.path is None or self.manifest is None:
            return {}
        try:
            data = (self.path / RUNS).read_bytes()
            if hashlib.sha256(data).hexdigest() != self.manifest.sha256:
                raise ValueError(f"{RUNS} is not the one its manifest names")
            unpacking = lzma.LZMADecompressor()
            text = unpacking.decompress(data, MOST_BYTES).decode()
            if not unpacking.eof:
                raise ValueError(f"{RUNS} is cut short, or larger than {MOST_BYTES} bytes unpacked")
        except (OSError, lzma.LZMAError, *UNREADABLE) as error:
            self.problem = f"The starter study in {self.path} cannot be read: {error}"
            return {}
        return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)

    def get(self, key: str) -> RunResult | None:
        """The result of a run; None if there is none that can be read."""
        text = self.texts.get(key)
        if text is None:
            return None
        try:
            result = _result(text)
        except UNREADABLE as error:
            self.problem = f"A run of the starter study cannot be read: {error}"
            return None
        return result if result.config.key == key else None

    def results(self) -> Iterator[RunResult]:
        """Every result."""
        yield from filter(None, map(self.get, self.texts))


def write_starter(
    path: Path, results: Iterable[RunResult], commands: Iterable[str], commit: str, date: str
) -> Manifest:
    """Write a starter study. Raises ValueError without results, OSError where the folder cannot be written."""
    found = sorted(results, key=lambda r: (r.config.task, r.config.json))
    if not found:
        raise ValueError("a starter study needs results")
    text = "".join(f"{r.config.key} {r.to_json()}\n" for r in found)
    data = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    shared = set.intersection(*({*r.provenance.items()} for r in found))
    manifest = Manifest(
        commit=commit,
        date=date,
        on=dict(sorted(shared)),
        commands=tuple(commands),
        runs=len(found),
        seconds=round(sum(r.seconds for r in found), 1),
        sha256=hashlib.sha256(data).hexdigest(),
    )
    path.mkdir(parents=True, exist_ok=True)
    (path / RUNS).write_bytes(data)
    (path / MANIFEST).write_text(json.dumps(asdict(manifest), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return manifest
