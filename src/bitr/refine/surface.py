"""A cloud as a sample of a surface: normals, borders, spacing and a tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64
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
        around = points[index.view(np.int64)]
        mean = around.mean(1)
        around -= mean[:, None]
        values, axes = np.linalg.eigh(around.swapaxes(1, 2) @ around / around.shape[1])
        normals = axes[:, :, 0]  # eigenvalues come smallest first
        off = mean - points
        off -= dot(off, normals)[:, None] * normals
        spread = np.sqrt(values.sum(1))
        rank = min(SPACING_RANK, squared.shape[1] - 1)
        spacing = np.sqrt(np.median(squared[:, rank]) / rank)
        return cls(
            points,
            normals,
            np.linalg.norm(off, axis=1) < OFF_CENTER * spread,
            max(float(spacing), LEAST_SPACING),
            tree,
        )

    def nearest(self, points: Points) -> Int64[np.ndarray, " m"]:
        """Numbers of this cloud's points that are nearest to others."""
        index, _ = self.tree.batch_knn_search(points, 1)
        return index.view(np.int64)[:, 0]


def common_spacing(x: Surface, y: Surface) -> float:
    """Of both clouds: the root mean square of their spacings."""
    return root_mean_square(x.spacing, y.spacing)
