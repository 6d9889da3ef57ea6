"""Pieces in different units: the ratio of their scales, where they share a surface."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from bitr.assembly.align import Matrix, Points, centroid, dot, radius
from bitr.assembly.match import correspond, match_motions
from bitr.assembly.overlay import NOISY, match_nearest, overlaps
from bitr.assembly.sample import DENSE, spread_draw
from bitr.assembly.surface import Surface, common_noise, common_spacing
from bitr.io import Geometry, as_points, farthest_points

POINTS, FEWEST = 1000, 150
"""Most and fewest points of a piece that are looked at."""
STEP, STEPS = 1.1, 8
"""Ratios of the sizes that are tried: powers of a step, so many on either side of 1."""
AGREED, SETTLED = 3, 10
"""Motions of each ratio that are looked at, and those of all ratios that are settled."""
KEPT, SAME = 3, 0.05
"""Ratios that are told, and the difference of logarithms below which two are one."""
WIDEST, ROUNDS = 4.0, 12
"""First width of the kernel in spacings, and steps that settle motion and ratio together."""
DAMPING, MOST = 1e-6, 0.05
"""Damping of a step over its curvature, and most that it changes the logarithm of the ratio."""

log = logging.getLogger("bitr")


@dataclass(frozen=True, eq=False)
class Sized:
    """Points of a piece about their centroid, over their size; the first few already cover it."""

    points: Points
    size: float
    """Root mean square distance from the centroid."""
    area: float
    """Up to a factor, from the distances of neighbours."""

    @classmethod
    def of(cls, piece: Geometry, seed: int) -> Sized:
        points = as_points(piece, DENSE, seed).points
        points = points[spread_draw(points, DENSE)]
        points = points[farthest_points(points, min(POINTS, len(points)))]
        centered = points - centroid(points)
        size = radius(centered)
        return cls(centered / size, size, len(points) * Surface.of(centered / size).spacing ** 2)


def scale_ratios(source: Geometry, reference: Geometry, seed: int = 0) -> list[float]:
    """Lengths of the reference over those of the source, the likeliest ratio first.

    The pieces are brought to one size, and to a few sizes more and less. Places that look alike vote for
    motions, and ratio and motion are settled together where surfaces lie on each other. Motions of the pieces
    change nothing, a swap inverts the ratios, and scaling a piece scales them.
    """
    x, y = Sized.of(source, seed), Sized.of(reference, seed)
    found: list[tuple[float, float, Matrix]] = []
    for k in range(-STEPS, STEPS + 1):
        log.info("trying scale %d of %d", k + STEPS + 1, 2 * STEPS + 1)
        found += _agreed(x, y, STEP**k)
    found.sort(key=lambda each: -each[0])
    settled = sorted((_settle(x, y, *each[1:]) for each in found[:SETTLED]), key=lambda each: -each[0])
    ratios: list[float] = []
    for _, ratio in settled:
        if all(abs(np.log(ratio / other)) > SAME for other in ratios):
            ratios.append(ratio)
    return [ratio * y.size / x.size for ratio in ratios[:KEPT] or [1.0]]


def _agreed(x: Sized, y: Sized, ratio: float) -> list[tuple[float, float, Matrix]]:
    """Motions that places agree on when the source is scaled by the ratio, and how much speaks for each."""
    a, b = _surfaces(x, y, ratio)
    places = correspond(a, b)
    motions = match_motions(places, AGREED)
    shares = [overlaps(a, b, motion).larger for motion in motions]
    return [(s * n, ratio, m) for s, n, m in zip(shares, places.support(motions), motions, strict=True)]


def _surfaces(x: Sized, y: Sized, ratio: float) -> tuple[Surface, Surface]:
    """Both pieces at equal density, one scaled by the root of the ratio and the other by its inverse."""
    densities = len(x.points) / (x.area * ratio), len(y.points) / (y.area / ratio)
    thin = [min(densities) / own for own in densities]
    few, less = (max(FEWEST, round(len(s.points) * share)) for s, share in zip((x, y), thin, strict=True))
    return Surface.of(x.points[:few] * np.sqrt(ratio)), Surface.of(y.points[:less] / np.sqrt(ratio))


def _settle(x: Sized, y: Sized, ratio: float, motion: Matrix) -> tuple[float, float]:
    """How well the surfaces lie on each other at the ratio near the given one where they do best, and it.

    Two-sided ICP whose step also scales: the source by the root of a factor, the reference by its inverse.
    """
    for width in WIDEST ** np.linspace(1, 0, ROUNDS):
        a, b = _surfaces(x, y, ratio)
        found = match_nearest(a, b, motion, width * max(common_spacing(a, b), NOISY * common_noise(a, b)))
        weight, total = found.weight, found.weight.sum()
        if not total > 0:
            return 0.0, ratio
        middle = (found.p + found.q) / 2
        center = weight @ middle / total
        arm, normal = middle - center, found.normal
        rows = np.concatenate([np.cross(arm, normal), normal, dot(arm, normal)[:, None]], axis=1)
        curvature = rows.T @ (weight[:, None] * rows)
        curvature += DAMPING * np.trace(curvature) * np.eye(7)
        step = np.linalg.solve(curvature, rows.T @ (weight * dot(found.q - found.p, normal)))
        # half of the step for either side, so that a swap inverts it; the reference shrinks by the root
        half, root = Rotation.from_rotvec(step[:3] / 2).as_matrix(), np.exp(np.clip(step[6], -MOST, MOST) / 2)
        place = half @ (root * half @ (motion[:3, 3] - center) + step[3:6])
        motion = motion.copy()
        motion[:3, :3] = half @ half @ motion[:3, :3]
        motion[:3, 3] = center / root + place
        ratio *= float(root**2)
    a, b = _surfaces(x, y, ratio)
    return float(correspond(a, b).support(motion[None])[0] * overlaps(a, b, motion).larger), ratio
