"""A cloud as a sample of a surface: normals, spacing, noise and open borders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from scipy.spatial.distance import cdist
from small_gicp import KdTree

from bitr.assembly.align import (
    Numbers,
    Points,
    Poses,
    dot,
    lengths,
    moved,
    moved_back,
    root_mean_square,
    squares,
)
from bitr.io import farthest_points

NUM_NEIGHBORS = 24
FEWEST = 8
"""Points without which nothing is known of a surface."""
SPACING_RANK = 8
LEAST_SPACING = 1e-3
"""Smallest spacing, over the unit of length; clouds in which most points are copies still have one."""
OFF_CENTER, AT_BORDER = 0.38, 0.55
"""A point belongs to a border, or lies right at one, where its neighbours' mean is farther away than this,
over their spread. Neighbours that fill a disc around the point have about 0.2, and 0.75 for half a disc."""
BORDER_REACH = 4.0
"""Spacings within which border points support and smooth each other."""
ALIKE, SUPPORT = 0.3, 1
"""Cosine above which directions of border points are similar, and how many similar ones within that reach a
border point has; without them it is a stray."""
OTHER_WALL = -0.3
"""Cosine between given normals below which a point lies on the other wall."""
MOST_NOISE = 0.4
"""Spacings; what seems noisier than this has several walls within a neighbourhood."""
BARE_REACH, BARE_NEIGHBORS, BARE_RUN = 3.0, 40, 3
"""Spacings, and nearest points, around a border point within which a closed surface goes on, and how many
other bare points a bare one has within ``BORDER_REACH``: an open border is a run of them."""
LOOKS_OUT, LIES_OTHER, LIES_SAME = 0.5, -0.3, 0.7
"""Least cosine between a normal beyond a border point and the outward direction, and cosines between
normals of the other wall and of the own one."""
SPREAD = 128
"""Points by which a surface is looked at."""
BEYOND = 0.45
"""Spacings from the outermost points of a sample to the border they were sampled from."""
GAUSS_ROUNDS, GAUSS_DAMPING = 12, 1.0
"""Steps of conjugate gradients for a winding number of 1/2, and the damping over the diagonal."""
GAUSS_ROWS = 64
"""Rows of the kernel that are made at once, few enough to stay in the processor's cache."""
SHARPEN_ROUNDS, SHARPEN_NEIGHBORS, SHARPEN_FROM, SHARPEN_KEEP = 3, 16, 0.5, 0.05
"""Times that a normal is fitted again to neighbours on its own sheet, how many there are, the least cosine
between their normals, and how much a normal stays as it is, in squared spacings: a line of neighbours fixes
none."""

NO_SURFACE = f"fewer than {NUM_NEIGHBORS} points, or all at one place, show no surface"

Rows = Int64[np.ndarray, " _"]


class Sample:
    """Points with a search tree."""

    points: Points
    tree: KdTree | None

    def nearest(self, places: Float64[np.ndarray, "*g m 3"]) -> Int64[np.ndarray, "*g m"]:
        """Numbers of the points that are nearest to places."""
        assert self.tree is not None
        index, _ = self.tree.batch_knn_search(places.reshape(-1, 3), 1, torch.get_num_threads())
        return index.view(np.int64).reshape(places.shape[:-1])


@dataclass(frozen=True, eq=False)
class Border(Sample):
    """Points along the open borders of a surface, each with a frame (tangent, normal, outward)."""

    points: Points
    normals: Points
    """Unit normals of the surface; the sign means nothing."""
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

    def take(self, rows: Rows) -> Border:
        """Some of the points."""
        points = self.points[rows]
        tree = KdTree(points) if len(points) else None
        return Border(points, self.normals[rows], self.outward[rows], self.clear[rows], tree)


