"""A closed surface of triangles, and on which side of it points are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from scipy.spatial import cKDTree

from bitr.refine.contact.signed import Signed, unit_rows
from bitr.refine.contact.triangles import nearest_on_triangles
from bitr.refine.frame import Points, dot

AT_ONCE = 512
"""Points whose candidates are held in memory together."""
ON = 1e-9
"""Of the unit of length: nearer than this to the surface, the way out is the surface's normal."""


@dataclass(frozen=True, eq=False)
class Shell:
    """Triangles that close, seen counter-clockwise from outside."""

    triangles: Float64[np.ndarray, "f 3 3"]
    normals: Float64[np.ndarray, "f 7 3"]
    """Of the parts of each triangle, numbered as in ``bitr.refine.contact.triangles``."""
    centers: cKDTree
    levels: tuple[tuple[cKDTree, Int64[np.ndarray, " _"], float], ...]
    """Triangles of about one size: a tree of their centres, their numbers, and the largest radius."""

    @classmethod
    def of(cls, points: Points, faces: Int64[np.ndarray, "f 3"]) -> Shell:
        sides = np.diff(points[faces], axis=1)
        area = np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1)
        faces = faces[area > 0]  # what has no area has no normal, and its edges are its neighbours', too
        triangles = points[faces]
        center = triangles.mean(1)
        radius = np.linalg.norm(triangles - center[:, None], axis=2).max(1)
        size = np.frexp(radius)[1]
        rows = [np.flatnonzero(size == each) for each in np.unique(size)]
        levels = tuple((cKDTree(center[own]), own, float(radius[own].max())) for own in rows)
        return cls(triangles, pseudonormals(triangles, faces), cKDTree(center), levels)

    def signed(self, points: Points) -> Signed:
        """Exact distances, negative inside, and the way to or from the nearest place, outwards."""
        return Signed.joined([self._signed(points[i : i + AT_ONCE]) for i in range(0, len(points), AT_ONCE)])

    def _signed(self, points: Points) -> Signed:
        nearest = self._nearest(points)
        place, part = nearest_on_triangles(points, self.triangles[nearest])
        normal, off = self.normals[nearest, part], points - place
        sign = np.where(dot(off, normal) < 0, -1.0, 1.0)
        distance = sign * np.linalg.norm(off, axis=1)
        outward = np.where((np.abs(distance) > ON)[:, None], sign[:, None] * off, normal)
        return Signed(distance, unit_rows(outward))

    def _nearest(self, points: Points) -> Int64[np.ndarray, " n"]:
        """The number of each point's nearest triangle.

        The one with the nearest centre gives a bound; one that is nearer has its centre within this bound and
        its own radius. Sorting triangles by size keeps large ones from making that wide for all.
        """
        best = self.centers.query(points)[1]
        bound = self._distance(points, best)
        for tree, numbers, radius in self.levels:
            found = tree.query_ball_point(points, bound + radius)
            row = np.repeat(np.arange(len(points)), [len(each) for each in found])
            candidate = numbers[np.concatenate([np.zeros(0), *found]).astype(np.int64)]
            distance = self._distance(points[row], candidate)
            order = np.lexsort((distance, row))
            order = order[np.unique(row[order], return_index=True)[1]]  # the nearest of each row
            order = order[distance[order] < bound[row[order]]]
            best[row[order]], bound[row[order]] = candidate[order], distance[order]
        return best

    def _distance(self, points: Points, numbers: Int64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
        return np.linalg.norm(points - nearest_on_triangles(points, self.triangles[numbers])[0], axis=1)


def directed_edges(faces: Int64[np.ndarray, "f 3"]) -> Int64[np.ndarray, "e 2"]:
    """ab, bc and ca of every triangle."""
    return np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)


def is_closed(faces: Int64[np.ndarray, "f 3"]) -> bool:
    """Whether there are faces, and every edge is used as often in one direction as in the other."""
    there = directed_edges(faces)
    back = there[:, ::-1]
    return len(faces) > 0 and np.array_equal(there[np.lexsort(there.T)], back[np.lexsort(back.T)])


def volume(triangles: Float64[np.ndarray, "f 3 3"]) -> float:
    """What closed triangles enclose; negative where they are seen clockwise from outside."""
    near = triangles - triangles[0, 0]  # far from the origin, large terms cancel and little is left
    return float(np.linalg.det(near).sum() / 6)


def pseudonormals(
    triangles: Float64[np.ndarray, "f 3 3"], faces: Int64[np.ndarray, "f 3"]
) -> Float64[np.ndarray, "f 7 3"]:
    """Face normals; at an edge the sum of its faces' normals, at a corner the sum weighted by their angles.

    With these the sign of (p − q)·n is right for every p and its nearest place q of the surface (Bærentzen
    and Aanæs 2005). Only the directions matter.
    """
    sides = np.roll(triangles, -1, axis=1) - triangles
    normal = unit_rows(np.cross(sides[:, 0], sides[:, 1]))
    back = -np.roll(sides, 1, axis=1)
    angles = np.arctan2(np.linalg.norm(np.cross(sides, back), axis=2), (sides * back).sum(2))
    corners = np.zeros((int(faces.max()) + 1, 3))
    np.add.at(corners, faces.ravel(), (angles[:, :, None] * normal[:, None]).reshape(-1, 3))
    _, edge = np.unique(np.sort(directed_edges(faces), axis=1), axis=0, return_inverse=True)
    edges = np.zeros((int(edge.max()) + 1, 3))
    np.add.at(edges, edge.ravel(), np.repeat(normal, 3, axis=0))
    return np.concatenate([normal[:, None], edges[edge.reshape(-1, 3)], corners[faces]], axis=1)
