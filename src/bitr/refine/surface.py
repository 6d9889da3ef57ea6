"""A cloud as a sample of a surface: normals, spacing, noise and open borders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float64, Int64
from small_gicp import KdTree

from bitr.io.subsample import farthest_points
from bitr.refine.frame import Points, dot, root_mean_square

NUM_NEIGHBORS = 24
FEWEST = 8
"""Points without which nothing is known of a surface."""
SPACING_RANK = 8
LEAST_SPACING = 1e-3
"""Of the unit of length; clouds in which most points are copies still have a spacing."""
OFF_CENTER, AT_BORDER = 0.38, 0.55
"""A point belongs to a border, or lies right at one, where its neighbours' mean is farther away than this,
over their spread. Neighbours that fill a disc around the point have about 0.2, and 0.75 for half a disc."""
BORDER_REACH = 4.0
"""Spacings within which border points support and smooth each other."""
SUPPORT = 1
"""Border points within that reach, with a similar direction, without which a border point is a stray."""
OTHER_WALL = -0.3
"""Cosine between given normals below which a point lies on the other wall."""
MOST_NOISE = 0.4
"""Spacings; what seems noisier than this has several walls within a neighbourhood."""
SPREAD = 128
"""Points by which a surface is looked at."""
BEYOND = 0.45
"""Spacings from the outermost points of a sample to the border they were sampled from."""


@dataclass(frozen=True, eq=False)
class Border:
    """Points along the open borders of a surface, each with a frame (tangent, normal, outward)."""

    points: Points
    normals: Points
    """Of the surface, of length 1; the sign means nothing."""
    outward: Points
    """In the surface, across the border, away from the surface."""
    clear: Bool[np.ndarray, " b"]
    """Right at a border beyond doubt: creases and thin parts are taken for borders more easily."""
    tree: KdTree | None
    """None where there are no border points."""

    def __len__(self) -> int:
        return len(self.points)

    @property
    def tangents(self) -> Points:
        return np.cross(self.normals, self.outward)


@dataclass(frozen=True, eq=False)
class Surface:
    """Points and what their neighbours tell. Everything turns with the points, whatever their order."""

    points: Points
    normals: Points
    """Of length 1; the sign means nothing."""
    interior: Bool[np.ndarray, " n"]
    """Not right at a border of the surface."""
    spacing: float
    noise: float
    """Standard deviation of the points across the surface, as a smooth surface explains them."""
    border: Border
    tree: KdTree

    @classmethod
    def of(cls, points: Points, normals: Points | None = None) -> Surface:
        """From the covariance of each point's nearest points, itself among them.

        Given normals that point outwards tell the two walls of a thin piece apart; what lies on the other
        wall is no neighbour. Directions are always estimated.
        """
        tree = KdTree(points)
        index, squared = tree.batch_knn_search(points, min(NUM_NEIGHBORS, len(points)))
        index = index.view(np.int64)
        around, same = points[index], np.ones(index.shape)
        if normals is not None:
            same = (np.einsum("nki,ni->nk", normals[index], normals) > OTHER_WALL).astype(np.float64)
        count = same.sum(1)
        mean = np.einsum("nk,nki->ni", same, around) / count[:, None]
        offset = (around - mean[:, None]) * same[:, :, None]
        values, axes = np.linalg.eigh(offset.swapaxes(1, 2) @ offset / count[:, None, None])
        across, spread = axes[:, :, 0], np.sqrt(np.maximum(values[:, 1] + values[:, 2], 1e-30))
        spacing = spacing_of(squared)
        inward = mean - points
        inward -= dot(inward, across)[:, None] * across
        off_center = np.linalg.norm(inward, axis=1) / spread
        off_center[count < FEWEST] = 0
        interior = off_center < AT_BORDER
        border = _border(points, across, inward, off_center, around, spacing)
        noise = min(_noise(around, same, across), MOST_NOISE * spacing)
        return cls(points, across, interior, spacing, noise, border, tree)

    @cached_property
    def spread(self) -> Int64[np.ndarray, " m"]:
        """Numbers of points that are far from each other: the first few already cover the surface."""
        return farthest_points(self.points, min(SPREAD, len(self.points)))

    def nearest(self, points: Points) -> Int64[np.ndarray, " m"]:
        """Numbers of this cloud's points that are nearest to others."""
        index, _ = self.tree.batch_knn_search(points, 1)
        return index.view(np.int64)[:, 0]


