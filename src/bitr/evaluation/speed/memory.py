"""Peak memory of one pass, each in a process of its own; as Linux counts it, and nowhere else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from bitr.evaluation.speed.passes import CONFIGS, LARGEST_TO_TRAIN, pair, training_step
from bitr.evaluation.speed.stacks import STACKS, neighborhoods, random_field, trained
from bitr.evaluation.speed.timing import Job
from bitr.model import BITR

STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class MemoryRow:
    """Peak memory above that of the process with the model loaded."""

    config: str
    points: int
    forward_mb: float
    training_mb: float | None

    COLUMNS: ClassVar = ("model", "points", "peak memory of a forward pass, MB", "with backward, MB")

    def cells(self) -> tuple[object, ...]:
        training = "" if self.training_mb is None else f"{self.training_mb:.0f}"
        return self.config, self.points, f"{self.forward_mb:.0f}", training


def memory_rows(quick: bool) -> Iterator[MemoryRow]:
    """None where the system does not say."""
    if not STATUS.exists():
        return
    for n in (1024,) if quick else (1024, 4096, 65536):
        for name in CONFIGS:
            forward = _in_child("model", name, n, "forward")
            training = _in_child("model", name, n, "training") if n <= LARGEST_TO_TRAIN else None
            yield MemoryRow(name, n, forward, training)


def stack_peak(name: str, max_degree: int, n: int) -> float | None:
    """Of forward and backward of a stack of layers."""
    return _in_child("stack", name, n, str(max_degree)) if STATUS.exists() else None


def _in_child(kind: str, name: str, n: int, detail: str) -> float:
    call = [sys.executable, "-m", "bitr.evaluation.speed.memory", kind, name, str(n), detail]
    done = subprocess.run(call, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout)["mb"])


def _peak(small: Job, job: Job) -> float:
    """In MB above what the process held just before; libraries allocate in their first, small call."""
    small()
    before = _memory_mb("VmRSS")
    job()
    return max(0.0, _memory_mb("VmHWM") - before)


def _model_peak(config: str, n: int, detail: str) -> float:
    model, (x, y), few = BITR(CONFIGS[config]()), pair(n, 1), pair(64, 1)

    def forward() -> None:
        with torch.inference_mode():
            model(x, y)

    job = forward if detail == "forward" else lambda: training_step(model, x, y)
    return _peak(lambda: training_step(model, *few), job)


def _stack_peak(name: str, n: int, detail: str) -> float:
    max_degree = int(detail)
    stack = STACKS[name](max_degree)
    few, many = (trained(stack, random_field(max_degree, m), neighborhoods(m)) for m in (32, n))
    return _peak(few, many)


def _memory_mb(name: str) -> float:
    """Memory of this process; ``getrusage`` would count the parent's before exec, too."""
    with STATUS.open() as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name + ":"))


if __name__ == "__main__":
    kind, name, points, detail = sys.argv[1:]
    peak = _model_peak if kind == "model" else _stack_peak
    print(json.dumps({"mb": peak(name, int(points), detail)}))
