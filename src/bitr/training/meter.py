"""Means and times since the last record."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor


class Meter:
    """Adds up steps; times are wall-clock seconds."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.waited, self.steps = 0.0, 0
        self.sums = torch.zeros(4, dtype=torch.float64)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time in here counts as waiting for pairs."""
        start = time.perf_counter()
        yield
        self.waited += time.perf_counter() - start

    def add(self, means: Float[Tensor, " 3"], gradient_norm: float) -> None:
        self.sums += torch.tensor([*means.tolist(), gradient_norm], dtype=torch.float64)
        self.steps += 1

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def means(self) -> dict[str, float]:
        """By the names that a record has."""
        loss, angle, displacement, norm = (self.sums / max(1, self.steps)).tolist()
        return {
            "loss": loss,
            "rotation_deg": angle,
            "displacement": displacement,
            "gradient_norm": norm,
            "waiting": self.waited / self.seconds,
        }
