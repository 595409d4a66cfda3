"""How a training step's time and memory grow with the length of the sequence: 256 to 4096 tokens, batch 8, one thread.

    python benchmarks/lengths.py

Each length in a process of its own, so that its peak memory is its own. Attention takes n² operations: a step may grow by 4 from one
line to the next and no more; memory need not, as attention matrices are never kept whole.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
LENGTHS = (256, 512, 1024, 2048, 4096)


def one(n: int) -> None:
    """Steps of the full recipe at one length, then the measures of a finished run; prints JSON."""
    import numpy as np
    import torch

    from lab.config import RunConfig
    from lab.measures import depth_profile
    from lab.pack import Pack
    from lab.tasks import Split, TaskData

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    split = Split(rng.integers(1, 256, (16, n)).astype(np.uint8), np.full(16, n), rng.integers(0, 2, 16))
    config = RunConfig(position="between_layers", width=64, ffn=128, heads=2, batch=8)  # type: ignore[arg-type]
    pack = Pack([config], TaskData(split, split, 256, 2), torch.device("cpu"), lambda _: None, lambda _: False)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        pack._step(30, *pack.train_split.batch(torch.arange(8)[None]))
        times.append(time.perf_counter() - start)
    step_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    depth_profile(pack.model, pack.test_split)
    whole_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": statistics.median(times[1:]), "step_mb": step_mb, "whole_mb": whole_mb}))


def main() -> None:
    """All lengths, each beside the one before."""
    print("tokens   step, ratio to the line before   peak MB while training   with the measures (limit 4096)")
    before = None
    for n in LENGTHS:
        done = subprocess.run([sys.executable, __file__, str(n)], stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout)
        ratio = f"{found['seconds'] / before:.1f}×" if before else "–"
        print(
            f"{n:6}   {found['seconds']:7.2f} s {ratio:>8}   {found['step_mb']:8.0f}   {found['whole_mb']:8.0f}",
            flush=True,
        )
        before = found["seconds"]


if __name__ == "__main__":
    one(int(sys.argv[1])) if len(sys.argv) == 2 else main()
