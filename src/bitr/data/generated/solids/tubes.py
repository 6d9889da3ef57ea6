"""Solids from rings: turned bodies, tubes along a curve, anything whose sections are closed curves."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from bitr.data.generated.solids.kernel import Solid, solid


def from_rings(rings: Float64[np.ndarray, "m s 3"]) -> Solid:
    """The solid through m rings of s points, closed at both ends.

    The points of a ring turn counter-clockwise, seen from where the next ring lies.
    """
    m, s, _ = rings.shape
    at = np.arange(m * s).reshape(m, s)
    a, b = at[:-1], np.roll(at, -1, axis=1)[:-1]
    c, d = at[1:], np.roll(at, -1, axis=1)[1:]
    sides = np.concatenate([np.stack([a, b, d], -1), np.stack([a, d, c], -1)]).reshape(-1, 3)
    first, last = np.full(s, m * s), np.full(s, m * s + 1)
    bottom = np.stack([first, np.roll(at[0], -1), at[0]], -1)
    top = np.stack([last, at[-1], np.roll(at[-1], -1)], -1)
    ends = np.stack([rings[0].mean(0), rings[-1].mean(0)])
    return solid(np.concatenate([rings.reshape(-1, 3), ends]), np.concatenate([sides, bottom, top]))


def turned(
    radius: Float64[np.ndarray, " m"],
    height: Float64[np.ndarray, " m"],
    section: Float64[np.ndarray, "s 2"],
) -> Solid:
    """A body around the z axis: the section, scaled by the radius, at each height."""
    flat = radius[:, None, None] * section
    up = np.broadcast_to(height[:, None, None], (*flat.shape[:2], 1))
    return from_rings(np.concatenate([flat, up], axis=-1))


def swept(
    path: Float64[np.ndarray, "m 3"],
    radius: Float64[np.ndarray, " m"],
    section: Float64[np.ndarray, "s 2"],
    twist: float = 0.0,
) -> Solid:
    """A tube along a path: across it the section, scaled, and turned by up to ``twist`` radians."""
    along = np.gradient(path, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    across = np.empty_like(path)
    across[0] = np.cross(along[0], np.eye(3)[np.abs(along[0]).argmin()])
    for i in range(1, len(path)):  # carried along without turning about the path
        across[i] = across[i - 1] - (across[i - 1] @ along[i]) * along[i]
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    third = np.cross(along, across)
    angle = np.linspace(0, twist, len(path))[:, None]
    u = section[:, 0] * np.cos(angle) - section[:, 1] * np.sin(angle)
    v = section[:, 0] * np.sin(angle) + section[:, 1] * np.cos(angle)
    flat = u[..., None] * across[:, None] + v[..., None] * third[:, None]
    return from_rings(path[:, None] + radius[:, None, None] * flat)


def ring_section(
    rng: np.random.Generator, points: int, *, plain: float = 0.5, squash: float = 0.0
) -> Float64[np.ndarray, "s 2"]:
    """A closed curve of size about 1: round with the chance ``plain``, else lobed or a rounded polygon."""
    angle = 2 * np.pi * np.arange(points) / points
    radius = np.ones(points)
    if rng.random() > plain:
        corners = int(rng.integers(3, 9))
        turn = rng.uniform(0, 2 * np.pi)
        if rng.random() < 0.5:
            radius += rng.uniform(0.05, 0.6 / corners) * np.cos(corners * angle + turn)
        else:
            within = (angle + turn) % (2 * np.pi / corners) - np.pi / corners
            polygon = np.cos(np.pi / corners) / np.cos(within)
            radius = polygon ** rng.uniform(0.5, 1.0)
    width = 1 - squash * rng.random()
    return np.stack([radius * np.cos(angle), width * radius * np.sin(angle)], -1)
