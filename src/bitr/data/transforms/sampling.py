"""Fewer points of a cloud, or points of a surface."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from jaxtyping import Float64, Int64

from bitr.data.pair import AssemblyPair
from bitr.errors import InputError
from bitr.io import Geometry, farthest_points, sample_surface


def take(cloud: Geometry, rows: Int64[np.ndarray, " m"]) -> Geometry:
    """Some points of a cloud, with their normals and colours."""
    normals = None if cloud.normals is None else cloud.normals[rows]
    colors = None if cloud.colors is None else cloud.colors[rows]
    return replace(_cloud(cloud), points=cloud.points[rows], normals=normals, colors=colors)


def sample_uniform(cloud: Geometry, n: int, rng: np.random.Generator) -> Geometry:
    """``n`` different points, each set of them as likely as any other."""
    _check_count(cloud, n)
    return take(cloud, rng.choice(len(cloud.points), n, replace=False))


def sample_by_area(mesh: Geometry, n: int, rng: np.random.Generator) -> Geometry:
    """``n`` points of a mesh, uniform by area, with the normals of its faces."""
    return sample_surface(mesh, n, int(rng.integers(2**62)))


def sample_grid(cloud: Geometry, size: float, pick: Literal["mean", "first"] = "mean") -> Geometry:
    """One point for each cube of a grid through the origin that holds any: their mean, or the first of them.

    The points come in the order of the cubes. Means of normals are brought to length 1.
    """
    if not size > 0:
        raise InputError(f"{cloud.name}: a grid of size {size!r}, expected more than 0")
    cube = np.floor(_cloud(cloud).points / size).astype(np.int64)
    _, first, index, counts = np.unique(
        _keys(cube), return_index=True, return_inverse=True, return_counts=True
    )
    if pick == "first":
        return take(cloud, first)

    def mean(rows: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, "m 3"]:
        sums = [np.bincount(index, weights=column, minlength=len(first)) for column in rows.T]
        return np.stack(sums, axis=1) / counts[:, None]

    middle = mean(cloud.points)
    normals = None if cloud.normals is None else _unit(mean(cloud.normals), cloud.normals[first])
    colors = None if cloud.colors is None else np.clip(mean(cloud.colors), 0, 1)
    return replace(cloud, points=middle, normals=normals, colors=colors)


def sample_farthest(cloud: Geometry, n: int) -> Geometry:
    """``n`` points, each the farthest from those before it; the choice moves with the cloud."""
    _check_count(cloud, n)
    return take(cloud, farthest_points(cloud.points, n))


def two_samples(shape: Geometry, n: int, rng: np.random.Generator) -> tuple[Geometry, Geometry]:
    """Two samples of ``n`` points that have no point in common: of a mesh by area, of a cloud by drawing."""
    if shape.faces is not None:
        return sample_by_area(shape, n, rng), sample_by_area(shape, n, rng)
    both = sample_uniform(shape, 2 * n, rng)
    rows = np.arange(2 * n)
    return take(both, rows[:n]), take(both, rows[n:])


def resample(pair: AssemblyPair, n: int, rng: np.random.Generator) -> AssemblyPair:
    """``n`` points of either side, drawn independently; a side that has no more than ``n`` stays whole."""

    def fewer(piece: Geometry) -> Geometry:
        if piece.faces is not None:
            return sample_by_area(piece, n, rng)
        return piece if len(piece.points) <= n else sample_uniform(piece, n, rng)

    return replace(pair, source=fewer(pair.source), reference=fewer(pair.reference))


def thin(pair: AssemblyPair, most: int, rng: np.random.Generator) -> AssemblyPair:
    """Both sides thinned by the same share, so that none has more than ``most`` points and densities compare.

    A side keeps at least an eighth of ``most``, if it has that many; a mesh counts as ``most`` points.
    """
    sides = (pair.source, pair.reference)
    sizes = [len(side.points) if side.faces is None else most for side in sides]
    share = min(1.0, most / max(sizes))

    def fewer(side: Geometry, size: int) -> Geometry:
        count = max(round(share * size), most // 8)
        if side.faces is not None:
            return sample_by_area(side, count, rng)
        return side if size <= count else sample_uniform(side, count, rng)

    source, reference = (fewer(side, size) for side, size in zip(sides, sizes, strict=True))
    return replace(pair, source=source, reference=reference)


def _cloud(geometry: Geometry) -> Geometry:
    if geometry.faces is not None:
        raise InputError(f"{geometry.name}: is a mesh, expected points: sample it first, by area")
    return geometry


def _check_count(cloud: Geometry, n: int) -> None:
    if not 0 < n <= len(cloud.points):
        raise InputError(f"{cloud.name}: cannot take {n} of {len(cloud.points)} points")


def _keys(cube: Int64[np.ndarray, "n 3"]) -> Int64[np.ndarray, " n"]:
    """One number for each cube; equal only for equal cubes."""
    low = cube.min(axis=0)
    span = [int(s) + 1 for s in cube.max(axis=0) - low]
    if span[0] * span[1] * span[2] >= 2**62:
        raise InputError(f"the grid has {span} cubes along its axes, too many: choose a larger size")
    x, y, z = (cube - low).T
    return (x * span[1] + y) * span[2] + z


def _unit(
    normals: Float64[np.ndarray, "n 3"], otherwise: Float64[np.ndarray, "n 3"]
) -> Float64[np.ndarray, "n 3"]:
    """Of length 1; where opposite normals cancelled, those given otherwise."""
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.where(length > 1e-6, normals / np.where(length > 1e-6, length, 1), otherwise)
