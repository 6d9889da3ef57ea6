"""Cutting surfaces: planes, curved sheets and rough fractures, each as the solid below it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

from bitr.data.generated.solids.directions import frame_about
from bitr.data.generated.solids.kernel import Solid, solid, vertices_of
from bitr.data.generated.solids.noise import Fractal

SPACING = 0.06
"""Of the corners of a rough cutting surface, where the whole solid has size 1."""
DEEP = 9.0
"""How far below its surface a cutter ends, in radii of what is cut: farther than anything to be cut."""
WIDE = 1.35
"""Half the width of its surface, in radii of what is cut: a margin around it."""
Height = Callable[[np.ndarray], np.ndarray]
"""(n, 2) places in the plane → (n,) heights."""
PLANAR = 0.2
"""The share of cuts that are planes."""


def random_cutter(given: Solid, rng: np.random.Generator, share: float) -> Solid:
    """A solid whose upper side passes through ``given`` with about ``share`` of its corners below.

    Its upper side is a plane, or a bowed sheet with fractal relief: a height over a plane, no overhang.
    """
    points = vertices_of(given)
    # across the line between two corners: long things break across, not along
    first, second = rng.choice(len(points), 2, replace=False)
    turn = frame_about(points[first] - points[second], rng)
    center = (points.min(axis=0) + points.max(axis=0)) / 2
    local = (points - center) @ turn
    radius = float(np.linalg.norm(local, axis=1).max())
    height: Height = _flat if rng.random() < PLANAR else _relief(rng, radius)
    lift = float(np.quantile(local[:, 2] - height(local[:, :2]), share))
    cells = 1 if height is _flat else max(8, round(2 * WIDE * radius / SPACING))
    edge = np.linspace(-WIDE * radius, WIDE * radius, cells + 1)
    u, v = (grid.ravel() for grid in np.meshgrid(edge, edge, indexing="ij"))
    sheet = np.stack([u, v, lift + height(np.stack([u, v], axis=1))], axis=1)
    made = _below(sheet, cells + 1, -DEEP * radius)
    return made.transform(np.concatenate([turn, center[:, None]], axis=1)).as_original()


def _flat(at: Float64[np.ndarray, "n 2"]) -> Float64[np.ndarray, " n"]:
    return np.zeros(len(at))


def _relief(rng: np.random.Generator, radius: float) -> Height:
    """A sheet that is bowed by a random quadratic form and, but for some, rough like broken clay or stone."""
    bow = rng.normal(size=(2, 2)) * rng.uniform(0, 0.35) / radius
    longest = radius * rng.uniform(0.6, 1.6)
    octaves = max(1, int(np.log2(longest / (3 * SPACING))) + 1)  # the shortest wave spans three corners
    rough = Fractal.random(rng, 2, 1, longest, octaves, rng.uniform(0.3, 1.0))
    steep = rng.uniform(0.15, 0.9)
    rough = rough.times(steep / rough.slope(rng.uniform(-radius, radius, (500, 2))))

    def height(at: Float64[np.ndarray, "n 2"]) -> Float64[np.ndarray, " n"]:
        return np.einsum("ni,ij,nj->n", at, bow, at) + rough(at)[:, 0]

    return height


def _below(sheet: Float64[np.ndarray, "n 3"], side: int, bottom: float) -> Solid:
    """The solid from a square sheet of side × side corners down to a point far below its middle."""
    at = np.arange(side * side).reshape(side, side)
    a, b, c, d = at[:-1, :-1], at[1:, :-1], at[1:, 1:], at[:-1, 1:]
    top = np.concatenate([np.stack([a, b, c], -1), np.stack([a, c, d], -1)]).reshape(-1, 3)
    rim = np.concatenate([at[:-1, 0], at[-1, :-1], at[:0:-1, -1], at[0, :0:-1]])
    sides = np.stack([np.full(len(rim), side * side), np.roll(rim, -1), rim], -1)
    return solid(np.concatenate([sheet, [[0.0, 0.0, bottom]]]), np.concatenate([top, sides]))