@dataclass(frozen=True, eq=False)
class Surface(Sample):
    """Points and what their neighbours tell. Everything turns with the points, whatever their order."""

    points: Points
    normals: Points
    """Unit normals; the sign means nothing."""
    interior: Bool[np.ndarray, " n"]
    """Not right at a border of the surface."""
    spacing: float
    noise: float
    """Standard deviation of the points across the surface, as a smooth surface explains them."""
    border: Border
    tree: KdTree

    @classmethod
    def of(cls, points: Points, normals: Points | None = None, sheet: float = OTHER_WALL) -> Surface:
        """The surface by the covariance of each point's nearest points, itself among them.

        Given normals that point outwards tell the two walls of a thin piece apart: points whose normals have
        a cosine below ``sheet`` are no neighbours. Directions are always estimated.
        """
        tree = KdTree(points)
        index, squared = tree.batch_knn_search(points, min(NUM_NEIGHBORS, len(points)))
        index = index.view(np.int64)
        around, same = points[index], np.ones(index.shape)
        if normals is not None:
            same = (np.einsum("nki,ni->nk", normals[index], normals) > sheet).astype(np.float64)
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
        border = _border(points, across, inward, off_center, around, spacing)
        noise = min(_noise(around, same, across), MOST_NOISE * spacing)
        return cls(points, across, off_center < AT_BORDER, spacing, noise, border, tree)

    @cached_property
    def spread(self) -> Int64[np.ndarray, " m"]:
        """Numbers of points that are far from each other: the first few already cover the surface."""
        return farthest_points(self.points, min(SPREAD, len(self.points)))


def outward_normals(surface: Surface) -> Points:
    """Unit normals that point out of a closed surface, with creases kept sharp; none need to be given.

    Gauss' theorem gives the first directions. Then planes are fitted to the neighbours whose normals agree:
    a plane at a crease belongs to one side of it.
    """
    points, normals = surface.points, unit_rows(surface_elements(surface))
    count = min(SHARPEN_NEIGHBORS, len(points))
    index = surface.tree.batch_knn_search(points, count)[0].view(np.int64)
    around = points[index]
    for _ in range(SHARPEN_ROUNDS):
        cosine = np.einsum("nki,ni->nk", normals[index], normals)
        weight = np.square(np.clip((cosine - SHARPEN_FROM) / (1 - SHARPEN_FROM), 0, 1))[:, :, None]
        weight /= weight.sum(1, keepdims=True)
        offset = around - (weight * around).sum(1, keepdims=True)
        spread = (weight * offset).swapaxes(1, 2) @ offset
        spread -= SHARPEN_KEEP * surface.spacing**2 * normals[:, :, None] * normals[:, None]
        axes = np.linalg.eigh(spread)[1][:, :, 0]
        normals = axes * np.where(dot(axes, normals) < 0, -1.0, 1.0)[:, None]
    return normals


def bareness(surface: Surface, outward: Points) -> float:
    """Share of points on a bare border: beyond it lies neither the other wall nor a face that looks that way.

    Creases and edges of thin plates are taken for borders as well; by the normals that point outwards a
    closed surface goes on there.
    """
    border = surface.border.take(np.flatnonzero(surface.border.clear))
    if not len(border):
        return 0.0
    count = min(BARE_NEIGHBORS, len(surface.points))
    rows, squared = surface.tree.batch_knn_search(border.points, count)
    near, normals = squared < (BARE_REACH * surface.spacing) ** 2, outward[rows.view(np.int64)]
    cosine = np.einsum("mki,mi->mk", normals, border.normals)
    sign = np.sign((cosine * (np.abs(cosine) > LIES_SAME))[:, :6].sum(1))
    other_wall = cosine * sign[:, None] < LIES_OTHER
    looks_out = np.einsum("mki,mi->mk", normals, border.outward) > LOOKS_OUT
    bare = border.take(np.flatnonzero(~(near & (other_wall | looks_out)).any(1)))
    beside = cdist(bare.points, bare.points) < BORDER_REACH * surface.spacing
    run = (beside & (bare.outward @ bare.outward.T > ALIKE)).sum(1) > BARE_RUN
    return float(run.sum()) / len(surface.points)


