"""Speed of the whole model, in units of one matrix product of the same run: machines are noisy and differ.

Jobs that are compared take turns, and the fastest turn of each counts. ``benchmarks/speed.py`` measures the
rest.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from bitr.data import bumpy_shape, cut
from bitr.model import BITR, BITRConfig

CONFIGS: dict[str, Callable[[], BITRConfig]] = {"default": BITRConfig, "paper": BITRConfig.paper}
SIZES, QUICK_SIZES = (256, 1024, 4096, 16384, 65536), (256, 1024, 4096)
LARGEST_TO_TRAIN = 4096  # points of a cloud up to which the backward pass is measured
SIDE = 1024  # side of the float32 matrices whose product is the unit of time

Job = Callable[[], object]


@dataclass(frozen=True)
class Times:
    """Seconds of one job: its fastest turn, which a busy machine disturbs least, and the median."""

    fastest: float
    median: float


@dataclass(frozen=True)
class Patience:
    """Limits of a measurement: up to ``rounds`` turns each, fewer once ``seconds`` have passed."""

    rounds: int
    seconds: float
    least: int = 3


FULL, QUICK = Patience(rounds=12, seconds=6.0), Patience(rounds=8, seconds=1.0, least=2)


def patience_for(quick: bool) -> Patience:
    return QUICK if quick else FULL


def take_turns(jobs: Sequence[Job], patience: Patience) -> list[Times]:
    """The times of each job; all take turns, and the first turn, for warming up, does not count."""
    turns: list[list[float]] = [[] for _ in jobs]
    start = time.perf_counter()
    for turn in range(patience.rounds + 1):
        for job, seconds in zip(jobs, turns, strict=True):
            before = time.perf_counter()
            job()
            if turn > 0:
                seconds.append(time.perf_counter() - before)
        if turn >= patience.least and time.perf_counter() - start > patience.seconds:
            break
    return [Times(min(seconds), median(seconds)) for seconds in turns]


def example_clouds(n: int, batch: int) -> tuple[Tensor, Tensor]:
    """``batch`` pairs of pieces of n points each, always the same."""
    generator = torch.Generator().manual_seed(0)
    pairs = [cut(bumpy_shape(2 * n, generator), 0.5, generator) for _ in range(batch)]
    return torch.stack([x for x, _ in pairs]).float(), torch.stack([y for _, y in pairs]).float()


def training_step(model: BITR, x: Tensor, y: Tensor) -> None:
    """Forward and backward; the weights stay as they are."""
    model.zero_grad()
    pose = model(x, y)
    (pose.rotation.sum() + pose.translation.sum()).backward()


def no_grad(job: Job) -> Job:
    def run() -> object:
        with torch.no_grad():
            return job()

    return run


def unit() -> Job:
    """The unit of time: one 1024×1024×1024 float32 product."""
    square = torch.randn(SIDE, SIDE)
    return lambda: square @ square


def machine(quick: bool) -> dict[str, str | int | float]:
    """The machine that the figures were measured on, its unit of time, and the rate of a large product."""
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:  # not Linux
        names = []
    (product,) = take_turns([unit()], patience_for(quick))
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "unit_ms": 1e3 * product.fastest,
        "unit_median_ms": 1e3 * product.median,
        "gflop_per_second": 2 * SIDE**3 / product.fastest / 1e9,
    }


@dataclass(frozen=True)
class ModelRow:
    """One forward pass of the whole model, and one with backward, on b pairs of clouds of n points each."""

    config: str
    max_degree: int
    points: int
    batch: int
    forward_units: float
    forward_ms: float
    forward_median_ms: float
    training_units: float | None
    training_ms: float | None
    training_median_ms: float | None
    forward_gflop: float

    COLUMNS: ClassVar = (
        *("model", "degrees to", "points", "batch"),
        *("forward, units (ms)", "with backward, units (ms)", "GFLOP"),
    )

    def cells(self) -> tuple[object, ...]:
        step = "" if self.training_units is None else f"{self.training_units:.1f} ({self.training_ms:.0f})"
        forward = f"{self.forward_units:.1f} ({self.forward_ms:.0f})"
        sizes = self.config, self.max_degree, self.points, self.batch
        return *sizes, forward, step, f"{self.forward_gflop:.2f}"


def model_rows(quick: bool) -> Iterator[ModelRow]:
    """The rows of the table, measured while they are read."""
    both = [(name, make()) for name, make in CONFIGS.items()]
    cases = [(name, config, n, 1) for n in (QUICK_SIZES if quick else SIZES) for name, config in both]
    if not quick:
        cases += [(name, config, 1024, 8) for name, config in both]
        cases += [("default", BITRConfig(max_degree=degree), 256, 1) for degree in (2, 3)]
    for case in cases:
        yield measure_row(*case, patience_for(quick))


def measure_row(name: str, config: BITRConfig, n: int, batch: int, patience: Patience) -> ModelRow:
    """One row of the table."""
    model, (x, y) = BITR(config).eval(), example_clouds(n, batch)
    forward = no_grad(lambda: model(x, y))
    jobs: list[Job] = [unit(), forward]
    if n * batch <= 2 * LARGEST_TO_TRAIN:
        jobs.append(lambda: training_step(model, x, y))
    one, *found = take_turns(jobs, patience)
    with FlopCounterMode(display=False) as counter:
        forward()
    times = [(each.fastest / one.fastest, 1e3 * each.fastest, 1e3 * each.median) for each in found]
    step: tuple[float | None, float | None, float | None] = times[1] if times[1:] else (None, None, None)
    gflop = counter.get_total_flops() / 1e9
    return ModelRow(name, config.max_degree, n, batch, *times[0], *step, gflop)


def machine_lines(facts: dict[str, str | int | float]) -> Iterator[str]:
    """The machine as a Markdown list."""
    for key, value in facts.items():
        yield f"- {key.replace('_', ' ')}: {f'{value:.1f}' if isinstance(value, float) else value}"
