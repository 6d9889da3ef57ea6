"""Clouds and meshes in memory, as readers return and writers take them, and samples that move with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bitr.errors import InputError, require

POSITION = (("x", "y", "z"),)
NORMAL = (("nx", "ny", "nz"), ("normal_x", "normal_y", "normal_z"), ("normalx", "normaly", "normalz"))
COLOR = (("red", "green", "blue"), ("r", "g", "b"), ("diffuse_red", "diffuse_green", "diffuse_blue"))
"""Spellings of the columns that hold coordinates, normals and colours."""

CANDIDATES = 64
"""Points considered for each point that is picked; larger clouds are thinned to these by an even draw."""

Points = Float64[np.ndarray, "n 3"]
Columns = Sequence[tuple[str, NDArray[np.generic]]]  # named columns of one length; a name may come twice


@dataclass(frozen=True)
class Geometry:
    """A point cloud or, with ``faces``, a mesh; all rows finite, in the unit of the file."""

    points: Float64[np.ndarray, "n 3"]
    normals: Float64[np.ndarray, "n 3"] | None = None
    colors: Float64[np.ndarray, "n 3"] | None = None
    """From 0 to 1."""
    faces: Int64[np.ndarray, "f 3"] | None = None
    name: str = "points"
    """The file it came from, for messages."""
    warnings: tuple[str, ...] = ()
    """Changes made on reading, one sentence each, such as dropped rows."""

    def moved(self, matrix: Float64[np.ndarray, "4 4"]) -> Geometry:
        """The geometry under a rigid motion: points move, normals turn, colours and faces stay."""
        turn = matrix[:3, :3].T
        normals = None if self.normals is None else self.normals @ turn
        return replace(self, points=self.points @ turn + matrix[:3, 3], normals=normals)

    def rows(self, chosen: NDArray[np.generic]) -> Geometry:
        """Some of its points with their normals and colours, by indices or a mask; faces stay as they are."""
        normals = None if self.normals is None else self.normals[chosen]
        colors = None if self.colors is None else self.colors[chosen]
        return replace(self, points=self.points[chosen], normals=normals, colors=colors)

    def warn(self, warning: str) -> Geometry:
        """The geometry with one more warning."""
        return replace(self, warnings=(*self.warnings, warning))

    def paint(self, colors: NDArray[np.generic]) -> Geometry:
        """The geometry with colours scaled to 0..1: integers by their type, numbers above 1 as 0..255."""
        values = colors.astype(np.float64)
        top = float(np.nanmax(values, initial=0.0, where=np.isfinite(values)))
        low = float(np.nanmin(values, initial=0.0))
        if colors.dtype.kind == "u" and colors.dtype.itemsize == 2 and top > 255:
            values /= 65535
        elif colors.dtype.kind in "ui" or top > 1:  # many writers put 8 bits into wider integers
            values /= 255
        if (values < 0).any() or (values > 1).any():
            return self.warn(f"colours from {low:g} to {top:g}, expected 0 to 1 or 0 to 255: colours ignored")
        return replace(self, colors=values)


def from_columns(columns: Columns, name: str) -> Geometry:
    """The geometry of named columns, with normals and colours where there are some."""
    points, normals, colors = (pick(columns, spellings) for spellings in (POSITION, NORMAL, COLOR))
    if points is None:
        names = [column for column, _ in columns]
        flat = "two dimensions only: " if {"x", "y"} <= set(names) else ""
        found = ", ".join(names)[:80] or "no columns"
        raise InputError(f"{name}: {flat}found {found}; expected x, y and z")
    turning = None if normals is None else normals.astype(np.float64)
    geometry = Geometry(points.astype(np.float64), turning, name=name)
    return geometry if colors is None else geometry.paint(colors)


def pick(columns: Columns, spellings: Iterable[tuple[str, str, str]]) -> NDArray[np.generic] | None:
    """Three named columns side by side, or None where no spelling has each of them just once."""
    names = [name.strip().lower() for name, _ in columns]
    for spelling in spellings:
        if all(names.count(name) == 1 for name in spelling):
            return np.stack([columns[names.index(name)][1] for name in spelling], axis=1)
    return None


def area_vectors(points: Points, faces: Int64[np.ndarray, "f 3"]) -> Float64[np.ndarray, "f 3"]:
    """Face normals of length proportional to the area; the common factor keeps the numbers near 1."""
    a, b, c = (points[faces[:, i]] for i in range(3))
    unit = np.ptp(points, axis=0).max()
    return np.cross((b - a) / unit, (c - a) / unit)


def join(parts: Sequence[Geometry], name: str) -> Geometry:
    """All points one after the other; normals, colours and faces where every part has them."""
    starts = np.cumsum([0, *(len(p.points) for p in parts[:-1])])
    faces = [None if p.faces is None else p.faces + start for p, start in zip(parts, starts, strict=True)]
    return Geometry(
        np.concatenate([p.points for p in parts]),
        _concatenate([p.normals for p in parts]),
        _concatenate([p.colors for p in parts]),
        _concatenate(faces),
        name,
        tuple(w for p in parts for w in p.warnings),
    )


def _concatenate(arrays: Sequence[NDArray[np.generic] | None]) -> NDArray[np.generic] | None:
    known = [a for a in arrays if a is not None]
    return np.concatenate(known) if len(known) == len(arrays) else None


def join_scene(parts: Sequence[Geometry], name: str) -> Geometry:
    """The meshes of a scene as one, or its points where it has no mesh."""
    if not parts:
        raise InputError(f"{name}: a scene without meshes or points, expected some")
    meshes = [p for p in parts if p.faces is not None]
    if not meshes or len(meshes) == len(parts):
        return join(parts, name)
    loose = sum(len(p.points) for p in parts if p.faces is None)
    return join(meshes, name).warn(f"{loose} loose points beside the meshes: ignored")


def place(geometry: Geometry, matrix: NDArray[np.float64]) -> Geometry:
    """The geometry under any affine map; normals stay orthogonal to the surface and of length 1."""
    linear = matrix[:3, :3]
    mirrored = bool(np.linalg.det(linear) < 0)
    normals, faces = geometry.normals, geometry.faces
    if normals is not None and not np.array_equal(linear, np.eye(3)):
        # the cofactors are the inverse transpose times the determinant, and exist for every map
        cofactors = np.stack([np.cross(linear[i - 2], linear[i - 1]) for i in range(3)])
        turned = normals @ (-cofactors if mirrored else cofactors).T
        length = np.linalg.norm(turned, axis=1, keepdims=True)
        normals = turned / np.where(length > 0, length, 1)
    if faces is not None and mirrored:
        faces = faces[:, ::-1].copy()  # else the surface would turn inside out
    return replace(geometry, points=geometry.points @ linear.T + matrix[:3, 3], normals=normals, faces=faces)


def as_points(geometry: Geometry, n: int, seed: int) -> Geometry:
    """A point cloud as it is; a mesh as ``n`` points of its surface."""
    return geometry if geometry.faces is None else sample_surface(geometry, n, seed)


def sample_surface(geometry: Geometry, n: int, seed: int) -> Geometry:
    """``n`` points of a mesh, uniform by area; of a moved or scaled mesh, the moved or scaled sample."""
    if geometry.faces is None or not len(geometry.faces):
        raise InputError(f"{geometry.name}: no faces to sample, expected a mesh")
    require(n >= 1, f"{geometry.name}: cannot sample {n} points, expected 1 or more")
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


def farthest_points(points: Points, count: int, start: int = 0) -> Int64[np.ndarray, " m"]:
    """Indices of farthest-point sampling, whose first point is the farthest from the centroid.

    A rigid motion or a scale does not change them; among points at equal distances the first is taken. The
    sampling ends early when only copies of picked points are left. With a ``start``, the point of that rank
    comes first: another sample of the same cloud.
    """
    if start:
        first = int(farthest_points(points, start + 1)[-1])
    centered = points - points.mean(0)
    centered -= centered.mean(0)  # the mean of numbers near 10⁶ is only good to 10⁻¹⁰
    largest = np.abs(centered).max()  # without it squares may overflow or vanish
    columns = np.ascontiguousarray((centered / largest if largest > 0 else centered).T)
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
    """Squares that differ by less than 1e-9, relative, count as equal: rounding must not decide on grids."""
    return int(np.argmax(squared >= squared.max() * (1 - 1e-9)))


def estimate_normals(
    points: Float64[np.ndarray, "m 3"], cloud: Float64[np.ndarray, "n 3"]
) -> Float64[np.ndarray, "m 3"]:
    """Unit normals at ``points``: where the cloud spreads least nearby, away from its centroid."""
    center = cloud.mean(0)
    neighbors = cloud[cKDTree(cloud).query(points, k=min(16, len(cloud)))[1]]
    neighbors = neighbors - neighbors.mean(1, keepdims=True)
    largest = np.abs(neighbors).max()
    neighbors = neighbors / largest if largest > 0 else neighbors
    _, axes = np.linalg.eigh(np.einsum("nki,nkj->nij", neighbors, neighbors))
    normals = axes[:, :, 0]  # eigenvalues come smallest first
    inward = np.einsum("ni,ni->n", normals, points - center) < 0
    return np.where(inward[:, None], -normals, normals)


def spacing_of(points: Points, neighbors: int = 16) -> float:
    """Side of the square that a point has to itself on the surface, by the median over the points."""
    count = min(neighbors, len(points) - 1)
    if not count:
        return 0.0
    farthest = cKDTree(points).query(points, k=count + 1)[0][:, -1]
    return float(np.median(farthest) * np.sqrt(np.pi / count))
