"""Packs on a GPU: how many runs' steps a second, the heat step's bandwidth, and how far the numbers are from a CPU's.

    python benchmarks/gpu.py

Everything is a ratio within one run, as Markdown tables. A solo run is the baseline as a pack of one, not captured: the fastest that there
is. The plain loop is one run around nn.TransformerEncoder, of the same shape and batches. Without a GPU the same tables are made
on the CPU, smaller.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from benchmarks.training import plain_run  # noqa: E402
from lab.batches import batch_order  # noqa: E402
from lab.config import RunConfig  # noqa: E402
from lab.heat import heat_step  # noqa: E402
from lab.pack import Pack, provenance  # noqa: E402
from lab.positions import Position  # noqa: E402
from lab.tasks import get_task  # noqa: E402

TARGET = 15
"""How many plain loops a pack of 24 is to be worth on a GPU."""

AGREEMENT_STEPS = 50
DATA = get_task("digits").load("mini")


def arms(number: int, precision: str = "float32") -> list[RunConfig]:
    """Every position at one seed, then at the next: the baseline first."""
    return [
        RunConfig(position=position, seed=seed, precision=precision)
        for seed in range(-(-number // len(Position)))
        for position in Position
    ][:number]


def stepper(configs: list[RunConfig], device: torch.device, captured: bool) -> tuple[Callable[[], torch.Tensor], Pack]:
    """What makes one step of a pack and gives each arm's loss, and the pack."""
    pack = Pack(configs, DATA, device, lambda _: None, lambda _: False)
    if not captured:
        pack.step.obstacle = pack.step.obstacle or "not asked for"
    orders = [batch_order(len(DATA.train), config) for config in configs]
    number = iter(range(1, 1_000_000))

    def step() -> torch.Tensor:
        index = torch.stack([torch.from_numpy(next(order)) for order in orders]).to(device)
        return pack._step(next(number), *pack.train_split.batch(index))

    return step, pack


def rate(step: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Calls a second, after some that are not counted: a capture, and what libraries do at first."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    for _ in range(3):
        step()
    wait()
    start, calls = time.perf_counter(), 0
    while (spent := time.perf_counter() - start) < seconds or calls < 3:
        for _ in range(1 if device.type == "cpu" else 10):
            step()
            calls += 1
        wait()
    return calls / spent


def packs(device: torch.device, sizes: tuple[int, ...], seconds: float) -> None:
    """Steps of one run a second, in packs, against a solo run and the plain loop."""
    plain = rate(plain_run(RunConfig(), DATA, str(device))[0], device, seconds)
    solo = rate(stepper(arms(1), device, captured=False)[0], device, seconds)
    print(f"\nA plain loop makes {plain:.1f} steps a second, a solo run {solo:.1f} ({solo / plain:.2f} of it).\n")
    print(
        "| runs | precision | graph | steps/s of each run | of all runs | against a solo run | against a plain loop |"
    )
    print("|---:|---|---|---:|---:|---:|---:|")
    for precision in ("float32", "bfloat16"):
        for size in sizes:
            for captured in (False, True) if device.type == "cuda" else (False,):
                step, pack = stepper(arms(size, precision), device, captured)
                each = rate(step, device, seconds)
                print(
                    f"| {size} | {precision} | {pack.step.note} | {each:.1f} | {size * each:.1f} "
                    f"| {size * each / solo:.2f} | {size * each / plain:.2f} |",
                    flush=True,
                )
    print(f"\nTarget on a GPU: 24 runs worth at least {TARGET} plain loops.")


def bandwidth(device: torch.device, seconds: float) -> None:
    """The heat step must read x and write D x once; so does a copy. What it reads twice shows as a ratio below 1."""
    batch = 256 if device.type == "cuda" else 32
    print(f"\n| heat step on {batch} × 1024 × 64 | GB/s | of a copy |\n|---|---:|---:|")
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(batch, 1024, 64, device=device).to(dtype)
        y, moved = torch.empty_like(x), 2 * x.numel() * x.element_size() / 1e9
        copy = rate(lambda x=x, y=y: y.copy_(x), device, seconds) * moved  # type: ignore[misc]
        heat = rate(lambda x=x: heat_step(x, 0.25), device, seconds) * moved  # type: ignore[misc]
        print(f"| {dtype} | {heat:.1f} | {heat / copy:.2f} |", flush=True)


def agreement(device: torch.device, size: int) -> None:
    """The loss of each run's last of 50 steps in a pack, against the same run alone on the CPU in float32."""
    cpu = torch.device("cpu")

    def last(configs: list[RunConfig], where: torch.device, captured: bool = False) -> tuple[torch.Tensor, str]:
        step, pack = stepper(configs, where, captured)
        for _ in range(AGREEMENT_STEPS - 1):
            step()
        return step().detach().cpu(), pack.step.note

    alone = torch.cat([last([config], cpu)[0] for config in arms(size)])
    print(f"\n| {size} runs, step {AGREEMENT_STEPS} | graph | largest difference of a loss from the CPU's |")
    print("|---|---|---:|")
    for precision in ("float32", "bfloat16"):
        for captured in (False, True) if device.type == "cuda" else (False,):
            losses, note = last(arms(size, precision), device, captured)
            print(f"| {precision} | {note} | {(losses - alone).abs().max():.1e} |", flush=True)


def main() -> None:
    """All tables, on the GPU if there is one."""
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    if not on_gpu:
        torch.set_num_threads(1)
        print("no GPU here: CPU figures, GPU unmeasured\n")
    where = provenance(device)
    print(f"Device: {where['device_name']}, torch {where['torch']}, {where['threads']} threads")
    seconds = 5.0 if on_gpu else 1.0
    packs(device, (1, 8, 24, 64) if on_gpu else (1, 8), seconds)
    bandwidth(device, seconds)
    agreement(device, 8 if on_gpu else 3)


if __name__ == "__main__":
    main()
