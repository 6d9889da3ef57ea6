"""Samples of symmetric surfaces, with the turns that leave them as they are."""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

BOTTLE = ([0, 0.5, 0.55, 0.5, 0.2, 0.17, 0.2], [0, 0, 0.5, 1.0, 1.4, 1.7, 2.0])
"""Radii and heights along a profile."""
CYLINDER = ([0, 0.6, 0.6, 0], [0, 0, 1.6, 1.6])
CUBE_CORNERS = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3), axis=-1).reshape(-1, 3)


def on_hull(corners: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Points on the surface of a convex body, uniform by area."""
    hull = ConvexHull(corners)
    a, b, c = (corners[hull.simplices[:, i]] for i in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    face = rng.choice(len(area), n, p=area / area.sum())
    u, v = rng.random((2, n, 1))
    u, v = np.where(u + v > 1, 1 - u, u), np.where(u + v > 1, 1 - v, v)
    return a[face] + u * (b - a)[face] + v * (c - a)[face]


def turned(radii: list[float], heights: list[float], n: int, rng: np.random.Generator) -> np.ndarray:
    """Points on a surface of revolution about z, uniform by area."""
    t = np.linspace(0, 1, 40 * len(radii))
    r, z = (np.interp(t, np.linspace(0, 1, len(radii)), values) for values in (radii, heights))
    area = np.hypot(np.diff(r), np.diff(z)) * (r[1:] + r[:-1])
    piece = rng.choice(len(area), n, p=area / area.sum())
    share, angle = rng.random(n), 2 * np.pi * rng.random(n)
    radius = r[piece] + share * (r[piece + 1] - r[piece])
    height = z[piece] + share * (z[piece + 1] - z[piece])
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)


def ball(n: int, rng: np.random.Generator) -> np.ndarray:
    points = rng.normal(size=(n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def even_ball(n: int) -> np.ndarray:
    """Evenly spread points of the unit sphere."""
    i = np.arange(n) + 0.5
    polar, azimuth = np.arccos(1 - 2 * i / n), np.pi * (1 + 5**0.5) * i
    return np.stack([np.cos(azimuth) * np.sin(polar), np.sin(azimuth) * np.sin(polar), np.cos(polar)], axis=1)


def disc(n: int, rng: np.random.Generator | None = None) -> np.ndarray:
    rng = rng or np.random.default_rng(0)
    radius, angle = np.sqrt(rng.random(n)), 2 * np.pi * rng.random(n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), np.zeros(n)], axis=1)


def polygon(sides: int) -> np.ndarray:
    """With corners at height 0; of two sides, a rectangle."""
    if sides == 2:
        return np.array([[1, 0.6, 0], [-1, 0.6, 0], [-1, -0.6, 0], [1, -0.6, 0]]) * 0.75
    angle = 2 * np.pi * np.arange(sides) / sides
    return np.stack([np.cos(angle), np.sin(angle), np.zeros(sides)], axis=1)


def prism(sides: int) -> np.ndarray:
    up = np.array([0, 0, 1.0])
    return np.concatenate([polygon(sides) - up, polygon(sides) + up])


def pyramid(sides: int) -> np.ndarray:
    return np.concatenate([polygon(sides), [[0, 0, 2.2]]])


def cyclic(order: int) -> np.ndarray:
    return Rotation.from_rotvec([[0, 0, 2 * np.pi * i / order] for i in range(order)]).as_matrix()


def dihedral(order: int) -> np.ndarray:
    return np.concatenate([cyclic(order), cyclic(order) @ np.diag([1.0, -1.0, -1.0])])


SOLIDS: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "cube": (CUBE_CORNERS, Rotation.create_group("O").as_matrix()),
    "tetrahedron": (CUBE_CORNERS[[0, 3, 5, 6]], Rotation.create_group("T").as_matrix()),
    "box": (CUBE_CORNERS * [1, 0.7, 0.4], dihedral(2)),
    **{f"prism {k}": (prism(k), dihedral(k)) for k in range(2, 7)},
    **{f"pyramid {k}": (pyramid(k), cyclic(k)) for k in range(2, 7)},
}
"""Corners and turns."""


def solid(name: str, seed: int, n: int = 1000, noise: float = 0.01) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return on_hull(SOLIDS[name][0], n, rng) + noise * rng.normal(size=(n, 3))


def bottle(seed: int, n: int = 1000, profile: tuple[list[float], list[float]] = BOTTLE) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return turned(*profile, n, rng) + 0.01 * rng.normal(size=(n, 3))
