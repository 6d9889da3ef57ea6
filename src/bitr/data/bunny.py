"""Shapes cut in two by a plane: the bunny of Sec. 6.2, and generated bumpy balls and jugs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from bitr.data.poses import AssemblyPair, Pairs
from bitr.data.storage import find_below
from bitr.data.transforms import add_outliers, assembled, move_randomly, sample, split, to_unit_sphere
from bitr.errors import require
from bitr.io import Geometry, read

FILES = (
    "bunny/bunny-x.txt",
    "bunny/reconstruction/bun_zipper.ply",
    "bunny/bun_zipper.ply",
    "bunny/bun_zipper_res2.ply",
)
"""In order of preference. The authors' code reads the first, which has the vertices of the last."""
BUNNIES = {"train": 1000, "val": 100, "test": 100}
"""One shape has no others to test on; the splits differ in samples and planes."""
JUGS = {"train": 10_000, "val": 1000, "test": 1000}
"""No two pairs are of the same jug, whatever their split and seed."""
JUG_POINTS = 800
PROFILE = ((0.35, 0.55), (0.6, 0.85), (0.6, 0.9), (0.3, 0.5), (0.35, 0.55))
"""Least and greatest radius at heights 0, ¼, ½, ¾ and 1 of the body, which is between 1.5 and 2.2 tall."""
GRID = 96  # patches of a surface along each of its two parameters, for drawing points by area

Surface = Callable[[Tensor, Tensor], Tensor]  # maps two parameters, each from 0 to 1, to points


def bunny(root: Path | None) -> Geometry:
    """The whole bunny, of radius 1: a mesh, or the points that the authors' code samples from."""
    return to_unit_sphere(read(find_below(root, *FILES)[0]))


def stand_in() -> Geometry:
    """A generated shape in the bunny's place: as many points, as large, and no two sides alike."""
    points = bumpy_shape(8192, torch.Generator().manual_seed(0))
    return to_unit_sphere(Geometry(points.numpy(), name="bunny-stand-in"))


def _make_bunny(shape: Geometry, split_name: str, i: int, rng: np.random.Generator) -> AssemblyPair:
    cloud = add_outliers(sample(shape, 2048, rng), 200, rng)
    # The paper's (30%, 70%) of (X, Y). Its released code swaps them; the model cannot tell.
    source, reference = split(cloud, 0.3, rng)
    return move_randomly(assembled(source, reference, f"{split_name}/{i}"), rng)


def bumpy_shape(n: int, generator: torch.Generator) -> Float64[Tensor, "n 3"]:
    """Points on a stretched sphere of size about 1 with random bumps and dents: no two sides look alike."""
    direction, center = _normal(generator, n, 3), _normal(generator, 12, 3)  # of 12 bumps
    direction, center = (v / v.norm(dim=-1, keepdim=True) for v in (direction, center))
    height = 0.6 * _uniform(generator, len(center)) - 0.2
    width = 0.2 + 0.4 * _uniform(generator, len(center))
    nearness = torch.exp((direction @ center.T - 1) / width.square())
    stretch = 0.6 + 0.8 * _uniform(generator, 3)
    return direction * (1 + nearness @ height)[:, None] * stretch


def cut(
    points: Float64[Tensor, "n 3"], share: float, generator: torch.Generator
) -> tuple[Float64[Tensor, "p 3"], Float64[Tensor, "q 3"]]:
    """The two sides of a plane of random direction; the first has ``share`` of the points."""
    count = round(share * len(points))
    require(0 < count < len(points), f"share = {share!r} of {len(points)} points leaves an empty piece")
    order = (points @ _normal(generator, 3)).argsort()
    return points[order[:count]], points[order[count:]]


def jug(n: int, generator: torch.Generator) -> Float64[Tensor, "n 3"]:
    """Points on a random jug, uniform by area: upright along z, handle towards +x, spout towards −x."""
    radii = torch.stack([_between(low, high, generator) for low, high in PROFILE])
    height = _between(1.5, 2.2, generator)
    spout, tube = _between(0.25, 0.45, generator), _between(0.05, 0.09, generator)
    low, high = _between(0.2, 0.35, generator), _between(0.75, 0.9, generator)
    reach = _between(0.35, 0.6, generator)

    def body(a: Tensor, b: Tensor) -> Tensor:
        """Height a and angle b, both from 0 to 1; the bottom has a below 0.1."""
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

    return _draw_by_area([body, handle], n, generator)


def _profile(radii: Float64[Tensor, " 5"], up: Tensor) -> Tensor:
    """Radius at the height ``up``, from 0 to 1: smooth between the given radii."""
    place = (up * 4).clamp(0, 4 - 1e-9)
    below = place.floor().long()
    share = (1 - torch.cos(torch.pi * (place - below))) / 2
    return radii[below] * (1 - share) + radii[below + 1] * share


def _draw_by_area(surfaces: list[Surface], n: int, generator: torch.Generator) -> Float64[Tensor, "n 3"]:
    """Points on parametrised surfaces: draw a patch by its area, then a place in it."""
    edge = torch.linspace(0, 1, GRID + 1, dtype=torch.float64)
    a, b = torch.meshgrid(edge, edge, indexing="ij")
    areas = []
    for surface in surfaces:
        corner = surface(a, b)
        sides = corner[1:, :-1] - corner[:-1, :-1], corner[:-1, 1:] - corner[:-1, :-1]
        areas.append(torch.linalg.cross(*sides).norm(dim=-1))
    weights = torch.stack(areas).flatten()
    patch = torch.multinomial(weights, n, replacement=True, generator=generator)
    within = _uniform(generator, 2, n)
    row, column = (patch // GRID) % GRID, patch % GRID
    places = (row + within[0]) / GRID, (column + within[1]) / GRID
    of_each = torch.stack([surface(*places) for surface in surfaces])
    return of_each[patch // GRID**2, torch.arange(n)]


def _uniform(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def _between(low: float, high: float, generator: torch.Generator) -> Tensor:
    return low + (high - low) * _uniform(generator)


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _make_jug(split: str, i: int, rng: np.random.Generator) -> AssemblyPair:
    generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
    pieces = cut(jug(JUG_POINTS, generator), rng.uniform(0.3, 0.7), generator)
    source, reference = (
        Geometry(piece.numpy(), name=f"jug-{i}-{side}") for piece, side in zip(pieces, "ab", strict=True)
    )
    return move_randomly(assembled(source, reference, f"{split}/{i}"), rng)


def _open(name: str, split: str, root: Path | None, seed: int) -> Pairs:
    if name == "jugs":
        return Pairs(name, split, seed, partial(_make_jug, split), range(JUGS[split]))
    whole = bunny(root) if name == "bunny" else stand_in()
    return Pairs(name, split, seed, partial(_make_bunny, whole, split), range(BUNNIES[split]))


OPEN = {name: partial(_open, name) for name in ("bunny", "bunny-stand-in", "jugs")}
