"""Pure changes of clouds and pairs that keep ``ref_from_src`` right; randomness is a generator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
from jaxtyping import Float64, Int64

from bitr.data.poses import AssemblyPair, Matrix, Points, Pose, inverse, move_points, pose, random_pose
from bitr.errors import require
from bitr.io import Geometry, estimate_normals, sample_surface
from bitr.io.geometry import place

Warp = Callable[[Geometry], Geometry]


def assembled(source: Geometry, reference: Geometry, id: str, unit: str = "") -> AssemblyPair:
    """The pair of two pieces that are given in place: ``ref_from_src`` is the identity."""
    return AssemblyPair(source, reference, np.eye(4), id, unit=unit)


def both(pair: AssemblyPair, change: Callable[[Geometry], Geometry]) -> AssemblyPair:
    """Change either side by a function that leaves its frame alone."""
    return replace(pair, source=change(pair.source), reference=change(pair.reference))


def move(pair: AssemblyPair, source_motion: Pose, reference_motion: Pose) -> AssemblyPair:
    """The pair (g₁X, g₂Y), whose answer is g₂ g g₁⁻¹ and whose symmetries are g₁ s g₁⁻¹, about g₁ axis."""
    back = inverse(source_motion)
    return replace(
        pair,
        source=pair.source.moved(source_motion),
        reference=pair.reference.moved(reference_motion),
        ref_from_src=reference_motion @ pair.ref_from_src @ back,
        symmetry=None if pair.symmetry is None else source_motion @ pair.symmetry @ back,
        axis=None if pair.axis is None else move_points(source_motion, pair.axis),
    )


def move_randomly(pair: AssemblyPair, rng: np.random.Generator, size: float = 1.0) -> AssemblyPair:
    """Turn either side at random, and shift it with standard deviation ``size`` along each axis."""
    return move(pair, random_pose(rng, size), random_pose(rng, size))


def to_unit_sphere(shape: Geometry) -> Geometry:
    """Centre the bounding box at the origin, and scale the farthest point to distance 1."""
    points = shape.points - (shape.points.min(axis=0) / 2 + shape.points.max(axis=0) / 2)
    return replace(shape, points=points / np.linalg.norm(points, axis=1).max())


def with_normals(cloud: Geometry) -> Geometry:
    """Estimate normals from the cloud's own points, pointing away from their mean."""
    return replace(cloud, normals=estimate_normals(cloud.points, cloud.points))


def take(cloud: Geometry, rows: Int64[np.ndarray, " m"]) -> Geometry:
    """Some points of a cloud, with their normals and colours."""
    require(cloud.faces is None, f"{cloud.name}: is a mesh, expected points: sample it first, by area")
    return cloud.rows(rows)


def sample_uniform(cloud: Geometry, n: int, rng: np.random.Generator) -> Geometry:
    """``n`` different points; all such sets are equally likely."""
    require(0 < n <= len(cloud.points), f"{cloud.name}: cannot take {n} of {len(cloud.points)} points")
    return take(cloud, rng.choice(len(cloud.points), n, replace=False))


def area_of(mesh: Geometry) -> float:
    """Area of a mesh, in squares of its unit of length."""
    assert mesh.faces is not None
    a, b, c = (mesh.points[mesh.faces[:, i]] for i in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()) / 2


def share_by_area(areas: list[float], points: int, fewest: int) -> list[int]:
    """Share points between surfaces by their areas, with at least ``fewest`` for each."""
    shares = np.array(areas)
    return np.maximum(np.rint(points * shares / shares.sum()), fewest).astype(int).tolist()


def sample_by_area(mesh: Geometry, n: int, rng: np.random.Generator) -> Geometry:
    """``n`` points of a mesh, uniform by area, with the normals of its faces."""
    return sample_surface(mesh, n, int(rng.integers(2**62)))


def sample(shape: Geometry, n: int, rng: np.random.Generator) -> Geometry:
    """``n`` points: by area of a mesh, without replacement of a cloud."""
    return (sample_uniform if shape.faces is None else sample_by_area)(shape, n, rng)


