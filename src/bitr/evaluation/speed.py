"""Speed and memory, as ratios: machines are noisy and differ, so times are in units of one matrix product.

The unit is one 1024×1024×1024 float32 ``torch.matmul`` in the same run. What is compared takes turns, and of
each the fastest turn counts.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from bitr.data import bumpy_shape, cut
from bitr.evaluation.e3nn_layer import E3nnLayer
from bitr.groups import Rep, components
from bitr.layers import Chebyshev, Neighborhoods, TransformerLayer, edges_of
from bitr.model import BITR, BITRConfig

CONFIGS: dict[str, Callable[[], BITRConfig]] = {"default": BITRConfig, "paper": BITRConfig.paper}
SIZES = (256, 1024, 4096, 16384, 65536)
QUICK_SIZES = (256, 1024, 4096)
LARGEST_TO_TRAIN = 4096
"""Points a cloud up to which the backward pass is timed."""


@dataclass(frozen=True)
class ModelRow:
    """One pass of the whole model, and of forward with backward, on b pairs of clouds of n points each."""

    config: str
    points: int
    batch: int
    max_degree: int
    forward_units: float
    forward_ms: float
    training_units: float | None
    training_ms: float | None
    forward_gflop: float


@dataclass(frozen=True)
class MemoryRow:
    """Peak memory above that of the process with the model loaded."""

    config: str
    points: int
    forward_mb: float
    training_mb: float | None


@dataclass(frozen=True)
class LayerRow:
    """One layer beside an e3nn layer of the same degrees, channels, neighbours and radial functions."""

    max_degree: int
    points: int
    forward_times_faster: float
    training_times_faster: float


def machine() -> dict[str, str | int]:
    """What the figures were measured on."""
    return {
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def model_rows(quick: bool) -> Iterator[ModelRow]:
    for n in QUICK_SIZES if quick else SIZES:
        for name, make in CONFIGS.items():
            yield _model_row(name, make(), n, 1)
    if not quick:
        for name, make in CONFIGS.items():
            yield _model_row(name, make(), 1024, 8)
        for max_degree in (2, 3):
            yield _model_row("default", BITRConfig(max_degree=max_degree), 256, 1)


def memory_rows(quick: bool) -> Iterator[MemoryRow]:
    """Each in a process of its own; none where the system does not say (other than Linux)."""
    if not Path("/proc/self/status").exists():
        return
    for n in (1024,) if quick else (1024, 4096, 65536):
        for name in CONFIGS:
            forward = _peak_in_child(name, n, backward=False)
            training = _peak_in_child(name, n, backward=True) if n <= LARGEST_TO_TRAIN else None
            yield MemoryRow(name, n, forward, training)


def layer_rows(n: int = 1024, k: int = 24, channels: int = 4) -> Iterator[LayerRow]:
    for max_degree in (1, 2):
        rep = Rep.one_sided(max_degree, channels)
        radial = Chebyshev(1, BITRConfig.radial_functions[0])
        ours = TransformerLayer(rep, rep, radial, radial, heads=2, head_channels=channels // 2, tied=False)
        theirs = E3nnLayer(max_degree, channels, radial.num_weights)
        edges = edges_of(Neighborhoods.of(_pair(n, 1)[0], k), max_degree, torch.ones(1), radial.num_weights)
        field = {d: torch.randn(n, components(d), c) for d, c in rep.items()}
        forward = _fastest([_no_grad(partial(layer, field, edges)) for layer in (ours, theirs)])
        training = _fastest([_trained(layer, field, edges) for layer in (ours, theirs)])
        yield LayerRow(max_degree, n, forward[1] / forward[0], training[1] / training[0])


def report(quick: bool) -> dict[str, object]:
    """Everything, as it goes into JSON."""
    return {
        "machine": machine(),
        "models": [asdict(row) for row in model_rows(quick)],
        "memory": [asdict(row) for row in memory_rows(quick)],
        "layers": [asdict(row) for row in layer_rows()],
    }


def _model_row(name: str, config: BITRConfig, n: int, batch: int) -> ModelRow:
    model, (x, y) = BITR(config).eval(), _pair(n, batch)
    product = torch.randn(1024, 1024)
    forward = _no_grad(lambda: model(x, y))
    jobs: list[Callable[[], object]] = [lambda: product @ product, forward]
    train = n * batch <= LARGEST_TO_TRAIN * 2
    if train:
        jobs.append(lambda: _step(model, x, y))
    seconds = _fastest(jobs)
    with FlopCounterMode(display=False) as counter:
        forward()
    return ModelRow(
        config=name,
        points=n,
        batch=batch,
        max_degree=config.max_degree,
        forward_units=seconds[1] / seconds[0],
        forward_ms=1e3 * seconds[1],
        training_units=seconds[2] / seconds[0] if train else None,
        training_ms=1e3 * seconds[2] if train else None,
        forward_gflop=counter.get_total_flops() / 1e9,
    )


def _pair(n: int, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    pairs = [cut(bumpy_shape(2 * n, generator), 0.5, generator) for _ in range(batch)]
    return torch.stack([x for x, _ in pairs]).float(), torch.stack([y for _, y in pairs]).float()


def _step(model: BITR, x: torch.Tensor, y: torch.Tensor) -> None:
    model.zero_grad()
    pose = model(x, y)
    (pose.rotation.sum() + pose.translation.sum()).backward()


def _no_grad(job: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        with torch.no_grad():
            return job()

    return run


def _trained(
    layer: torch.nn.Module, field: dict[tuple[int, int], torch.Tensor], edges: object
) -> Callable[[], object]:
    leaves = {degree: value.clone().requires_grad_() for degree, value in field.items()}

    def run() -> None:
        sum(value.sum() for value in layer(leaves, edges).values()).backward()

    return run


def _fastest(jobs: list[Callable[[], object]], rounds: int = 12, seconds: float = 6.0) -> list[float]:
    """The fastest turn of each job; they take turns, at least three and until ``seconds`` have passed."""
    best = [float("inf")] * len(jobs)
    start = time.perf_counter()
    for turn in range(rounds + 1):
        for i, job in enumerate(jobs):
            before = time.perf_counter()
            job()
            if turn > 0:  # the first is for warming up
                best[i] = min(best[i], time.perf_counter() - before)
        if turn >= 3 and time.perf_counter() - start > seconds:
            break
    return best


def _peak_in_child(config: str, n: int, backward: bool) -> float:
    call = [
        sys.executable,
        "-m",
        "bitr.evaluation.speed",
        config,
        str(n),
        "training" if backward else "forward",
    ]
    done = subprocess.run(call, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout)["mb"])


def _peak(config: str, n: int, backward: bool) -> float:
    """Peak memory of one pass, in MB above what the process held just before it."""
    model = BITR(CONFIGS[config]())
    _step(model, *_pair(64, 1))  # libraries allocate at their first call
    x, y = _pair(n, 1)
    before = _memory_mb("VmRSS")
    if backward:
        _step(model, x, y)
    else:
        with torch.inference_mode():
            model(x, y)
    return max(0.0, _memory_mb("VmHWM") - before)


def _memory_mb(name: str) -> float:
    """Memory of this process as Linux counts it; ``getrusage`` would count the parent's before exec, too."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name + ":"))


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    print(json.dumps({"mb": _peak(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "training")}))
