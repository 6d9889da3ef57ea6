"""Points on a surface, drawn uniformly by area."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

from bitr.errors import InputError
from bitr.io.faces import area_vectors
from bitr.io.geometry import Geometry


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
    """Indices of ``n`` faces, each with the probability of its area, by going down a tree of halves.

    A search in the running sum of the areas would do the same, but there the rounding of all areas adds up
    before it is compared with the draw, and a mesh that was moved and stored in float32 would now and then
    choose another face. Here each step compares two neighbouring sums.
    """
    levels = [np.concatenate([areas, np.zeros((1 << (len(areas) - 1).bit_length()) - len(areas))])]
    while len(levels[-1]) > 1:
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
    chosen = np.zeros(n, dtype=np.int64)
    for level in levels[-2::-1]:
        left, right = level[2 * chosen], level[2 * chosen + 1]
        chosen = 2 * chosen + ((rng.random(n) * (left + right) >= left) & (right > 0))
    return chosen