def surface_elements(surface: Surface) -> Points:
    r"""The smallest vectors :math:`\mu_j` at the points whose winding number is 1/2 at every point:

    :math:`\sum_j \frac{(x_j - x_i)\cdot\mu_j}{4\pi\,|x_j - x_i|^3} = \tfrac12`, by Gauss' theorem the
    area times the outward normal where the surface is closed (Lin et al., parametric Gauss reconstruction).
    Distances count as one spacing of eight neighbours at least.
    """
    x, least = surface.points, np.sqrt(SPACING_RANK) * surface.spacing
    kernel, damping = np.empty((len(x), len(x))), np.empty(len(x))
    for start in range(0, len(x), GAUSS_ROWS):
        own = slice(start, start + GAUSS_ROWS)
        distance = cdist(x[own], x)
        cube = np.maximum(distance, least)
        cube *= cube * cube
        cube *= 4 * np.pi
        distance *= np.reciprocal(cube, out=kernel[own])
        damping[own] = GAUSS_DAMPING * np.einsum("ij,ij->i", distance, distance)

    def elements(weight: Numbers) -> Points:
        """The transposed sums: Σᵢ wᵢ (xⱼ − xᵢ) kᵢⱼ."""
        sums = kernel @ (weight[:, None] * np.concatenate([np.ones((len(x), 1)), x], axis=1))
        return x * sums[:, :1] - sums[:, 1:]

    def winding(vectors: Points) -> Numbers:
        sums = kernel @ np.concatenate([dot(x, vectors)[:, None], vectors], axis=1)
        return sums[:, 0] - dot(x, sums[:, 1:])

    weight, residual = np.zeros(len(x)), np.full(len(x), 0.5)
    direction, power = np.zeros(len(x)), 1.0
    for _ in range(GAUSS_ROUNDS):
        scaled = residual / damping
        power, before = float(residual @ scaled), power
        direction = scaled + power / before * direction
        image = winding(elements(direction)) + damping * direction
        step = power / (direction @ image)
        weight, residual = weight + step * direction, residual - step * image
    return elements(weight)


def common_spacing(x: Surface, y: Surface) -> float:
    """Root mean square of both spacings."""
    return root_mean_square(x.spacing, y.spacing)


def common_noise(x: Surface, y: Surface) -> float:
    """Standard deviation of the distance between two noisy samples of one surface."""
    return float(np.hypot(x.noise, y.noise))


@dataclass(frozen=True, eq=False)
class Couples:
    """Points of both samples under motions, each with its nearest of the other: rows i of x and j of y."""

    i: Int64[np.ndarray, "*g m"]
    j: Int64[np.ndarray, "*g m"]
    p: Float64[np.ndarray, "*g m 3"]
    """The points i under the motions."""
    q: Float64[np.ndarray, "*g m 3"]
    of_x: Bool[np.ndarray, " m"]
    """True for points of x with their nearest of y, which come first."""
    share: Float64[np.ndarray, " m"]
    """Weights of equal size within a sample; either sample's have sum 1/2."""

    def as_many(self) -> Couples:
        """Those of one motion as those of a list of one."""
        return replace(self, i=self.i[None], j=self.j[None], p=self.p[None], q=self.q[None])


def couple(
    x: Sample,
    y: Sample,
    motions: Poses,
    rows_x: Rows | None = None,
    rows_y: Rows | None = None,
) -> Couples:
    """Couple the points of both samples, or some of them, with their nearest under each motion."""
    rows_x = np.arange(len(x.points)) if rows_x is None else rows_x
    rows_y = np.arange(len(y.points)) if rows_y is None else rows_y
    to_y = y.nearest(moved(x.points[rows_x], motions))
    to_x = x.nearest(moved_back(y.points[rows_y], motions))
    i = np.concatenate([np.broadcast_to(rows_x, to_y.shape), to_x], axis=-1)
    j = np.concatenate([to_y, np.broadcast_to(rows_y, to_x.shape)], axis=-1)
    counts = [len(rows_x), len(rows_y)]
    share = np.repeat([0.5 / count for count in counts], counts)
    return Couples(i, j, moved(x.points[i], motions), y.points[j], np.repeat([True, False], counts), share)


