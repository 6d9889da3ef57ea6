"""A pair in a frame and a unit of its own: no method meets lengths that it was not made for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.spatial import cKDTree

from bitr.data import AssemblyPair
from bitr.data.piece import as_piece
from bitr.data.poses import nearest_pose, pose
from bitr.errors import InputError

BUDGET = 5000
"""Points of a cloud that a classical method sees; a mesh is sampled first."""
NUM_NEIGHBORS = 16
LEAST_POINTS, LEAST_EXTENT = 10, 2.0
"""What the libraries need, the extent in spacings: one that is left with a single point ends the process."""
SEED = 0

Points = Float64[np.ndarray, "_ 3"]


@dataclass(frozen=True)
class Local:
    """Points of both pieces, each relative to a center, over a common unit of length."""

    x: Points
    y: Points
    x_center: Float64[np.ndarray, " 3"]
    y_center: Float64[np.ndarray, " 3"]
    unit: float
    id: str

    def pose(self, y_from_x: Float64[np.ndarray, "4 4"]) -> Float64[np.ndarray, "4 4"]:
        """``ref_from_src`` of an answer in this frame, its rotation projected; what is no motion raises."""
        near = nearest_pose(y_from_x, self.id)
        turn = near[:3, :3]
        return pose(turn, self.y_center + self.unit * near[:3, 3] - turn @ self.x_center)


def in_place(pair: AssemblyPair, budget: int, spacing: float = 1.0) -> Local:
    """Both relative to one center, so that the identity here is the identity of the files.

    The unit makes the larger of the clouds' spacings ``spacing``: the answer does not depend on a scale.
    """
    x, y = points(pair, budget)
    center = (x.mean(0) + y.mean(0)) / 2
    return _local(pair, x, y, center, center, spacing)


def centered(pair: AssemblyPair, budget: int, spacing: float = 1.0) -> Local:
    """Each relative to its own centroid: the identity here brings the centroids together, no more."""
    x, y = points(pair, budget)
    return _local(pair, x, y, x.mean(0), y.mean(0), spacing)


def points(pair: AssemblyPair, budget: int) -> tuple[Points, Points]:
    """The points of source and reference that are seen, at most ``budget`` of each."""
    x, y = (as_piece(side, budget, SEED).seen.points for side in (pair.source, pair.reference))
    return x, y


def spacing_of(cloud: Points) -> float:
    """Side of the square that a point has to itself on the surface, by the median over the points."""
    count = min(NUM_NEIGHBORS, len(cloud) - 1)
    if not count:
        return 0.0
    farthest = cKDTree(cloud).query(cloud, k=count + 1)[0][:, -1]
    return float(np.median(farthest) * np.sqrt(np.pi / count))


def _local(
    pair: AssemblyPair,
    x: Points,
    y: Points,
    x_center: Float64[np.ndarray, " 3"],
    y_center: Float64[np.ndarray, " 3"],
    spacing: float,
) -> Local:
    x, y = x - x_center, y - y_center
    widest = max(spacing_of(x), spacing_of(y))
    for side, cloud in (("source", x), ("reference", y)):
        extent = float(np.ptp(cloud, axis=0).max())
        if len(cloud) < LEAST_POINTS or not extent > LEAST_EXTENT * widest:
            raise InputError(
                f"{pair.id}: the {side} has {len(cloud)} points and is {extent:.3g} long, expected at least "
                f"{LEAST_POINTS}, and more than {LEAST_EXTENT:g} times the spacing of {widest:.3g}"
            )
    unit = widest / spacing
    return Local(x / unit, y / unit, x_center, y_center, unit, pair.id)
