"""Where each cloud stands when the points of all clouds are in one row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Clouds:
    """Batches of clouds, one after the other: each has b clouds of n points. ``mask`` is False on padding."""

    shapes: tuple[tuple[int, int], ...]
    mask: Bool[Tensor, " N"] | None = None

    @classmethod
    def of(cls, points: list[Float[Tensor, "_ _ d"]], masks: list[Bool[Tensor, "_ _"] | None]) -> Clouds:
        shapes = tuple((batch.shape[0], batch.shape[1]) for batch in points)
        if all(mask is None for mask in masks):
            return cls(shapes)
        full = [
            batch.new_ones(batch.shape[:2], dtype=torch.bool) if mask is None else mask
            for batch, mask in zip(points, masks, strict=True)
        ]
        return cls(shapes, torch.cat([mask.flatten() for mask in full]))

    def split(self, values: Float[Tensor, "N ..."]) -> list[Tensor]:
        """Back to one (b, n, …) tensor per batch."""
        parts = values.split([b * n for b, n in self.shapes])
        return [part.unflatten(0, shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def means(self, values: Float[Tensor, "N ..."]) -> Float[Tensor, "C ..."]:
        """Mean over the real points of each cloud."""
        if self.mask is None:
            return torch.cat([part.mean(1) for part in self.split(values)])
        weight = self.mask.to(values)
        sums = [part.sum(1) for part in self.split(values * _as_wide(weight, values))]
        counts = torch.cat([part.sum(1) for part in self.split(weight)])
        return torch.cat(sums) / _as_wide(counts, values)

    def spread(self, of_clouds: Float[Tensor, "C ..."]) -> Float[Tensor, "N ..."]:
        """A value per cloud, at each of its points."""
        parts = of_clouds.split([b for b, _ in self.shapes])
        spread = [
            part[:, None].expand(-1, n, *part.shape[1:]).flatten(0, 1)
            for part, (_, n) in zip(parts, self.shapes, strict=True)
        ]
        return torch.cat(spread) if len(spread) > 1 else spread[0]


def _as_wide(weight: Tensor, values: Tensor) -> Tensor:
    return weight.reshape(-1, *([1] * (values.dim() - 1)))
