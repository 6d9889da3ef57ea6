"""Generated jugs: a turned body, a handle and a spout, so that every piece tells how the whole stands."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float64
from torch import Tensor

PROFILE = ((0.35, 0.55), (0.6, 0.85), (0.6, 0.9), (0.3, 0.5), (0.35, 0.55))
"""Least and greatest radius at heights 0, ¼, ½, ¾ and 1 of the body, which is between 1.5 and 2.2 tall."""
Surface = Callable[[Tensor, Tensor], Tensor]
"""From two parameters, each from 0 to 1, to points."""
GRID = 96
"""Patches a surface is divided into along each of its two parameters, for drawing points by area."""


def jug(n: int, generator: torch.Generator) -> Float64[Tensor, "n 3"]:
    """Points on a random jug, uniform by area: upright along z, handle towards +x, spout towards −x."""
    radii = torch.stack([_between(low, high, generator) for low, high in PROFILE])
    height = _between(1.5, 2.2, generator)
    spout, tube = _between(0.25, 0.45, generator), _between(0.05, 0.09, generator)
    low, high = _between(0.2, 0.35, generator), _between(0.75, 0.9, generator)
    reach = _between(0.35, 0.6, generator)

    def body(a: Tensor, b: Tensor) -> Tensor:
        """Height a and angle b, both from 0 to 1; the bottom is where a is below 0.1."""
        up = ((a - 0.1) / 0.9).clamp_min(0)
        angle = 2 * torch.pi * b
        radius = _profile(radii, up) * (a / 0.1).clamp_max(1)
        to_spout = (1 - torch.cos(angle)) / 2
        radius = radius * (1 + spout * to_spout**8 * up**6)
        return torch.stack([radius * torch.cos(angle), radius * torch.sin(angle), height * up], dim=-1)

    def handle(a: Tensor, b: Tensor) -> Tensor:
        """Along (a) and around (b) a bow that leaves the body at ``low`` and comes back at ``high``."""
        along, around = torch.pi * a, 2 * torch.pi * b
        up = low + (high - low) * (1 - torch.cos(along)) / 2
        out = _profile(radii, up) + reach * torch.sin(along)
        ring = tube * torch.cos(around)
        x, z = out + ring * torch.sin(along), height * up - ring * torch.cos(along)
        return torch.stack([x, tube * torch.sin(around), z], dim=-1)

    return _by_area([body, handle], n, generator)


def _profile(radii: Float64[Tensor, " 5"], up: Tensor) -> Tensor:
    """Radius at the height ``up``, from 0 to 1: smooth between the given radii."""
    place = (up * 4).clamp(0, 4 - 1e-9)
    below = place.floor().long()
    share = (1 - torch.cos(torch.pi * (place - below))) / 2
    return radii[below] * (1 - share) + radii[below + 1] * share


def _by_area(surfaces: list[Surface], n: int, generator: torch.Generator) -> Float64[Tensor, "n 3"]:
    """Points on parametrised surfaces: a patch by its area, then a place in it."""
    edge = torch.linspace(0, 1, GRID + 1, dtype=torch.float64)
    a, b = torch.meshgrid(edge, edge, indexing="ij")
    areas = []
    for surface in surfaces:
        corner = surface(a, b)
        areas.append(
            torch.linalg.cross(corner[1:, :-1] - corner[:-1, :-1], corner[:-1, 1:] - corner[:-1, :-1]).norm(
                dim=-1
            )
        )
    weights = torch.stack(areas).flatten()
    patch = torch.multinomial(weights, n, replacement=True, generator=generator)
    within = torch.rand(2, n, generator=generator, dtype=torch.float64)
    row, column = (patch // GRID) % GRID, patch % GRID
    places = (row + within[0]) / GRID, (column + within[1]) / GRID
    of_each = torch.stack([surface(*places) for surface in surfaces])
    return of_each[patch // GRID**2, torch.arange(n)]


def _between(low: float, high: float, generator: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand((), generator=generator, dtype=torch.float64)
