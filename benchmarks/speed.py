"""Memory, peers, limits and stages, beside the table of ``bitr bench``: ``python -m benchmarks.speed``.

With --quick in a minute, with --json as one object. Times are the fastest of interleaved turns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import peers
from bitr.evaluation.report import table_lines
from bitr.evaluation.speed import (
    CONFIGS,
    LARGEST_TO_TRAIN,
    SIDE,
    Job,
    Patience,
    example_clouds,
    machine,
    machine_lines,
    no_grad,
    patience_for,
    take_turns,
    training_step,
    unit,
)
from bitr.layers import Neighborhoods, TransformerLayer, WholeCloudBlock
from bitr.model import BITR, bitr, keypoints
from bitr.model.inputs import Frame
from bitr.model.transformer import Block, MergedTransformer

COPIED = 2**28
"""Bytes of a copy, far more than any cache holds."""
STATUS = Path("/proc/self/status")
"""Linux tells here how much memory a process has; nothing else is asked."""


# Peak memory of one pass, each in a process of its own


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
    """No rows where the system does not say."""
    for n in () if not STATUS.exists() else (1024,) if quick else (1024, 4096, 65536):
        for name in CONFIGS:
            forward = _in_child("model", name, n, "forward")
            training = _in_child("model", name, n, "training") if n <= LARGEST_TO_TRAIN else None
            yield MemoryRow(name, n, forward, training)


def stack_rows(quick: bool) -> Iterator[peers.StackRow]:
    """The rows of ``peers.stack_rows`` with the peak memory of forward and backward."""
    for row in peers.stack_rows(quick):
        if quick or not STATUS.exists():
            yield row
            continue
        ours, theirs = (_in_child("stack", name, row.points, str(row.max_degree)) for name in peers.STACKS)
        yield replace(row, training_mb=ours, e3nn_training_mb=theirs)


def _in_child(kind: str, name: str, n: int, detail: str) -> float:
    call = [sys.executable, "-m", "benchmarks.speed", "--peak", kind, name, str(n), detail]
    return float(subprocess.run(call, check=True, capture_output=True, text=True).stdout)


def peak(kind: str, name: str, points: str, detail: str) -> float:
    """The peak of this process, in MB above its memory just before; the first, small call loads libraries."""
    n = int(points)
    if kind == "model":
        model, clouds, few = BITR(CONFIGS[name]()), example_clouds(n, 1), example_clouds(64, 1)
        small: Job = partial(training_step, model, *few)
        forward, training = no_grad(partial(model, *clouds)), partial(training_step, model, *clouds)
        job: Job = forward if detail == "forward" else training
    else:
        stack = peers.STACKS[name](int(detail))
        small, job = (
            peers.trained(stack, peers.random_field(int(detail), m), peers.neighborhoods(m)) for m in (32, n)
        )
    small()
    before = _memory_mb("VmRSS")
    job()
    return max(0.0, _memory_mb("VmHWM") - before)


def _memory_mb(name: str) -> float:
    """Memory of this process; ``getrusage`` would count the parent's before exec, too."""
    with STATUS.open() as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name + ":"))


# The distance of a forward pass from the limits of the machine


@dataclass(frozen=True)
class LimitRow:
    """A forward pass beside the time its products take at the rate of a large product, and its bytes at the
    rate of a large copy.

    The first is a lower bound. The second is one only as far as nothing stays in the caches between two
    operations; much of it does, so the pass may take less.
    """

    config: str
    points: int
    forward_ms: float
    forward_gflop: float
    products_at_least_ms: float
    moved_mb: float
    bytes_at_least_ms: float

    COLUMNS: ClassVar = (
        "model",
        "points",
        "forward, ms",
        "GFLOP of products",
        "at least, ms",
        "MB read and written",
        "through memory at least, ms",
    )

    def cells(self) -> tuple[object, ...]:
        products = f"{self.forward_gflop:.2f}", f"{self.products_at_least_ms:.1f}"
        traffic = f"{self.moved_mb:.0f}", f"{self.bytes_at_least_ms:.1f}"
        return self.config, self.points, f"{self.forward_ms:.1f}", *products, *traffic


def limit_rows(quick: bool, n: int = 1024) -> Iterator[LimitRow]:
    patience = patience_for(quick)
    for name, make in CONFIGS.items():
        model, (x, y) = BITR(make()).eval(), example_clouds(n, 1)
        forward = no_grad(partial(model, x, y))
        product, ours = take_turns([unit(), forward], patience)
        with FlopCounterMode(display=False) as counter:
            forward()
        with Traffic() as traffic:
            forward()
        gflop, gigabytes = counter.get_total_flops() / 1e9, traffic.moved / 1e9
        yield LimitRow(
            config=name,
            points=n,
            forward_ms=1e3 * ours.fastest,
            forward_gflop=gflop,
            products_at_least_ms=1e3 * gflop * product.fastest / (2 * SIDE**3 / 1e9),
            moved_mb=1e3 * gigabytes,
            bytes_at_least_ms=1e3 * gigabytes / copy_rate(patience),
        )