def sample_grid(cloud: Geometry, size: float, pick: Literal["mean", "first"] = "mean") -> Geometry:
    """One point for each occupied cube of a grid, in order: the mean of its points, or the first."""
    require(size > 0, f"{cloud.name}: a grid of size {size!r}, expected more than 0")
    cubes = np.floor(cloud.points / size).astype(np.int64)
    cubes -= cubes.min(axis=0)
    span = [int(s) + 1 for s in cubes.max(axis=0)]
    is_small = span[0] * span[1] * span[2] < 2**62
    require(is_small, f"the grid has {span} cubes along its axes, too many: choose a larger size")
    numbers = (cubes[:, 0] * span[1] + cubes[:, 1]) * span[2] + cubes[:, 2]
    _, first, index, counts = np.unique(numbers, return_index=True, return_inverse=True, return_counts=True)
    if pick == "first" or cloud.faces is not None:
        return take(cloud, first)

    def mean(rows: Points) -> Float64[np.ndarray, "m 3"]:
        sums = [np.bincount(index, weights=column, minlength=len(first)) for column in rows.T]
        return np.stack(sums, axis=1) / counts[:, None]

    normals = None
    if cloud.normals is not None:
        sums = mean(cloud.normals)
        length = np.linalg.norm(sums, axis=1, keepdims=True)
        known = length > 1e-6  # where opposite normals cancel, the first one stands for all
        normals = np.where(known, sums / np.where(known, length, 1), cloud.normals[first])
    colors = None if cloud.colors is None else np.clip(mean(cloud.colors), 0, 1)
    return replace(cloud, points=mean(cloud.points), normals=normals, colors=colors)


def two_samples(shape: Geometry, n: int, rng: np.random.Generator) -> tuple[Geometry, Geometry]:
    """Two samples of ``n`` points with no point in common."""
    if shape.faces is not None:
        return sample_by_area(shape, n, rng), sample_by_area(shape, n, rng)
    drawn = sample_uniform(shape, 2 * n, rng)
    rows = np.arange(2 * n)
    return take(drawn, rows[:n]), take(drawn, rows[n:])


