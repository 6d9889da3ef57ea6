"""Samples of surfaces and clouds that move with the shape, and normals of clouds."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from scipy.spatial import cKDTree

from bitr.errors import InputError
from bitr.io.geometry import Geometry, area_vectors

CANDIDATES = 64
"""Points considered for each point that is picked; larger clouds are thinned to these by an even draw."""
TIE = 1e-9
"""Squared distances that differ by less, relative, count as equal: rounding must not decide on grids."""
NUM_NEIGHBORS = 16  # neighbours of a point that determine its normal


def as_points(geometry: Geometry, n: int, seed: int) -> Geometry:
    """A point cloud as it is; a mesh as ``n`` points of its surface."""
    return geometry if geometry.faces is None else sample_surface(geometry, n, seed)


def sample_surface(geometry: Geometry, n: int, seed: int) -> Geometry:
    """``n`` points of a mesh, uniform by area.

    The sample of a moved or scaled mesh is the moved or scaled sample: same faces, same places in them.
    Normals and colours are interpolated between the corners; without normals the faces' own are taken.
    """
    if geometry.faces is None or not len(geometry.faces):
        raise InputError(f"{geometry.name}: no faces to sample, expected a mesh")
    if n < 1:
        raise InputError(f"{geometry.name}: cannot sample {n} points, expected 1 or more")
    rng = np.random.default_rng(seed)
    vectors = area_vectors(geometry.points, geometry.faces)
    chosen = _choose(np.linalg.norm(vectors, axis=1), n, rng)
    faces = geometry.faces[chosen]
    u, v = np.sqrt(rng.random(n)), rng.random(n)
    weights = np.stack([1 - u, u * (1 - v), u * v], axis=1)[:, :, None]

    def blend(values: Float64[np.ndarray, "m 3"]) -> Float64[np.ndarray, "n 3"]:
        return (values[faces] * weights).sum(axis=1)

    # from the first corner, so that far from the origin the differences keep their digits
    a, b, c = (geometry.points[faces[:, i]] for i in range(3))
    points = a + weights[:, 1] * (b - a) + weights[:, 2] * (c - a)
    normals = vectors[chosen]
    if geometry.normals is not None:
        smooth = blend(geometry.normals)
        known = np.linalg.norm(smooth, axis=1, keepdims=True) > 1e-6  # opposite normals may cancel
        normals = np.where(known, smooth, normals)
    normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    colors = None if geometry.colors is None else np.clip(blend(geometry.colors), 0.0, 1.0)
    return Geometry(points, normals, colors, None, geometry.name, geometry.warnings)


def _choose(areas: Float64[np.ndarray, " f"], n: int, rng: np.random.Generator) -> Int64[np.ndarray, " n"]:
    """Indices of ``n`` faces, drawn with probability proportional to area, by descending a tree of halves.

    A search in the cumulative areas adds up the rounding of all of them, so that a mesh that was moved and
    stored in float32 would now and then choose another face. Here each step compares two neighbouring sums.
    """
    levels = [np.concatenate([areas, np.zeros((1 << (len(areas) - 1).bit_length()) - len(areas))])]
    while len(levels[-1]) > 1:
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
    chosen = np.zeros(n, dtype=np.int64)
    for level in levels[-2::-1]:
        left, right = level[2 * chosen], level[2 * chosen + 1]
        chosen = 2 * chosen + ((rng.random(n) * (left + right) >= left) & (right > 0))
    return chosen


def even_draw(n: int, most: int, seed: int) -> Int64[np.ndarray, " m"]:
    """At most ``most`` random indices below n, in order; they depend on the seed and n alone."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng([seed, n]).choice(n, most, replace=False, shuffle=False))


def farthest_points(
    points: Float64[np.ndarray, "n 3"], count: int, start: int = 0
) -> Int64[np.ndarray, " m"]:
    """Indices of farthest-point sampling, whose first point is the farthest from the centroid.

    A rigid motion or a scale does not change them; among points at equal distances the first is taken. The
    sampling ends early when only copies of picked points are left. With a ``start``, the point of that rank
    comes first: another sample of the same cloud.
    """
    if start:
        first = int(farthest_points(points, start + 1)[-1])
    columns = np.ascontiguousarray(_about_centroid(points).T)
    picked = np.empty(count, dtype=np.int64)
    nearest = np.square(columns).sum(0)  # squared distances to the centroid, later to the nearest pick
    last = first if start else _first_of_the_farthest(nearest)
    nearest.fill(np.inf)
    difference, squared = np.empty_like(columns), np.empty_like(nearest)
    for i in range(count):
        picked[i] = last
        np.subtract(columns, columns[:, last, None], out=difference)
        np.einsum("ij,ij->j", difference, difference, out=squared)
        np.minimum(nearest, squared, out=nearest)
        last = _first_of_the_farthest(nearest)
        if nearest[last] == 0:
            return picked[: i + 1]
    return picked


def _first_of_the_farthest(squared: Float64[np.ndarray, " n"]) -> int:
    return int(np.argmax(squared >= squared.max() * (1 - TIE)))


def _about_centroid(points: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, "n 3"]:
    """Centred points over their largest coordinate, so that no square overflows or vanishes."""
    centered = points - points.mean(0)
    centered -= centered.mean(0)  # the mean of numbers near 10⁶ is only good to 10⁻¹⁰
    largest = np.abs(centered).max()
    return centered / largest if largest > 0 else centered


def estimate_normals(
    points: Float64[np.ndarray, "m 3"], cloud: Float64[np.ndarray, "n 3"]
) -> Float64[np.ndarray, "m 3"]:
    """Unit normals at ``points`` of the surface that ``cloud`` samples, pointing away from its centroid.

    A normal is the direction in which the nearest points of the cloud spread least.
    """
    center = cloud.mean(0)
    neighbors = cloud[cKDTree(cloud).query(points, k=min(NUM_NEIGHBORS, len(cloud)))[1]]
    neighbors = neighbors - neighbors.mean(1, keepdims=True)
    largest = np.abs(neighbors).max()
    neighbors = neighbors / largest if largest > 0 else neighbors
    _, axes = np.linalg.eigh(np.einsum("nki,nkj->nij", neighbors, neighbors))
    normals = axes[:, :, 0]  # eigenvalues come smallest first
    inward = np.einsum("ni,ni->n", normals, points - center) < 0
    return np.where(inward[:, None], -normals, normals)


def spacing_of(points: Float64[np.ndarray, "n 3"], neighbors: int = 16) -> float:
    """Side of the square that a point has to itself on the surface, by the median over the points."""
    count = min(neighbors, len(points) - 1)
    if not count:
        return 0.0
    farthest = cKDTree(points).query(points, k=count + 1)[0][:, -1]
    return float(np.median(farthest) * np.sqrt(np.pi / count))
