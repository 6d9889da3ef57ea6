"""Which share of two pieces lies on each other, and whether that is enough to tell a pose."""

from __future__ import annotations

import numpy as np

from bitr.refine.frame import Matrix, dot
from bitr.refine.matches import partners
from bitr.refine.surface import Surface, common_spacing

ACROSS = 0.5
"""Spacings that a point may be off the other surface."""
NEAR = 2.0
"""Spacings that its nearest point there may be away."""
ALIKE = 0.85
"""What |n · n'| must at least be: 32 degrees."""
LEAST = 0.2
"""Overlap from which a refined pose is taken. Two halves that touch along a cut, once a search has pulled
them over each other, stay below it; see docs/refinement.md."""


def overlap(x: Surface, y: Surface, ref_from_src: Matrix) -> float:
    """The larger of both pieces' shares of points that lie on the other's surface.

    Such a point has its nearest point away from the other surface's borders, both normals agree, and it is
    off that surface by less than half a spacing. Points beyond a border have border points nearest: pieces
    that only touch hardly overlap. Unchanged by a swap, by motions and by scale.
    """
    found, spacing = partners(x, y, ref_from_src), common_spacing(x, y)
    gap = found.p - found.q
    on = (
        found.inside
        & (found.alike > ALIKE)
        & (np.abs(dot(gap, found.normal)) < ACROSS * spacing)
        & (np.linalg.norm(gap, axis=1) < NEAR * spacing)
    )
    return float(max(on[: len(x.points)].mean(), on[len(x.points) :].mean()))
