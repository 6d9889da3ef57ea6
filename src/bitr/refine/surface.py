"""A cloud as a sample of a surface: normals, borders, spacing and a tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64
from small_gicp import KdTree

from bitr.refine.frame import Points, dot, root_mean_square

NUM_NEIGHBORS = 16
OFF_CENTER = 0.6
"""How far a point may be from the mean of its neighbours, over their spread, without being at a border. When
they fill a disc around it this is about 0.2, and 0.75 when they fill half a disc."""
SPACING_RANK = 8
LEAST_SPACING = 1e-3
"""Of the unit of length; clouds in which most points have copies still get a length."""


@dataclass(frozen=True, eq=False)
class Surface:
    """Points and what their neighbours tell; all of it turns with the points, whatever their order."""

    points: Points
    normals: Points
    """Of length 1; their sign means nothing."""
    interior: Bool[np.ndarray, " n"]
    """Not at a border of the surface."""
    spacing: float
    tree: KdTree

    @classmethod
    def of(cls, points: Points) -> Surface:
        """From the covariance of each point's 16 nearest points, itself among them."""
        tree = KdTree(points)
        index, squared = tree.batch_knn_search(points, min(NUM_NEIGHBORS, len(points)))
        mean, spread, normals = planes(points[index.view(np.int64)])
        off = mean - points
        off -= dot(off, normals)[:, None] * normals
        interior = np.linalg.norm(off, axis=1) < OFF_CENTER * spread
        return cls(points, normals, interior, spacing_of(squared), tree)

    def nearest(self, points: Points) -> Int64[np.ndarray, " m"]:
        """Numbers of this cloud's points that are nearest to others."""
        index, _ = self.tree.batch_knn_search(points, 1)
        return index.view(np.int64)[:, 0]


def planes(around: Float64[np.ndarray, "n k 3"]) -> tuple[Points, Float64[np.ndarray, " n"], Points]:
    """Mean, root mean square radius and normal of each point's neighbours."""
    mean = around.mean(1)
    offset = around - mean[:, None]
    values, axes = np.linalg.eigh(offset.swapaxes(1, 2) @ offset / offset.shape[1])
    return mean, np.sqrt(values.sum(1)), axes[:, :, 0]  # eigenvalues come smallest first


def spacing_of(squared: Float64[np.ndarray, "n k"]) -> float:
    """Of a surface, from squared distances of points to their nearest ones: in order, themselves first."""
    rank = min(SPACING_RANK, squared.shape[1] - 1)
    return max(float(np.sqrt(np.median(squared[:, rank]) / rank)), LEAST_SPACING)


def common_spacing(x: Surface, y: Surface) -> float:
    """Of both clouds: the root mean square of their spacings."""
    return root_mean_square(x.spacing, y.spacing)
