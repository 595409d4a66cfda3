"""How fast the heat step is, as ratios: ``OMP_NUM_THREADS=1 python benchmarks/heat.py``.

Each line pits two ways against each other at (32, tokens, 64) in float32 on one thread, forward and backward. They take
turns, and the median of the ratios of neighbouring turns is printed, so that a busy machine slows both alike.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lab.heat import heat_step, heat_steps

ALPHA = 0.25
BATCH, DIM = 32, 64


def main() -> None:
    """Print one line a comparison: the median ratio, its range, and the median times."""
    torch.set_num_threads(1)
    for n in (64, 256, 1024):
        x = torch.randn(BATCH, n, DIM)
        # The convolution wants (batch, channels, tokens); it is given that layout, its transposes are not counted.
        channels_first = x.mT.contiguous()
        kernel = torch.tensor([ALPHA, 1 - 2 * ALPHA, ALPHA]).expand(DIM, 1, 3).contiguous()
        torch.testing.assert_close(_convolution(channels_first, kernel).mT, heat_step(x, ALPHA))
        _compare(
            f"n={n}: 1 step, against a depthwise convolution with replicate padding",
            _both_ways(lambda u: heat_step(u, ALPHA), x),
            _both_ways(partial(_convolution, kernel=kernel), channels_first),
            25,
        )
        hundred = _both_ways(lambda u: heat_steps(u, ALPHA, 100), x)
        _compare(f"n={n}: 100 steps at once, against 100 single steps", hundred, _both_ways(_hundred_steps, x), 7)


def _convolution(x: Tensor, kernel: Tensor) -> Tensor:
    return functional.conv1d(functional.pad(x, (1, 1), mode="replicate"), kernel, groups=DIM)


def _hundred_steps(x: Tensor) -> Tensor:
    for _ in range(100):
        x = heat_step(x, ALPHA)
    return x


def _both_ways(layer: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    gradient = torch.randn_like(x)

    def run() -> None:
        u = x.detach().requires_grad_()
        torch.autograd.grad(layer(u), u, gradient)

    return run


def _compare(title: str, ours: Callable[[], None], theirs: Callable[[], None], turns: int) -> None:
    ours()
    theirs()
    pairs = [(_seconds(ours), _seconds(theirs)) for _ in range(turns)]
    ratios = sorted(b / a for a, b in pairs)
    a, b = (1e3 * statistics.median(column) for column in zip(*pairs, strict=True))
    spread = f"{ratios[0]:.1f} to {ratios[-1]:.1f}"
    print(f"{title}: {statistics.median(ratios):.1f}x faster ({spread}), {a:.2f} and {b:.2f} ms")


def _seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