def thin(pair: AssemblyPair, most: int, rng: np.random.Generator) -> AssemblyPair:
    """Thin both sides by the same share, to at most ``most`` points and at least an eighth of that."""

    def size(side: Geometry) -> int:
        return len(side.points) if side.faces is None else most

    share = min(1.0, most / max(size(pair.source), size(pair.reference)))

    def keep(side: Geometry) -> Geometry:
        n = max(round(share * size(side)), most // 8)
        return side if side.faces is None and len(side.points) <= n else sample(side, n, rng)

    return both(pair, keep)


def split(cloud: Geometry, share: float, rng: np.random.Generator) -> tuple[Geometry, Geometry]:
    """The two sides of a random plane; the first has ``share`` of the points."""
    count = round(share * len(cloud.points))
    part = f"a share of {share!r} of {len(cloud.points)} points"
    require(0 < count < len(cloud.points), f"{cloud.name}: {part} leaves an empty piece")
    order = _order_across(cloud, rng)
    return take(cloud, order[:count]), take(cloud, order[count:])


def crop(cloud: Geometry, keep: float, rng: np.random.Generator) -> Geometry:
    """Keep a share of the points, on one side of a random plane."""
    wrong = f"{cloud.name}: cannot keep a share of {keep!r}, expected more than 0 and at most 1"
    require(0 < keep <= 1, wrong)
    order = _order_across(cloud, rng)
    return take(cloud, order[: max(1, round(keep * len(order)))])


def _order_across(cloud: Geometry, rng: np.random.Generator) -> Int64[np.ndarray, " n"]:
    """The order of the points along a random direction."""
    return np.argsort(cloud.points @ rng.normal(size=3), kind="stable")


def jitter(cloud: Geometry, std: float, rng: np.random.Generator) -> Geometry:
    """Add normal noise of standard deviation ``std`` to every coordinate."""
    return replace(cloud, points=cloud.points + std * rng.normal(size=cloud.points.shape))


def add_outliers(
    cloud: Geometry, count: int, rng: np.random.Generator, low: float = -1.0, high: float = 1.0
) -> Geometry:
    """Append ``count`` points of a cube, with random normals and colours if the cloud has some."""
    direction = rng.normal(size=(count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    points, shades = rng.uniform(low, high, (count, 3)), rng.random((count, 3))
    return replace(
        cloud,
        points=np.concatenate([cloud.points, points]),
        normals=None if cloud.normals is None else np.concatenate([cloud.normals, direction]),
        colors=None if cloud.colors is None else np.concatenate([cloud.colors, shades]),
    )


def deform(pair: AssemblyPair, matrix: Matrix) -> AssemblyPair:
    """Apply a linear map y ↦ Ay to the assembled whole, x ↦ g⁻¹ A g x for the source: the answer stays."""
    r, t = pair.ref_from_src[:3, :3], pair.ref_from_src[:3, 3]
    source = place(pair.source, pose(r.T @ matrix @ r, r.T @ (matrix @ t - t)))
    reference = place(pair.reference, pose(matrix, np.zeros(3)))
    return replace(pair, source=source, reference=reference, symmetry=None, axis=None)


def random_stretch(size: float, mirror: bool, rng: np.random.Generator) -> Matrix:
    """Factors from e^-size to e^size along three random axes; with ``mirror``, half are reflections."""
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    factors = np.exp(rng.uniform(-size, size, 3))
    if mirror and rng.random() < 0.5:
        factors[0] = -factors[0]
    return (axes * factors) @ axes.T


def random_warp(pair: AssemblyPair, size: float, rng: np.random.Generator) -> Warp:
    """A smooth map x ↦ x + Σ_j c_j sin(⟨w_j, x − m⟩ + φ_j); with slopes below 1 in all nothing folds over."""
    placed = move_points(pair.ref_from_src, pair.source.points)
    whole = np.concatenate([placed, pair.reference.points])
    center, radius = whole.mean(axis=0), np.sqrt(whole.var(axis=0).sum())
    waves = rng.normal(size=(4, 3))
    waves *= rng.uniform(0.5, 2.0, (4, 1)) / np.linalg.norm(waves, axis=1, keepdims=True)
    amplitudes = rng.normal(size=(4, 3))
    slope = (np.linalg.norm(amplitudes, axis=1) * np.linalg.norm(waves, axis=1)).sum()
    amplitudes *= rng.uniform(0, size) / slope
    amplitudes, waves, phases = amplitudes * radius, waves / radius, rng.uniform(0, 2 * np.pi, 4)

    def bend(piece: Geometry) -> Geometry:
        """Map the points; normals become J⁻ᵀ n, scaled to length 1, with J the map's derivative there."""
        angles = (piece.points - center) @ waves.T + phases
        bent = replace(piece, points=piece.points + np.sin(angles) @ amplitudes)
        if piece.normals is None:
            return bent
        jacobian = np.eye(3) + np.einsum("nj,ji,jk->nik", np.cos(angles), amplitudes, waves)
        turned = np.linalg.solve(jacobian.transpose(0, 2, 1), piece.normals[..., None])[..., 0]
        return replace(bent, normals=turned / np.linalg.norm(turned, axis=1, keepdims=True))

    return bend


def apply_warp(pair: AssemblyPair, warp: Warp) -> AssemblyPair:
    """Apply a warp to the assembled whole: other pieces with the same answer."""
    r, t = pair.ref_from_src[:3, :3], pair.ref_from_src[:3, 3]
    placed = warp(pair.source.moved(pair.ref_from_src))
    normals = None if placed.normals is None else placed.normals @ r
    source = replace(placed, points=(placed.points - t) @ r, normals=normals)
    return replace(pair, source=source, reference=warp(pair.reference), symmetry=None, axis=None)