def copy_rate(patience: Patience) -> float:
    """GB/s, read and written, of a copy too large for the caches."""
    source = torch.ones(COPIED // 4)
    target = torch.empty_like(source)
    (copy,) = take_turns([lambda: target.copy_(source)], patience)
    return 2 * COPIED / copy.fastest / 1e9


def facts(quick: bool) -> dict[str, str | int | float]:
    """The machine, with the rate of a large copy."""
    return machine(quick) | {"copy_gb_per_second": copy_rate(patience_for(quick))}


class Traffic(TorchDispatchMode):
    """Adds up the bytes that each operation reads and writes; views move nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.moved = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        result = func(*args, **given)
        target = given.pop("out", None)  # written, not read
        read, written = _tensors((args, given)), _tensors(result)
        if target is None and not func._schema.is_mutable:
            owned = {tensor.untyped_storage().data_ptr() for tensor in read}
            written = [tensor for tensor in written if tensor.untyped_storage().data_ptr() not in owned]
        if written and not func._schema.name.startswith("aten::empty"):
            self.moved += sum(_bytes(tensor) for tensor in [*read, *written])
        return result


def _tensors(tree: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _bytes(tensor: Tensor) -> int:
    """An expanded tensor is read as often as it is used, but from few bytes."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


# Stages: timers around the model's own functions, inside a real pass


Stages = tuple[tuple[object, str, str], ...]
"""Owner and name of a function, and its stage."""
FORWARD: Stages = (
    (bitr, "check_pair", "checks and centring"),
    (bitr, "center_pair", "checks and centring"),
    (Neighborhoods, "of_all", "neighbours"),
    (keypoints, "edges_of", "edges"),
    (Block, "forward", "key-point layers"),
    (TransformerLayer, "forward", "key-point layers"),
    (WholeCloudBlock, "forward", "whole-cloud blocks"),
    (keypoints, "select", "choice of the key points"),
    (bitr, "merge", "merge"),
    (MergedTransformer, "forward", "merged-cloud layers"),
    (bitr, "project", "projection"),
    (Frame, "pose", "projection"),
)
BACKWARD: Stages = (
    (BITR, "forward", "forward"),
    (TransformerLayer, "_attend", "edge sums made again"),
)


@dataclass(frozen=True)
class StageRow:
    """One stage of a pass, from the fastest of several runs."""

    config: str
    points: int
    job: str
    stage: str
    ms: float
    percent: float

    COLUMNS: ClassVar = ("model", "points", "pass", "stage", "ms", "percent")

    def cells(self) -> tuple[object, ...]:
        return self.config, self.points, self.job, self.stage, f"{self.ms:.1f}", f"{self.percent:.0f}"


class Stopwatch:
    """Seconds by stage; for stages inside one another the outermost counts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._running = False

    def around(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._running:
                return function(*args, **kwargs)
            self._running, start = True, time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
                self._running = False

        return timed


def stage_rows(quick: bool, n: int = 1024) -> Iterator[StageRow]:
    x, y = example_clouds(n, 1)
    passes = (("forward", FORWARD, "the rest"), ("with backward", BACKWARD, "the rest of the backward pass"))
    for name, make in CONFIGS.items():
        model, runs = BITR(make()).eval(), 5 if quick else 20
        for job, stages, rest in passes:
            found = [_run(model, x, y, stages, rest) for _ in range(runs)]
            fastest = min(found, key=lambda seconds: sum(seconds.values()))
            total = sum(fastest.values())
            for stage, spent in fastest.items():
                yield StageRow(name, n, job, stage, 1e3 * spent, 100 * spent / total)


def _run(model: BITR, x: Tensor, y: Tensor, stages: Stages, rest: str) -> dict[str, float]:
    """Seconds of every stage, and of the rest outside all of them."""
    watch = Stopwatch()
    with ExitStack() as stack:
        for owner, name, stage in stages:
            stack.enter_context(patch.object(owner, name, _timed(watch, owner, name, stage)))
        start = time.perf_counter()
        with torch.set_grad_enabled(stages is BACKWARD):
            pose = model(x, y)
        if stages is BACKWARD:
            (pose.rotation.sum() + pose.translation.sum()).backward()
        total = time.perf_counter() - start
    return watch.seconds | {rest: total - sum(watch.seconds.values())}


def _timed(watch: Stopwatch, owner: object, name: str, stage: str) -> object:
    timed = watch.around(stage, getattr(owner, name))
    bound = isinstance(owner, type) and isinstance(vars(owner)[name], classmethod | staticmethod)
    return staticmethod(timed) if bound else timed


TABLES: dict[str, tuple[Any, Callable[[bool], Iterator[Any]]]] = {
    "memory": (MemoryRow, memory_rows),
    "layers": (peers.LayerRow, peers.layer_rows),
    "stacks": (peers.StackRow, stack_rows),
    "limits": (LimitRow, limit_rows),
    "stages": (StageRow, stage_rows),
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes and turns")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--peak", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.peak:
        print(peak(*given.peak))
        return
    if given.json:
        found = {name: [asdict(row) for row in rows(given.quick)] for name, (_, rows) in TABLES.items()}
        print(json.dumps({"machine": facts(given.quick), **found}))
        return
    print(*machine_lines(facts(given.quick)), sep="\n")
    for kind, rows in TABLES.values():
        print()
        for line in table_lines(kind.COLUMNS, (row.cells() for row in rows(given.quick))):
            print(line, flush=True)


if __name__ == "__main__":
    main()
