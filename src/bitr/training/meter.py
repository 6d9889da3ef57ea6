"""Means and times since the last record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from bitr.training.trainer import Step


class Meter:
    """Adds up steps; times are wall-clock seconds. ``kept`` is what a meter of the same run had counted."""

    def __init__(self, kept: Sequence[float] = ()) -> None:
        self.steps, self.taken, self.waited, seconds, *sums = kept or [0.0] * 9
        self.start = time.perf_counter() - seconds
        self.sums = torch.tensor(sums, dtype=torch.float64)

    def kept(self) -> list[float]:
        """All that has been counted: with it a run that goes on writes the records it would have written."""
        return [self.steps, self.taken, self.waited, self.seconds, *self.sums.tolist()]

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time in here counts as waiting for pairs."""
        start = time.perf_counter()
        yield
        self.waited += time.perf_counter() - start

    def add(self, step: Step) -> None:
        self.steps += 1
        if step.taken:
            self.taken += 1
            self.sums += torch.tensor([*step.means.tolist(), step.gradient_norm], dtype=torch.float64)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def means(self) -> dict[str, float]:
        """Of the steps that were taken, by the names that a record has; NaN where none was."""
        loss, angle, displacement, nearest, norm = (self.sums / self.taken).tolist()
        return {
            "loss": loss,
            "rotation_deg": angle,
            "displacement": displacement,
            "nearest_deg": nearest,
            "gradient_norm": norm,
            "waiting": self.waited / self.seconds,
        }
