"""Random solids: one of the families, brought to size 1, with fractal detail."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

from bitr.data.generated.solids.implicit import blob
from bitr.data.generated.solids.kernel import Solid, largest_part, mapped, vertices_of
from bitr.data.generated.solids.noise import Fractal
from bitr.data.generated.solids.parts import craft, furniture, machine_part, stone, tool
from bitr.data.generated.solids.superquadrics import superquadric
from bitr.data.generated.solids.sweeps import sweep
from bitr.data.generated.solids.vessels import vessel

FAMILIES: dict[str, tuple[float, Callable[[np.random.Generator], Solid]]] = {
    "vessel": (0.28, vessel),
    "blob": (0.2, blob),
    "machine part": (0.14, machine_part),
    "superquadric": (0.08, superquadric),
    "sweep": (0.08, sweep),
    "craft": (0.08, craft),
    "furniture": (0.06, furniture),
    "tool": (0.04, tool),
    "stone": (0.04, stone),
}
"""Each with its share of all solids."""
EDGE = 0.1
"""Longest edge of a face, before the detail is added, where the largest radius is 1."""
STRETCH = 0.55
"""How much detail may stretch or squeeze: below 1 it cannot fold a surface over."""


def random_solid(rng: np.random.Generator) -> tuple[str, Solid]:
    """The name of its family, and a connected solid that fits the unit ball around the mean of its corners.

    All of them carry detail, so that none is exactly symmetric and a pose is determined.
    """
    names, shares = list(FAMILIES), np.array([share for share, _ in FAMILIES.values()])
    family = names[int(rng.choice(len(names), p=shares / shares.sum()))]
    plain = _at_unit_size(largest_part(FAMILIES[family][1](rng)))
    fine = plain.simplify(0.003).refine_to_length(EDGE)
    return family, _at_unit_size(mapped(fine, with_detail(vertices_of(fine), rng)))


def with_detail(points: Float64[np.ndarray, "v 3"], rng: np.random.Generator) -> Float64[np.ndarray, "v 3"]:
    """The points moved by a fractal field: long waves bend the whole, short ones roughen its surface.

    At the points the field stretches by at most ``STRETCH``. One that stretches by less than 1 takes no two
    points to one under x ↦ x + field(x): walls stay walls, and the surface does not cross itself.
    """
    octaves = int(rng.integers(1, 5))
    field = Fractal.random(rng, 3, 3, rng.uniform(1.2, 3.0), octaves, rng.uniform(0.05, 0.8))
    much = STRETCH * rng.uniform(0.45, 1.0)
    return points + field.times(much / field.slope(points))(points)


def _at_unit_size(given: Solid) -> Solid:
    """Centred on the mean of its corners, the farthest of them at distance 1."""
    points = vertices_of(given)
    points -= points.mean(axis=0)
    return mapped(given, points / np.linalg.norm(points, axis=1).max())
