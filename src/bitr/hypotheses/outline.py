"""A cloud as it is matched with itself: centred, of size 1, with a plane at every point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from small_gicp import KdTree

from bitr.data.poses import pose
from bitr.io import even_draw, farthest_points
from bitr.refine.frame import centroid, radius
from bitr.refine.surface import planes, spacing_of

FEWEST = 32
"""Points from which a cloud shows a shape that can be matched with itself."""
MOST, DRAWN = 1000, 16_000
"""Points that are used: the farthest ones of an even draw."""
PROBES = 240
"""Of those, points that are turned and compared with all."""
NEIGHBORS = 10
"""Of a point, itself among them: what its plane goes through."""
FLAT = 0.01
"""Spread across a plane or a line, over the largest spread, from which a cloud is more than that."""


@dataclass(frozen=True, eq=False)
class Outline:
    """Points about their centre and in a unit of length of their own; all of it turns with the cloud."""

    points: Float64[np.ndarray, "n 3"]
    middles: Float64[np.ndarray, "n 3"]
    """Means of the nearest points: a point of the plane at each point."""
    normals: Float64[np.ndarray, "n 3"]
    """Of length 1; their sign means nothing."""
    probes: Int64[np.ndarray, " m"]
    """Numbers of points that cover the cloud evenly, however many of them are taken from the first on."""
    spacing: float
    usual: float
    """What the planes of neighbours are off from a point, root mean square, in spacings: noise and edges."""
    tree: KdTree
    center: Float64[np.ndarray, " 3"]
    unit: float

    @classmethod
    def of(cls, cloud: Float64[np.ndarray, "n 3"]) -> Outline:
        """Of at least ``FEWEST`` points, not all at one place."""
        points = cloud[even_draw(len(cloud), DRAWN, 0)]
        if len(points) > MOST:
            points = points[farthest_points(points, MOST)]
        probes = farthest_points(points, min(PROBES, len(points)))
        center = centroid(points[probes])  # they lie evenly: how the cloud was sampled does not matter
        points = points - center
        unit = radius(points[probes])
        points = points / unit
        tree = KdTree(points)
        number, squared = tree.batch_knn_search(points, NEIGHBORS)
        near = number.view(np.int64)
        middles, _, normals = planes(points[near])
        spacing = spacing_of(squared)
        neighbor = near[probes, 1]
        off = np.einsum("mi,mi->m", points[probes] - middles[neighbor], normals[neighbor]) / spacing
        usual = float(np.sqrt(np.square(off).mean()))
        return cls(points, middles, normals, probes, spacing, usual, tree, center, unit)

    def nearest(self, places: Float64[np.ndarray, "c m 3"]) -> Int64[np.ndarray, "c m"]:
        """Numbers of the points that are nearest to places."""
        number, _ = self.tree.batch_knn_search(places.reshape(-1, 3), 1)
        return number.view(np.int64).reshape(places.shape[:-1])

    def off(self, places: Float64[np.ndarray, "c m 3"]) -> Float64[np.ndarray, " c"]:
        """Mean square distance to the nearest points."""
        _, squared = self.tree.batch_knn_search(places.reshape(-1, 3), 1)
        return squared.reshape(places.shape[:-1]).mean(1)

    def outside(
        self, rotations: Float64[np.ndarray, "k 3 3"], shifts: Float64[np.ndarray, "k 3"]
    ) -> Float64[np.ndarray, "k 4 4"]:
        """Motions of these coordinates in those of the cloud."""
        moved = self.unit * shifts + self.center - rotations @ self.center
        return np.stack([pose(r, t) for r, t in zip(rotations, moved, strict=True)])


def spreads(cloud: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, " 3"]:
    """Standard deviations along the principal axes, largest first, over the largest coordinate."""
    centered = cloud - centroid(cloud)
    largest = np.abs(centered).max()
    if not largest > 0:
        return np.zeros(3)
    values: Float64[np.ndarray, " 3"] = np.linalg.svd(centered / largest, compute_uv=False)
    return np.pad(values, (0, 3 - len(values))) / np.sqrt(len(cloud))