def common_spacing(x: Surface, y: Surface) -> float:
    """Root mean square of both spacings."""
    return root_mean_square(x.spacing, y.spacing)


def common_noise(x: Surface, y: Surface) -> float:
    """Standard deviation of the distance between two noisy samples of one surface."""
    return float(np.hypot(x.noise, y.noise))


def planes(around: Float64[np.ndarray, "n k 3"]) -> tuple[Points, Float64[np.ndarray, " n"], Points]:
    """Mean, root mean square radius and normal of each point's neighbours."""
    mean = around.mean(1)
    offset = around - mean[:, None]
    values, axes = np.linalg.eigh(offset.swapaxes(1, 2) @ offset / offset.shape[1])
    return mean, np.sqrt(values.sum(1)), axes[:, :, 0]  # eigenvalues come smallest first


def spacing_of(squared: Float64[np.ndarray, "n k"]) -> float:
    """From squared distances of points to their nearest ones: in order, themselves first."""
    rank = min(SPACING_RANK, squared.shape[1] - 1)
    return max(float(np.sqrt(np.median(squared[:, rank]) / max(rank, 1))), LEAST_SPACING)


def _noise(around: Float64[np.ndarray, "n k 3"], same: Float64[np.ndarray, "n k"], normals: Points) -> float:
    """Median residual of a quadric through each point's neighbours: curvature is no noise, edges are few."""
    if around.shape[1] < NUM_NEIGHBORS:
        return 0.0
    local = around - around.mean(1, keepdims=True)
    helper = np.eye(3)[np.abs(normals).argmin(1)]
    u = np.cross(normals, helper)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    v = np.cross(normals, u)
    a, b, h = (np.einsum("nki,ni->nk", local, axis) for axis in (u, v, normals))
    size = np.sqrt((a**2 + b**2).mean(1, keepdims=True)) + 1e-30
    a, b = a / size, b / size
    terms = np.stack([np.ones_like(a), a, b, a * a, a * b, b * b], axis=2) * same[:, :, None]
    normal = terms.swapaxes(1, 2) @ terms + 1e-9 * np.eye(6)
    fitted = np.linalg.solve(normal, terms.swapaxes(1, 2) @ h[:, :, None])
    residual = (h - (terms @ fitted)[:, :, 0]) * same
    return float(np.median(np.sqrt(np.square(residual).sum(1) / np.maximum(same.sum(1) - 6, 1))))


def _border(
    points: Points,
    normals: Points,
    inward: Points,
    off_center: Float64[np.ndarray, " n"],
    around: Float64[np.ndarray, "n k 3"],
    spacing: float,
) -> Border:
    """Border points that others support, with smoothed frames, moved out to where the surface ends."""
    rows = np.flatnonzero(off_center >= OFF_CENTER)
    none = np.empty((0, 3))
    if len(rows) <= SUPPORT:
        return Border(none, none, none, np.empty(0, dtype=bool), None)
    out = -inward[rows] / np.linalg.norm(inward[rows], axis=1, keepdims=True)
    apart = np.linalg.norm(points[rows][:, None] - points[rows], axis=2)
    near = (apart < BORDER_REACH * spacing) & (out @ out.T > 0.3)
    weight = near * off_center[rows] / (1 + np.square(apart / spacing))
    sign = np.sign(normals[rows] @ normals[rows].T)
    normal, outward = (weight * sign) @ normals[rows], weight @ out
    kept = near.sum(1) > SUPPORT
    if np.count_nonzero(kept) <= SUPPORT:
        return Border(none, none, none, np.empty(0, dtype=bool), None)
    rows, normal, outward = rows[kept], normal[kept], outward[kept]
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    outward -= dot(outward, normal)[:, None] * normal
    outward /= np.linalg.norm(outward, axis=1, keepdims=True)
    ahead = around[rows] - points[rows][:, None]
    along = np.einsum("nki,ni->nk", ahead, outward)
    aside = np.linalg.norm(ahead - along[:, :, None] * outward[:, None], axis=2)
    farthest = np.where(aside < 1.2 * spacing, along, 0).max(1)
    places = points[rows] + (np.minimum(farthest, spacing) + BEYOND * spacing)[:, None] * outward
    return Border(places, normal, outward, off_center[rows] >= AT_BORDER, KdTree(places))
