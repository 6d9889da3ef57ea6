"""The chance that a point of a closed piece lies on a break, by how the surface runs around it.

A break is rougher than the old surface, ends at sharp creases, and has nothing of the piece in front of it. A
small network weighs such numbers; it was fitted on broken shapes whose joint is known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from scipy.spatial.distance import cdist
from scipy.special import expit
from small_gicp import KdTree

from bitr.assembly.align import Numbers, Points, centroid, dot, radius
from bitr.assembly.surface import spacing_of
from bitr.io import farthest_points

POINTS = 1000
"""Most points of a piece that are described; others have the chance of the nearest one on their sheet."""
REACHES = (3.0, 6.0, 12.0)
"""Spacings within which the surface around a point is described."""
NEIGHBORS, SHEET = 9, 0.6
"""Nearest points over which numbers are averaged, and the cosine between normals above which they are."""
ROUNDS = (2, 16)
"""Times that they are averaged."""
FACING, BEYOND, OTHER_WALL = 0.5, -0.3, -0.5
"""Cosines between normals below which a point lies beyond a crease, looks back, or lies on the other wall."""
IN_FRONT = 0.05
"""Part of the piece's radius from which on a point in front of a plane counts."""

Described = Float64[np.ndarray, "n f"]


def describe(points: Points, normals: Points) -> Described:
    """Numbers of each point that no motion and no scale changes; normals point outwards."""
    tree = KdTree(points)
    rows, squared = tree.batch_knn_search(points, min(NEIGHBORS, len(points)))
    rows, spacing = rows.view(np.int64), spacing_of(squared)
    p = points - centroid(points)
    size = radius(p)
    cosine = normals @ normals.T
    squares = cdist(p, p, "sqeuclidean")
    height = normals @ p.T - dot(normals, p)[:, None]
    around = [_around(p, normals, cosine, squares, reach * spacing) for reach in REACHES]
    columns = np.column_stack([*around, _across(p, normals, cosine, squares, height, spacing, size)])
    same = (np.einsum("nki,ni->nk", normals[rows], normals) > SHEET)[:, :, None]
    averaged = []
    for turn in range(1, max(ROUNDS) + 1):
        columns = (columns[rows] * same).sum(1) / same.sum(1)
        if turn in ROUNDS:
            averaged.append(columns)
    return np.concatenate(averaged, axis=1)


def _around(
    p: Points,
    normals: Points,
    cosine: Float64[np.ndarray, "n n"],
    squares: Float64[np.ndarray, "n n"],
    reach: float,
) -> Described:
    """The surface within reach: how normals scatter, how it bends, and where it ends."""
    near = np.exp(-2 / reach**2 * squares)
    own = near * np.clip(cosine, 0, 1)
    whole, total = near.sum(1), own.sum(1)
    pairs = np.triu_indices(3)
    sums = own @ np.column_stack(
        [p, p[:, pairs[0]] * p[:, pairs[1]], normals[:, pairs[0]] * normals[:, pairs[1]]]
    )
    sums /= total[:, None]
    offset = sums[:, :3] - p
    spread, scatter = np.empty((len(p), 3, 3)), np.empty((len(p), 3, 3))
    for full, part in ((spread, sums[:, 3:9]), (scatter, sums[:, 9:])):
        full[:, pairs[0], pairs[1]] = full[:, pairs[1], pairs[0]] = part
    spread -= sums[:, :3, None] * sums[:, None, :3]
    height = dot(offset, normals)
    aside = np.linalg.norm(offset - height[:, None] * normals, axis=1)
    bent = np.sqrt(np.maximum(np.einsum("ni,nij,nj->n", normals, spread, normals), 0))
    least = np.linalg.eigvalsh(scatter)[:, :2]
    beyond, back = ((near * (cosine < limit)).sum(1) / whole for limit in (FACING, BEYOND))
    turned = 1 - (own * cosine).sum(1) / total
    lengths = np.column_stack([height, bent, aside]) / reach
    return np.column_stack([turned, lengths, beyond, back, total / np.median(whole), least])


def _across(
    p: Points,
    normals: Points,
    cosine: Float64[np.ndarray, "n n"],
    squares: Float64[np.ndarray, "n n"],
    height: Float64[np.ndarray, "n n"],
    spacing: float,
    size: float,
) -> Described:
    """The piece as seen from each point: how much lies before its tangent plane, and where the wall ends."""
    count = len(p)
    ranks = count // 2, (9 * count) // 10
    sorted_ = np.partition(height, ranks, axis=1)
    beside = squares - height**2 < (2 * spacing) ** 2
    behind = np.where(beside & (cosine < OTHER_WALL) & (height < -0.3 * spacing), -height, np.inf).min(1)
    before = (height > IN_FRONT * size).mean(1)
    lengths = np.column_stack(
        [height.max(1), height.min(1), sorted_[:, ranks], np.linalg.norm(p, axis=1), dot(p, normals)]
    )
    thickness = np.minimum(behind / size, 2), np.log1p(np.minimum(behind / spacing, 30))
    return np.column_stack([before, lengths / size, *thickness, np.full(count, np.log(size / spacing))])


@dataclass(frozen=True, eq=False)
class BreakFinder:
    """A network of two hidden layers on the numbers of a point."""

    mean: Numbers
    spread: Numbers
    layers: tuple[tuple[Float64[np.ndarray, "_ _"], Numbers], ...]

    def logits(self, described: Described) -> Numbers:
        seen = np.clip((described - self.mean) / self.spread, -4, 4)
        for weight, bias in self.layers[:-1]:
            seen = seen @ weight + bias
            seen = seen * expit(seen)
        weight, bias = self.layers[-1]
        return (seen @ weight + bias)[:, 0]

    def chances(self, points: Points, normals: Points) -> Numbers:
        """The chance of each point to lie on a break."""
        rows = np.arange(len(points))
        if len(points) > POINTS:
            rows = farthest_points(points, POINTS)
        found = expit(self.logits(describe(points[rows], normals[rows])))
        return found if len(rows) == len(points) else found[_nearest_alike(points, normals, rows)]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BreakFinder:
        layers = tuple(
            (np.array(w, dtype=np.float64), np.array(b, dtype=np.float64)) for w, b in values["layers"]
        )
        return cls(np.array(values["mean"]), np.array(values["spread"]), layers)


def _nearest_alike(points: Points, normals: Points, rows: Int64[np.ndarray, " m"]) -> Int64[np.ndarray, " n"]:
    """For each point the number of the nearest described one, of those on its sheet if one is near."""
    near, squared = KdTree(points[rows]).batch_knn_search(points, min(NEIGHBORS, len(rows)))
    near = near.view(np.int64)
    other = np.einsum("nki,ni->nk", normals[rows][near], normals) < SHEET
    best = np.argmin(squared + other * (squared[:, -1:] + squared[:, :1]), axis=1)
    return near[np.arange(len(points)), best]


@cache
def break_finder() -> BreakFinder:
    """The network that comes with bitr."""
    text = (resources.files("bitr") / "weights" / "breaks.json").read_text(encoding="utf-8")
    return BreakFinder.from_dict(json.loads(text))
