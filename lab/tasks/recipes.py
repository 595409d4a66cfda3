"""The default budget of each task at each size: the fields of a run that a task sets for itself."""

from __future__ import annotations

from typing import Any

from lab.config import RunConfig

# The public re-implementation's recipe on the Long Range Arena (Nyströmformer's): 2 layers, width 64, 2 heads, FFN 128, dropout 0.1,
# mean pooling, learned positions, learning rate 1e-4.
_FULL = {"width": 64, "heads": 2, "layers": 2, "ffn": 128, "dropout": 0.1, "learning_rate": 1e-4, "eval_every": 500}

# Comparing two documents starts with a plateau, which a higher learning rate after a longer warm-up leaves sooner.
_PAIRS = {"heads": 4, "learning_rate": 3e-3, "warmup": 100, "weight_decay": 0.1}

RECIPES: dict[tuple[str, str], dict[str, Any]] = {
    ("digits", "mini"): {"steps": 300},
    ("listops", "mini"): {"steps": 600},
    ("listops", "small"): {"steps": 3000, "eval_every": 100},
    ("listops", "full"): _FULL | {"steps": 5000},
    ("lra_listops", "full"): _FULL | {"steps": 5000},
    ("pathfinder", "mini"): {"steps": 1400, "heads": 4, "learning_rate": 3e-3, "eval_every": 100},
    ("pathfinder", "small"): {"steps": 4000, "eval_every": 200},
    ("pathfinder", "full"): _FULL | {"steps": 62_400, "eval_every": 2000},
    ("lra_pathfinder", "full"): _FULL | {"steps": 62_400, "eval_every": 2000},
    ("pathx", "small"): {"steps": 200, "batch": 4, "eval_every": 100},
    ("pathx", "full"): _FULL | {"steps": 62_400, "eval_every": 5000},
    ("lra_pathx", "full"): _FULL | {"steps": 62_400, "eval_every": 5000},
    ("lra_image", "mini"): {"steps": 1000},
    ("lra_image", "small"): {"steps": 3000, "eval_every": 200},
    ("lra_image", "full"): _FULL | {"steps": 35_000, "eval_every": 1000},
    ("text", "mini"): {"steps": 400},
    ("text", "small"): {"steps": 3000, "eval_every": 200},
    ("lra_text", "full"): _FULL | {"steps": 20_000},
    ("retrieval", "mini"): _PAIRS | {"steps": 600, "eval_every": 50},
    ("retrieval", "small"): _PAIRS | {"steps": 2000, "eval_every": 200},
    ("lra_retrieval", "full"): _FULL | {"steps": 30_000},
}


def recipe(task: str, size: str = "mini", **changes: Any) -> RunConfig:
    """The default run of a task at a size, with ``changes`` on top. Raises :class:`lab.config.ConfigError`."""
    return RunConfig(**{"task": task, "size": size, **RECIPES.get((task, size), {}), **changes})
