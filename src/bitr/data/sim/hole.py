"""The hole of a mug's handle, found from how the mug looks from the side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy import ndimage

from bitr.data.sim.bodies import Body
from bitr.io import sample_surface

CELL = 0.0015
"""Of the picture from the side, in metres."""
SAMPLES = 60_000


@dataclass(frozen=True, eq=False)
class Hole:
    """A hole that a peg goes through, in the frame of its body."""

    center: Float64[np.ndarray, " 3"]
    """Of the widest bar that fits."""
    axis: Float64[np.ndarray, " 3"]
    radius: float
    """Of the widest bar that fits."""
    reach: float
    """From the centre to the farthest point of the hole."""


def find_hole(body: Body, directions: int = 18) -> Hole | None:
    """The largest hole seen along a horizontal direction, or None.

    Its axis is horizontal, with the handle to its right: (axis × up) points from the body to the handle.
    """
    points = sample_surface(body.surface, SAMPLES, seed=0).points
    best: tuple[int, Hole] | None = None
    for angle in np.linspace(0, np.pi, directions, endpoint=False):
        out = np.array([np.cos(angle), np.sin(angle), 0.0])
        found = _seen_along(points, out)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return None if best is None else best[1]


def _seen_along(
    points: Float64[np.ndarray, "n 3"], out: Float64[np.ndarray, " 3"]
) -> tuple[int, Hole] | None:
    """The largest hole in the picture of (out, up), and how many cells it has."""
    up = np.array([0.0, 0.0, 1.0])
    flat = np.stack([points @ out, points @ up], axis=1)
    low = flat.min(axis=0) - 2 * CELL
    cells = np.floor((flat - low) / CELL).astype(np.int64)
    filled = np.zeros(cells.max(axis=0) + 3, dtype=bool)
    filled[cells[:, 0], cells[:, 1]] = True
    inside = ndimage.binary_fill_holes(filled) & ~filled
    regions, count = ndimage.label(inside)
    if not count:
        return None
    sizes = np.bincount(regions.ravel())
    sizes[0] = 0
    region = regions == sizes.argmax()
    depth = ndimage.distance_transform_edt(region)
    middle = np.array(np.unravel_index(depth.argmax(), depth.shape))
    center = low + (middle + 0.5) * CELL
    if center[0] < flat[:, 0].mean():  # the handle is on the other side: mirror the picture
        out, center, flat = -out, center * (-1, 1), flat * (-1, 1)
    reach = float(np.linalg.norm(np.argwhere(region) - middle, axis=1).max() * CELL)
    axis = np.cross(up, out)
    sideways = float(np.mean((points @ axis)[flat[:, 0] > center[0]]))  # where the handle lies along the axis
    radius = float(depth.max() - 0.5) * CELL  # to the edge of the nearest filled cell, not to its middle
    hole = Hole(center[0] * out + center[1] * up + sideways * axis, axis, radius, reach)
    return int(sizes.max()), hole
