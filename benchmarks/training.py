"""Training: the 24-run digits study through the lab against a plain loop, and the price of the heat layer.

    python benchmarks/training.py model     # one model: the heat layer at every block against the baseline
    python benchmarks/training.py study     # 24 runs: the lab's engine against a loop around nn.TransformerEncoder

Everything is a ratio within one run. The plain loop has the same shape, data, batches, budget and evaluations, in one process
with torch's default threads; it has no heat layer, which would only slow it down.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.config import RunConfig
    from lab.tasks import TaskData

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def plain_run(config: RunConfig, data: TaskData, device: str = "cpu") -> tuple[Callable[[], None], Callable[[], None]]:
    """One run around nn.TransformerEncoder, on a task without padding: what makes a step, and what measures accuracy."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    from lab.batches import batch_order

    class Plain(nn.Module):
        def __init__(self, c: RunConfig) -> None:
            super().__init__()
            self.embedding = nn.Embedding(data.vocabulary, c.width)
            self.position = nn.Parameter(torch.randn(data.length, c.width) * 0.5)
            layer = nn.TransformerEncoderLayer(c.width, c.heads, c.ffn, dropout=0.0, batch_first=True, norm_first=True)
            self.encoder = nn.TransformerEncoder(
                layer, c.layers, norm=nn.LayerNorm(c.width), enable_nested_tensor=False
            )
            self.head = nn.Linear(c.width, data.classes)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.encoder(self.embedding(tokens) + self.position).mean(1))

    train, test = (torch.from_numpy(split.tokens.astype("int64")).to(device) for split in (data.train, data.test))
    train_labels, test_labels = (torch.from_numpy(split.labels).to(device) for split in (data.train, data.test))
    torch.manual_seed(config.seed)
    model = Plain(config).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.steps)
    order = batch_order(len(train), config)

    def step() -> None:
        index = torch.from_numpy(next(order)).to(device)
        model.train()
        loss = F.cross_entropy(model(train[index]), train_labels[index])
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimiser.step()
        schedule.step()

    def evaluate() -> None:
        model.eval()
        with torch.inference_mode():
            (model(test).argmax(-1) == test_labels).float().mean().item()

    return step, evaluate


def plain_loop() -> None:
    """24 runs one after the other around nn.TransformerEncoder, with whatever threads torch takes by default."""
    import torch

    from lab.study import Study
    from lab.tasks import get_task

    data = get_task("digits").load("mini")
    configs = Study().configs()
    print("threads", torch.get_num_threads(), file=sys.stderr)
    start = time.perf_counter()
    for config in configs:
        step, evaluate = plain_run(config, data)
        for number in range(1, config.steps + 1):
            step()
            if number % config.eval_every == 0:
                evaluate()
    print(time.perf_counter() - start)


def through_the_lab() -> None:
    """The same 24 runs through store and engine, in a fresh cache; the engine has been started and has trained one run."""
    from lab.config import RunConfig
    from lab.engine.client import Engine
    from lab.store import Store
    from lab.study import Study

    engine = Engine(Store())

    def finish(configs: tuple[RunConfig, ...]) -> float:
        start = time.perf_counter()
        engine.request(configs)
        keys = [config.key for config in configs]
        while any(state.kind != "done" for state in engine.runs(keys).values()):
            time.sleep(0.05)
        return time.perf_counter() - start

    cold = finish((RunConfig(seed=10, steps=1), RunConfig(seed=11, steps=1)))
    print("engine start and first runs, s:", round(cold, 2), file=sys.stderr)
    print(finish(Study().configs()))


def _timed(mode: str, **environment: str) -> float:
    kept = {name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, __file__, mode]
    done = subprocess.run(command, env={**kept, **environment}, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def study(rounds: int = 2) -> None:
    """Plain loop and lab in turn."""
    ratios = []
    for _ in range(rounds):
        loop = _timed("plain-loop")
        with tempfile.TemporaryDirectory() as cache:
            ours = _timed("through-the-lab", LAB_CACHE=cache)
        ratios.append(loop / ours)
        print(f"24 digits runs: plain loop {loop:.1f} s, lab {ours:.1f} s, ratio {ratios[-1]:.2f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f} (target: at least 2)")


def model(rounds: int = 15, steps: int = 10) -> None:
    """One step of training with the heat layer at each place against the baseline, interleaved."""
    import torch

    from lab.batches import batch_order
    from lab.config import RunConfig
    from lab.pack import Pack
    from lab.positions import Position
    from lab.tasks import get_task

    torch.set_num_threads(1)
    data = get_task("digits").load("mini")

    def stepper(config: RunConfig) -> Callable[[], float]:
        pack = Pack([config], data, torch.device("cpu"), lambda _: None, lambda _: False)
        order = batch_order(len(data.train), config)

        def one() -> float:
            start = time.perf_counter()
            for _ in range(steps):
                pack._step(50, *pack.train_split.batch(torch.from_numpy(next(order))[None]))
            return time.perf_counter() - start

        one()
        return one

    steppers = {position: stepper(RunConfig(position=position)) for position in Position}
    times: dict[Position, list[float]] = {position: [] for position in Position}
    for _ in range(rounds):
        for position, one in steppers.items():
            times[position].append(one())
    base = times[Position.BASELINE]
    print(f"baseline: {1000 * statistics.median(base) / steps:.2f} ms a step, one thread")
    for position in list(Position)[1:]:
        ratio = statistics.median(t / b for t, b in zip(times[position], base, strict=True))
        print(f"{position:18} {ratio:.3f} of the baseline (target: at most 1.15)")


if __name__ == "__main__":
    modes = {"plain-loop": plain_loop, "through-the-lab": through_the_lab, "study": study, "model": model}
    if len(sys.argv) != 2 or sys.argv[1] not in modes:
        sys.exit(f"usage: python benchmarks/training.py {' | '.join(m for m in modes if m in ('study', 'model'))}")
    modes[sys.argv[1]]()
