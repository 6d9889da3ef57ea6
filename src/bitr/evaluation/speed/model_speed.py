"""Speed of the whole model, in units of one matrix product of the same run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch.utils.flop_counter import FlopCounterMode

from bitr.evaluation.speed.machine import unit
from bitr.evaluation.speed.passes import CONFIGS, LARGEST_TO_TRAIN, no_grad, pair, training_step
from bitr.evaluation.speed.timing import Job, Patience, patience_for, take_turns
from bitr.model import BITR, BITRConfig

SIZES = (256, 1024, 4096, 16384, 65536)
QUICK_SIZES = (256, 1024, 4096)


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
        "model",
        "degrees to",
        "points",
        "batch",
        "forward, units (ms)",
        "with backward, units (ms)",
        "GFLOP",
    )

    def cells(self) -> tuple[object, ...]:
        training = (
            "" if self.training_units is None else f"{self.training_units:.1f} ({self.training_ms:.0f})"
        )
        forward = f"{self.forward_units:.1f} ({self.forward_ms:.0f})"
        sizes = (self.config, self.max_degree, self.points, self.batch)
        return *sizes, forward, training, f"{self.forward_gflop:.2f}"


def model_rows(quick: bool) -> Iterator[ModelRow]:
    patience = patience_for(quick)
    for n in QUICK_SIZES if quick else SIZES:
        for name, make in CONFIGS.items():
            yield _row(name, make(), n, 1, patience)
    if not quick:
        for name, make in CONFIGS.items():
            yield _row(name, make(), 1024, 8, patience)
        for max_degree in (2, 3):
            yield _row("default", BITRConfig(max_degree=max_degree), 256, 1, patience)


def _row(name: str, config: BITRConfig, n: int, batch: int, patience: Patience) -> ModelRow:
    model, (x, y) = BITR(config).eval(), pair(n, batch)
    forward = no_grad(lambda: model(x, y))
    jobs: list[Job] = [unit(), forward]
    if n * batch <= 2 * LARGEST_TO_TRAIN:
        jobs.append(lambda: training_step(model, x, y))
    one, ours, *step = take_turns(jobs, patience)
    with FlopCounterMode(display=False) as counter:
        forward()
    return ModelRow(
        config=name,
        max_degree=config.max_degree,
        points=n,
        batch=batch,
        forward_units=ours.fastest / one.fastest,
        forward_ms=1e3 * ours.fastest,
        forward_median_ms=1e3 * ours.median,
        training_units=step[0].fastest / one.fastest if step else None,
        training_ms=1e3 * step[0].fastest if step else None,
        training_median_ms=1e3 * step[0].median if step else None,
        forward_gflop=counter.get_total_flops() / 1e9,
    )
