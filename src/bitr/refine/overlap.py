"""Which share of two pieces lies on each other, and how firmly that holds a pose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from bitr.refine.frame import Matrix, dot
from bitr.refine.matches import Partners, partners
from bitr.refine.surface import Surface, common_noise, common_spacing

ACROSS, NOISY = 0.5, 2.5
"""What a point may be off the other surface: so many spacings, so many standard deviations of the noise."""
NEAR = 2.0
"""Spacings that its nearest point there may be away."""
ALIKE = 0.85
"""What |n · n'| must at least be: 32 degrees."""
LEANING = 1.5
"""How much less, for noise of one spacing: it tilts the normals."""
FEWEST = 10
"""Points on each other without which nothing is held."""
LEAST = 0.2
"""Overlap from which a refined pose is taken. Two halves that touch along a cut, once a search has pulled
them over each other, stay below it."""


@dataclass(frozen=True)
class Overlap:
    """What two surfaces have in common under a pose; nothing changes by a swap, by motions or by scale."""

    larger: float
    """Share of points that lie on the other piece's surface, of the piece that has more of them."""
    smaller: float
    """The same of the other piece."""
    residual: float
    """Root mean square distance of these points across the surface, in spacings."""
    firmness: float
    """How firmly the common surface holds the pose: 0 where it can slide along itself, as anything round."""


def overlap(x: Surface, y: Surface, ref_from_src: Matrix) -> float:
    """The larger of both pieces' shares of points that lie on the other's surface.

    Such a point has its nearest point away from the other surface's borders, both normals agree, and it is
    off that surface by less than half a spacing, or than the noise explains. Points beyond a border have
    border points nearest: pieces that only touch hardly overlap.
    """
    return overlaps(x, y, ref_from_src).larger


def firmness(x: Surface, y: Surface, ref_from_src: Matrix) -> float:
    r"""How firmly the common surface holds the pose: 0 where it can slide along itself, as anything round.

    The least mean square, over all motions (ω, v) of length 1, of how far the points that lie on each other
    come off the surface, :math:`(p\times n)\cdot\omega + n\cdot v`, with their root mean square radius as the
    unit (Gelfand and Rusinkiewicz' slippage). Unchanged by a swap, by motions and by scale.
    """
    return overlaps(x, y, ref_from_src).firmness


def overlaps(x: Surface, y: Surface, ref_from_src: Matrix) -> Overlap:
    """All that is said of the common surface."""
    return overlaps_of(partners(x, y, ref_from_src), x, y)


def overlaps_of(found: Partners, x: Surface, y: Surface) -> Overlap:
    """The same, from partners that have been found already."""
    spacing = common_spacing(x, y)
    on = _on(found, spacing, common_noise(x, y))
    shares = on[: len(x.points)].mean(), on[len(x.points) :].mean()
    gap, normal = (found.p - found.q)[on], found.normal[on]
    middle = (found.p + found.q)[on] / 2
    residual, firm = 0.0, 0.0
    if len(middle) >= FEWEST:
        residual = float(np.sqrt(np.square(dot(gap, normal)).mean())) / spacing
        middle = middle - middle.mean(0)
        radius = np.sqrt(np.square(middle).sum(1).mean())
        rows = np.concatenate([np.cross(middle / radius, normal), normal], axis=1)
        firm = max(0.0, float(np.linalg.eigvalsh(rows.T @ rows / len(rows))[0]))
    return Overlap(float(max(shares)), float(min(shares)), residual, firm)


def _on(found: Partners, spacing: float, noise: float) -> Bool[np.ndarray, " m"]:
    """Which of the points lie on the other surface."""
    gap = found.p - found.q
    across = np.hypot(ACROSS * spacing, NOISY * noise)
    return (
        found.inside
        & (found.alike > ALIKE - LEANING * min(noise / spacing, 0.3))
        & (np.abs(dot(gap, found.normal)) < across)
        & (np.linalg.norm(gap, axis=1) < np.hypot(NEAR * spacing, NOISY * noise))
    )
