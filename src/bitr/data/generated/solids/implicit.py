"""Blended implicit surfaces: balls, limbs, boxes and rings that flow into one another."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from jaxtyping import Float64

from bitr.data.generated.solids.directions import random_direction, random_rotation
from bitr.data.generated.solids.kernel import Solid, kernel, largest_part

EDGE = 0.11
"""Of the grid on which the fields are evaluated, and of the faces."""
REACH = 1.45
"""Half the width of the grid; fields must be outside, below 0, at its border."""

Field = Callable[[np.ndarray], np.ndarray]
"""(n, 3) points → (n,) signed distances, positive inside."""


def blob(rng: np.random.Generator) -> Solid:
    """Metaballs, a figure with limbs, or bodies that were melted together, with a bite taken out of some."""
    parts = (_balls, _figure, _bodies)[int(rng.integers(3))](rng)
    sharp = rng.uniform(9, 22)
    bites = [_ball(rng.normal(size=3) * 0.45, rng.uniform(0.2, 0.4)) for _ in range(int(rng.integers(3)))]

    def field(points: np.ndarray) -> np.ndarray:
        inside = _soft_max([part(points) for part in parts], sharp)
        return -_soft_max([-inside, *(bite(points) for bite in bites)], sharp) if bites else inside

    return largest_part(level_set(field))


def level_set(field: Field) -> Solid:
    """The solid where a field is positive."""
    grid = _grid()
    level = field(grid)
    outside = np.abs(grid).max(axis=1) > REACH - EDGE
    values = iter(np.where(outside, -1.0, level).tolist())
    made = kernel().Manifold.level_set(lambda *_: next(values), _bounds(), EDGE)
    if next(values, None) is not None:
        raise RuntimeError("manifold3d asked for other points than on its first visit of the grid")
    return made


@lru_cache(maxsize=1)
def _grid() -> Float64[np.ndarray, "n 3"]:
    """Where ``Manifold.level_set`` wants values, in its order: to evaluate all at once, not one by one."""
    points: list[tuple[float, float, float]] = []

    def visit(x: float, y: float, z: float) -> float:
        points.append((x, y, z))
        return -1.0

    kernel().Manifold.level_set(visit, _bounds(), EDGE)
    return np.array(points)


def _bounds() -> list[float]:
    return [-REACH] * 3 + [REACH] * 3


def _soft_max(values: list[np.ndarray], sharp: float) -> np.ndarray:
    """The largest of several fields, smooth where two are about equal."""
    stacked = np.stack(values)
    top = stacked.max(axis=0)
    return top + np.log(np.exp(sharp * (stacked - top)).sum(axis=0)) / sharp


def _balls(rng: np.random.Generator) -> list[Field]:
    """Balls, each touching an earlier one."""
    centers, radii = [np.zeros(3)], [rng.uniform(0.3, 0.45)]
    for _ in range(int(rng.integers(3, 8))):
        from_ = int(rng.integers(len(centers)))
        radius = rng.uniform(0.18, 0.4)
        step = random_direction(rng) * (radii[from_] + radius) * 0.8
        centers.append(np.clip(centers[from_] + step, -0.85, 0.85))
        radii.append(radius)
    return [_ball(center, radius) for center, radius in zip(centers, radii, strict=True)]


def _figure(rng: np.random.Generator) -> list[Field]:
    """A trunk with limbs, some of which carry a knob."""
    ends = rng.normal(size=(2, 3))
    trunk = 0.45 * ends / np.linalg.norm(ends, axis=1, keepdims=True) * np.array([[1], [-1]])
    parts = [_limb(trunk[0], trunk[1], *rng.uniform(0.2, 0.36, 2))]
    for _ in range(int(rng.integers(3, 7))):
        start = trunk[0] + rng.random() * (trunk[1] - trunk[0])
        end = np.clip(start + random_direction(rng) * rng.uniform(0.5, 1.0), -1.0, 1.0)
        thick, thin = rng.uniform(0.14, 0.24), rng.uniform(0.11, 0.16)
        parts.append(_limb(start, end, thick, thin))
        if rng.random() < 0.4:
            parts.append(_ball(end, rng.uniform(0.17, 0.26)))
    return parts


def _bodies(rng: np.random.Generator) -> list[Field]:
    """Two to four of: a box, a ring, a ball, a limb."""
    kinds: list[Callable[[], Field]] = [
        lambda: _box(rng.normal(size=3) * 0.25, rng.uniform(0.15, 0.55, 3), random_rotation(rng)),
        lambda: _ring(
            rng.normal(size=3) * 0.25, rng.uniform(0.4, 0.65), rng.uniform(0.13, 0.2), random_rotation(rng)
        ),
        lambda: _ball(rng.normal(size=3) * 0.3, rng.uniform(0.25, 0.5)),
        lambda: _limb(random_direction(rng) * 0.8, random_direction(rng) * 0.3, *rng.uniform(0.12, 0.25, 2)),
    ]
    return [kinds[int(rng.integers(4))]() for _ in range(int(rng.integers(2, 5)))]


def _ball(center: np.ndarray, radius: float) -> Field:
    return lambda p: radius - np.linalg.norm(p - center, axis=1)


def _limb(a: np.ndarray, b: np.ndarray, thick: float, thin: float) -> Field:
    def field(p: np.ndarray) -> np.ndarray:
        at = np.clip((p - a) @ (b - a) / max(float((b - a) @ (b - a)), 1e-9), 0, 1)
        return thick + (thin - thick) * at - np.linalg.norm(p - a - at[:, None] * (b - a), axis=1)

    return field


def _box(center: np.ndarray, half: np.ndarray, turn: np.ndarray) -> Field:
    def field(p: np.ndarray) -> np.ndarray:
        beyond = np.abs((p - center) @ turn) - half
        return -np.linalg.norm(np.maximum(beyond, 0), axis=1) - np.minimum(beyond.max(axis=1), 0) + 0.04

    return field


def _ring(center: np.ndarray, radius: float, thick: float, turn: np.ndarray) -> Field:
    def field(p: np.ndarray) -> np.ndarray:
        x, y, z = ((p - center) @ turn).T
        return thick - np.hypot(np.hypot(x, y) - radius, z)

    return field


def _direction(rng: np.random.Generator) -> Float64[np.ndarray, " 3"]:
    v = rng.normal(size=3)
    return v / np.linalg.norm(v)


def _turn(rng: np.random.Generator) -> Float64[np.ndarray, "3 3"]:
    return random_rotation(rng)
