"""Points with normals that point outwards, and on which side of their surface others are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from bitr.refine.contact.signed import Signed, unit_rows
from bitr.refine.frame import Points, dot
from bitr.refine.surface import Surface

NEIGHBORS = 12
ALONG = 1.5
"""Spacings that a point may be beside its nearest one: farther, it is beyond a border of the surface."""
CONFUSED = 0.1
"""Share of points whose nearest one faces the other way, from which on the normals tell no side."""


@dataclass(frozen=True, eq=False)
class OrientedPoints:
    """A sample of a surface whose outside is known."""

    surface: Surface
    normals: Points
    reach: Float64[np.ndarray, " n"]
    """How far the surface itself goes behind the plane of each point."""

    def signed(self, points: Points) -> Signed:
        r"""The largest of :math:`n_i\cdot(p - q_i)` over the twelve nearest points.

        A place is inside only if it is behind all planes around: so an edge, where the nearest point may be
        on either face, and scatter make no false depth. Exact where the surface is convex, too shallow by
        what it curves away within a few spacings where it is not. Nothing is known beyond a border, nor
        behind all of the surface: a sheet that is flat has no inside.
        """
        index, _ = self.surface.tree.batch_knn_search(points, min(NEIGHBORS, len(self.normals)))
        index = index.view(np.int64)
        across = np.einsum("nki,nki->nk", self.normals[index], points[:, None] - self.surface.points[index])
        largest = np.argmax(across, axis=1)
        distance = np.take_along_axis(across, largest[:, None], axis=1)[:, 0]
        plane = np.take_along_axis(index, largest[:, None], axis=1)[:, 0]
        away, normal = points - self.surface.points[index[:, 0]], self.normals[index[:, 0]]
        beside = np.linalg.norm(away - dot(away, normal)[:, None] * normal, axis=1)
        known = (beside <= ALONG * self.surface.spacing) & self.surface.interior[index[:, 0]]
        known &= distance >= -self.reach[plane]
        return Signed(np.where(known, distance, np.inf), self.normals[plane])


def oriented(surface: Surface, normals: Points) -> OrientedPoints | None:
    """None where neighbours do not face the same way: signs are random, or a wall is too thin."""
    normals = unit_rows(normals)
    nearest = surface.tree.batch_knn_search(surface.points, 2)[0].view(np.int64)[:, 1]
    confused = np.mean(dot(normals, normals[nearest]) <= 0)
    if confused >= CONFUSED:
        return None
    reach = dot(normals, surface.points) - (normals @ surface.points.T).min(1)
    return OrientedPoints(surface, normals, reach)