def spacing_of(squared: Float64[np.ndarray, "n k"]) -> float:
    """The spacing by squared distances of points to their nearest ones: in order, themselves first."""
    rank = min(SPACING_RANK, squared.shape[1] - 1)
    return max(float(np.sqrt(np.median(squared[:, rank]) / max(rank, 1))), LEAST_SPACING)


def unit_rows(vectors: Points) -> Points:
    """Vectors of length 1; rows of zeros stay."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)


@dataclass(frozen=True, eq=False)
class Quadrics:
    """Heights c₀ + c₁a + c₂b + c₃a² + c₄ab + c₅b² over the tangent plane of each point."""

    u: Points
    v: Points
    """Unit vectors along a and b."""
    coefficients: Float64[np.ndarray, "n 6"]
    residual: Float64[np.ndarray, "n k"]
    """Height of each neighbour above its point's quadric."""


def fit_quadrics(
    local: Float64[np.ndarray, "n k 3"], normals: Points, weight: Float64[np.ndarray, "n k"]
) -> Quadrics:
    """Fit a quadric to the neighbours of each point, given about it in a length of order 1."""
    u = unit_rows(np.cross(normals, np.eye(3)[np.abs(normals).argmin(1)]))
    v = np.cross(normals, u)
    a, b, height = (np.einsum("nki,ni->nk", local, axis) for axis in (u, v, normals))
    terms = np.stack([np.ones_like(a), a, b, a * a, a * b, b * b], axis=2)
    weighted = (terms * weight[:, :, None]).swapaxes(1, 2)
    fitted = np.linalg.solve(weighted @ terms + 1e-9 * np.eye(6), weighted @ height[:, :, None])
    return Quadrics(u, v, fitted[:, :, 0], height - (terms @ fitted)[:, :, 0])


def _noise(around: Float64[np.ndarray, "n k 3"], same: Float64[np.ndarray, "n k"], normals: Points) -> float:
    """Median residual of a quadric through each point's neighbours: curvature is no noise, edges are few."""
    if around.shape[1] < NUM_NEIGHBORS:
        return 0.0
    local = around - around.mean(1, keepdims=True)
    height = np.einsum("nki,ni->nk", local, normals)
    size = np.sqrt(np.clip(squares(local) - height**2, 0, None).mean(1)) + 1e-30
    residual = fit_quadrics(local / size[:, None, None], normals, same).residual * same
    return float(np.median(size * np.sqrt(np.square(residual).sum(1) / np.maximum(same.sum(1) - 6, 1))))


def _border(
    points: Points,
    normals: Points,
    inward: Points,
    off_center: Numbers,
    around: Float64[np.ndarray, "n k 3"],
    spacing: float,
) -> Border:
    """Border points that others support, with smoothed frames, moved out to where the surface ends."""
    rows = np.flatnonzero(off_center >= OFF_CENTER)
    out = unit_rows(-inward[rows])
    apart = lengths(points[rows][:, None] - points[rows])
    near = (apart < BORDER_REACH * spacing) & (out @ out.T > ALIKE)
    kept = near.sum(1) > SUPPORT
    if np.count_nonzero(kept) <= SUPPORT:
        none = np.empty((0, 3))
        return Border(none, none, none, np.empty(0, dtype=bool), None)
    weight = near * off_center[rows] / (1 + np.square(apart / spacing))
    sign = np.sign(normals[rows] @ normals[rows].T)
    normal, outward = unit_rows(((weight * sign) @ normals[rows])[kept]), (weight @ out)[kept]
    rows, outward = rows[kept], unit_rows(outward - dot(outward, normal)[:, None] * normal)
    ahead = around[rows] - points[rows][:, None]
    along = np.einsum("nki,ni->nk", ahead, outward)
    aside = lengths(ahead - along[:, :, None] * outward[:, None])
    farthest = np.where(aside < 1.2 * spacing, along, 0).max(1)
    places = points[rows] + (np.minimum(farthest, spacing) + BEYOND * spacing)[:, None] * outward
    return Border(places, normal, outward, off_center[rows] >= AT_BORDER, KdTree(places))
