"""Bodies with walls made by turning a profile about the z axis, and tubes along a curve."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from jaxtyping import Float64, Int64

from bitr.data.sim.bodies import Body
from bitr.io import Geometry

SECTORS = 24
"""Pieces that touch around the axis: a chord lies 1% of the radius inside its circle."""
AROUND = 72
"""Faces of the seen surface around the axis."""


def turned(name: str, outer: Float64[np.ndarray, "m 2"], inner: Float64[np.ndarray, "m 2"]) -> Body:
    """A vessel between two profiles of (radius, height), both from the axis to the rim.

    Corresponding points of the profiles lie on either side of the wall.
    """
    outline = np.concatenate([outer, inner[::-1]])
    surface = _swept(_ring(outline, np.linspace(0, 2 * np.pi, AROUND, endpoint=False)))
    angles = np.linspace(0, 2 * np.pi, SECTORS + 1)
    pieces = []
    for i in range(len(outer) - 1):
        quad = np.stack([outer[i], outer[i + 1], inner[i], inner[i + 1]])
        if outer[i, 0] == inner[i, 0] == 0:  # at the axis all sectors make one disc
            pieces.append(_ring(quad, angles[:-1]).reshape(-1, 3))
        else:
            pieces += [_ring(quad, angles[j : j + 2]).reshape(-1, 3) for j in range(SECTORS)]
    return Body(name, Geometry(surface[0], faces=surface[1], name=name), tuple(pieces))


def tube(
    name: str,
    line: Float64[np.ndarray, "m 3"],
    side: Float64[np.ndarray, " 3"],
    half_widths: tuple[float, float],
    around: int = 12,
) -> Body:
    """A bar of elliptic section along a curve that is perpendicular to ``side``, with flat ends.

    The first half width is within the plane of the curve, the second along ``side``.
    """
    along = np.gradient(line, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    across = np.cross(side, along)
    angles = np.linspace(0, 2 * np.pi, around, endpoint=False)
    rings = line[:, None] + (
        half_widths[0] * np.cos(angles)[:, None] * across[:, None]
        + half_widths[1] * np.sin(angles)[:, None] * side
    )
    ends = line[[0, -1], None].repeat(around, axis=1)
    surface = _swept(np.concatenate([ends[:1], rings, ends[1:]]).swapaxes(0, 1))
    pieces = tuple(np.concatenate([a, b]) for a, b in pairwise(rings))
    return Body(name, Geometry(surface[0], faces=surface[1], name=name), pieces)


def _ring(
    profile: Float64[np.ndarray, "m 2"], angles: Float64[np.ndarray, " a"]
) -> Float64[np.ndarray, "a m 3"]:
    """The profile at each of the angles about the z axis."""
    radius, height = profile[:, 0], profile[:, 1]
    x, y = np.cos(angles)[:, None] * radius, np.sin(angles)[:, None] * radius
    return np.stack([x, y, np.broadcast_to(height, x.shape)], axis=-1)


def _swept(
    lines: Float64[np.ndarray, "a m 3"],
) -> tuple[Float64[np.ndarray, "p 3"], Int64[np.ndarray, "f 3"]]:
    """The surface through lines side by side, the last beside the first, without faces of no area."""
    a, m = lines.shape[:2]
    here = np.arange(a * m).reshape(a, m)
    following = np.roll(here, -1, axis=0)
    p, q, r, s = (grid.ravel() for grid in (here[:, :-1], following[:, :-1], following[:, 1:], here[:, 1:]))
    points = lines.reshape(-1, 3)
    faces = np.concatenate([np.stack([p, q, r], axis=1), np.stack([p, r, s], axis=1)])
    edges = points[faces[:, 1]] - points[faces[:, 0]], points[faces[:, 2]] - points[faces[:, 0]]
    return points, faces[np.linalg.norm(np.cross(*edges), axis=1) > 1e-12]
