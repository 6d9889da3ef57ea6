"""From any number of points to a few that cover the shape; which ones moves with the cloud."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

CANDIDATES = 64
"""Points per picked point that are looked at; of a larger cloud, an even draw."""
TIE = 1e-9
"""Squared distances that differ by less, relative, count as equal: grids must not be decided by rounding."""


def even_draw(n: int, most: int, seed: int) -> Int64[np.ndarray, " m"]:
    """At most ``most`` of the numbers below n, in order; from the seed and n alone: it moves along."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng([seed, n]).choice(n, most, replace=False, shuffle=False))


def farthest_points(
    points: Float64[np.ndarray, "n 3"], count: int, start: int = 0
) -> Int64[np.ndarray, " m"]:
    """Each picked point is the farthest from those before it; the first, from the centroid.

    Unchanged by a rigid motion and by a scale; of points at equal distances the first is taken. Ends early
    when only copies of picked points are left. With a ``start``, the point of that number among the farthest
    comes first: another sample of the same cloud.
    """
    if start:
        first = int(farthest_points(points, start + 1)[-1])
    columns = np.ascontiguousarray(_about_centroid(points).T)
    picked = np.empty(count, dtype=np.int64)
    nearest = np.square(columns).sum(0)  # squared distance to the nearest picked point, at first the centroid
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
    """Centred, and over the largest coordinate: squares of very large or small numbers have no room."""
    centered = points - points.mean(0)
    centered -= centered.mean(0)  # the mean of numbers near 10⁶ is only good to 10⁻¹⁰
    largest = np.abs(centered).max()
    return centered / largest if largest > 0 else centered
