"""Superquadrics: from boxes over balls to stars, tapered and bent."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from bitr.data.generated.solids.kernel import Solid, kernel, mapped, vertices_of

SEGMENTS = 56
"""Corners around the ball from which they are made."""


def superquadric(rng: np.random.Generator) -> Solid:
    """|x/a|, |y/b|, |z/c| with two random exponents, tapered along z and bent about y."""
    ball = kernel().Manifold.sphere(1.0, SEGMENTS)
    direction = vertices_of(ball)
    size, (e1, e2) = rng.uniform(0.35, 1.0, 3), rng.choice([0.15, 0.4, 0.7, 1.0, 1.4], 2)
    points = direction * _radius(direction, size, float(e1), float(e2))[:, None]
    up = points[:, 2:] / size[2]
    taper = 1 + rng.uniform(-0.55, 0.55, 2) * up
    x, y, z = points[:, :1] * taper[:, :1], points[:, 1:2] * taper[:, 1:], points[:, 2:]
    return mapped(ball, _bent(np.concatenate([x, y, z], axis=1), rng.uniform(-1.0, 1.0)))


def _radius(
    direction: Float64[np.ndarray, "v 3"], size: Float64[np.ndarray, " 3"], e1: float, e2: float
) -> Float64[np.ndarray, " v"]:
    """How far the surface lies from the centre in a direction."""
    x, y, z = np.maximum(np.abs(direction / size), 1e-12).T
    level = (x ** (2 / e2) + y ** (2 / e2)) ** (e2 / e1) + z ** (2 / e1)
    return level ** (-e1 / 2)


def _bent(points: Float64[np.ndarray, "v 3"], angle: float) -> Float64[np.ndarray, "v 3"]:
    """The z axis bent to an arc that turns by ``angle`` per unit of length, towards x.

    What lies at the centre of the arc or beyond would fold over: the angle is cut to what the width allows.
    """
    angle = float(np.clip(angle, -0.8 / np.abs(points[:, 0]).max(), 0.8 / np.abs(points[:, 0]).max()))
    if abs(angle) < 1e-3:
        return points
    x, y, z = points.T
    arm = 1 / angle - x
    return np.stack([1 / angle - arm * np.cos(angle * z), y, arm * np.sin(angle * z)], axis=1)
