"""Shapes that need no extra: asymmetric, sampled on their surface, cut in two by a plane."""

from __future__ import annotations

import torch
from jaxtyping import Float64
from torch import Tensor

from bitr.errors import InputError

NUM_BUMPS = 12


def bumpy_shape(n: int, generator: torch.Generator) -> Float64[Tensor, "n 3"]:
    """Points on a stretched sphere with bumps and dents at random places: no two sides look alike.

    Shape and sample both come from ``generator``; the size is of order 1.
    """
    direction = _normal(generator, n, 3)
    direction = direction / direction.norm(dim=-1, keepdim=True)
    center = _normal(generator, NUM_BUMPS, 3)
    center = center / center.norm(dim=-1, keepdim=True)
    height = 0.6 * torch.rand(NUM_BUMPS, generator=generator, dtype=torch.float64) - 0.2
    width = 0.2 + 0.4 * torch.rand(NUM_BUMPS, generator=generator, dtype=torch.float64)
    nearness = torch.exp((direction @ center.T - 1) / width.square())
    stretch = 0.6 + 0.8 * torch.rand(3, generator=generator, dtype=torch.float64)
    return direction * (1 + nearness @ height)[:, None] * stretch


def cut(
    points: Float64[Tensor, "n 3"], share: float, generator: torch.Generator
) -> tuple[Float64[Tensor, "p 3"], Float64[Tensor, "q 3"]]:
    """Two pieces on either side of a plane of random direction, the first with ``share`` of the points."""
    count = round(share * len(points))
    if not 0 < count < len(points):
        raise InputError(f"share = {share!r} of {len(points)} points leaves an empty piece")
    order = (points @ _normal(generator, 3)).argsort()
    return points[order[:count]], points[order[count:]]


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)
