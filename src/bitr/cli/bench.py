"""``bitr bench``: the speed of the model on this machine, as in BENCHMARK.md.

Machines are noisy and differ, so times are also given in units of one 1024×1024×1024 float32 product of the
same run. Jobs that are compared take turns, and the fastest turn of each counts.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitr.cli import options
from bitr.cli.options import say

if TYPE_CHECKING:
    from torch import Tensor

    from bitr.model import BITR, BITRConfig

EXAMPLE = "bitr bench --quick --json"
SIZES, QUICK_SIZES = (256, 1024, 4096, 16384, 65536), (256, 1024, 4096)
LARGEST_TO_TRAIN = 4096
"""Points of a cloud up to which the backward pass is measured."""
SIDE = 1024
"""Side of the matrices whose product is the unit of time."""
COLUMNS = (
    "model",
    "degrees to",
    "points",
    "batch",
    "forward, units (ms)",
    "with backward, units (ms)",
    "GFLOP",
)

Job = Callable[[], object]
Quick = Annotated[bool, typer.Option("--quick", help="Measure fewer sizes, in under a minute.")]


def run(quick: Quick = False, json: options.Json = False) -> None:
    """Measure the speed of the model on this machine, in units of a matrix product."""
    import json as json_format

    say("measuring; the machine should have nothing else to do")
    if json:
        rows = list(measure_models(quick))
        print(json_format.dumps({"machine": describe_machine(quick), "models": rows}))
        return
    print_facts(describe_machine(quick))
    print_table(COLUMNS, map(_format, measure_models(quick)))


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


def configs() -> dict[str, BITRConfig]:
    """The models that are measured."""
    from bitr.model import BITRConfig

    return {"default": BITRConfig(), "paper": BITRConfig.paper()}


def example_clouds(n: int, batch: int) -> tuple[Tensor, Tensor]:
    """``batch`` pairs of pieces of n points each, always the same."""
    import torch

    from bitr.data import bumpy_shape, cut

    generator = torch.Generator().manual_seed(0)
    pairs = [cut(bumpy_shape(2 * n, generator), 0.5, generator) for _ in range(batch)]
    return torch.stack([x for x, _ in pairs]).float(), torch.stack([y for _, y in pairs]).float()


def forward_pass(model: BITR, x: Tensor, y: Tensor) -> None:
    import torch

    with torch.no_grad():
        model(x, y)


def training_step(model: BITR, x: Tensor, y: Tensor) -> None:
    """Forward and backward; the weights stay as they are."""
    model.zero_grad()
    pose = model(x, y)
    (pose.rotation.sum() + pose.translation.sum()).backward()


def unit() -> Job:
    """The unit of time: one 1024×1024×1024 float32 product."""
    import torch

    square = torch.randn(SIDE, SIDE)
    return lambda: square @ square


def describe_machine(quick: bool) -> dict[str, str | int | float]:
    """The machine that the figures were measured on, its unit of time, and the rate of a large product."""
    import torch

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


def measure_models(quick: bool) -> Iterator[dict[str, Any]]:
    """One forward pass of the whole model, and one with backward, on b pairs of clouds of n points each."""
    from torch.utils.flop_counter import FlopCounterMode

    from bitr.model import BITR

    both = configs()
    cases = [(*each, n, 1) for n in (QUICK_SIZES if quick else SIZES) for each in both.items()]
    if not quick:
        cases += [(*each, 1024, 8) for each in both.items()]
        cases += [("default", replace(both["default"], max_degree=degree), 256, 1) for degree in (2, 3)]
    for name, config, n, batch in cases:
        model, (x, y) = BITR(config).eval(), example_clouds(n, batch)
        passes = {"forward": forward_pass, "training": training_step}
        if n * batch > 2 * LARGEST_TO_TRAIN:
            del passes["training"]
        jobs: list[Job] = [unit(), *(partial(each, model, x, y) for each in passes.values())]
        one, *times = take_turns(jobs, patience_for(quick))
        row: dict[str, Any] = {"config": name, "max_degree": config.max_degree, "points": n, "batch": batch}
        for kind, found in zip(passes, times, strict=True):
            row[f"{kind}_units"] = found.fastest / one.fastest
            row |= {f"{kind}_ms": 1e3 * found.fastest, f"{kind}_median_ms": 1e3 * found.median}
        with FlopCounterMode(display=False) as counter:
            forward_pass(model, x, y)
        yield row | {"forward_gflop": counter.get_total_flops() / 1e9}


def _format(row: dict[str, Any]) -> Sequence[object]:
    forward = f"{row['forward_units']:.1f} ({row['forward_ms']:.0f})"
    step = f"{row['training_units']:.1f} ({row['training_ms']:.0f})" if "training_ms" in row else ""
    sizes = row["config"], row["max_degree"], row["points"], row["batch"]
    return *sizes, forward, step, f"{row['forward_gflop']:.2f}"


def print_facts(facts: dict[str, str | int | float]) -> None:
    """Print names and values as a Markdown list."""
    for key, value in facts.items():
        print(
            f"- {key.replace('_', ' ')}: {f'{value:.1f}' if isinstance(value, float) else value}", flush=True
        )


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table, line by line as its rows are measured."""
    print("", f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}", sep="\n")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)
