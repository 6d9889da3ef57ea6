"""How the features of a stage have to change when the pair is moved or swapped.

A scale changes no feature: inside, a pair is in a unit of length of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from bitr.groups import Field, swap, turn


@dataclass(frozen=True)
class OfClouds:
    """Features of each cloud, (n, m, c) for each degree (p, 0): X's turn with r₁, Y's with r₂."""

    x: Field
    y: Field

    def moved(self, r1: Float[Tensor, "3 3"], r2: Float[Tensor, "3 3"]) -> OfClouds:
        return OfClouds(turn(self.x, r1, r1), turn(self.y, r2, r2))

    def swapped(self) -> OfClouds:
        return OfClouds(self.y, self.x)

    def parts(self) -> dict[str, Tensor]:
        return {
            f"{name} {degree}": values
            for name, field in (("x", self.x), ("y", self.y))
            for degree, values in field.items()
        }


@dataclass(frozen=True)
class OfMerged:
    """Features of the merged cloud: degree (p, q) turns as ρ_p(r₁) F ρ_q(r₂)ᵀ, a swap transposes it."""

    field: Field

    def moved(self, r1: Float[Tensor, "3 3"], r2: Float[Tensor, "3 3"]) -> OfMerged:
        return OfMerged(turn(self.field, r1, r2))

    def swapped(self) -> OfMerged:
        return OfMerged(swap(self.field))

    def parts(self) -> dict[str, Tensor]:
        return {str(degree): values for degree, values in self.field.items()}


Features = OfClouds | OfMerged


def feature_gap(actual: Features, expected: Features) -> float:
    """‖F − F'‖ / ‖F'‖ over all points, degrees and channels; infinite where they cannot be compared."""
    a, b = actual.parts(), expected.parts()
    if {key: part.shape for key, part in a.items()} != {key: part.shape for key, part in b.items()}:
        return math.inf
    difference = sum((a[key] - b[key]).square().sum() for key in b)
    size = sum(part.square().sum() for part in b.values())
    return float(torch.as_tensor(difference).sqrt() / torch.as_tensor(size).sqrt().clamp_min(1e-300))
