"""Which share of two pieces lies on each other, and whether that is enough to tell a pose."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

from bitr.refine.frame import Matrix, dot
from bitr.refine.matches import Partners, partners
from bitr.refine.surface import Surface, common_spacing

ACROSS = 0.5
"""Spacings that a point may be off the other surface."""
NEAR = 2.0
"""Spacings that its nearest point there may be away."""
ALIKE = 0.85
"""What |n · n'| must at least be: 32 degrees."""
FEWEST = 10
"""Points on each other without which nothing is held."""
LEAST = 0.2
"""Overlap from which a refined pose is taken. Two halves that touch along a cut, once a search has pulled
them over each other, stay below it; see docs/refinement.md."""


def overlap(x: Surface, y: Surface, ref_from_src: Matrix) -> float:
    """The larger of both pieces' shares of points that lie on the other's surface.

    Such a point has its nearest point away from the other surface's borders, both normals agree, and it is
    off that surface by less than half a spacing. Points beyond a border have border points nearest: pieces
    that only touch hardly overlap. Unchanged by a swap, by motions and by scale.
    """
    on = _on(partners(x, y, ref_from_src), common_spacing(x, y))
    return float(max(on[: len(x.points)].mean(), on[len(x.points) :].mean()))


def firmness(x: Surface, y: Surface, ref_from_src: Matrix) -> float:
    r"""How firmly the common surface holds the pose: 0 where it can slide along itself, as anything round.

    The least mean square, over all motions (ω, v) of length 1, of how far the points that lie on each other
    come off the surface, :math:`(p\times n)\cdot\omega + n\cdot v`, with their root mean square radius as the
    unit (Gelfand and Rusinkiewicz' slippage). Unchanged by a swap, by motions and by scale.
    """
    found = partners(x, y, ref_from_src)
    on = _on(found, common_spacing(x, y))
    middle, normal = (found.p + found.q)[on] / 2, found.normal[on]
    if len(middle) < FEWEST:
        return 0.0
    middle = middle - middle.mean(0)
    radius = np.sqrt(np.square(middle).sum(1).mean())
    rows = np.concatenate([np.cross(middle / radius, normal), normal], axis=1)
    return float(np.linalg.eigvalsh(rows.T @ rows / len(rows))[0])


def _on(found: Partners, spacing: float) -> Bool[np.ndarray, " m"]:
    """Which of the points lie on the other surface."""
    gap = found.p - found.q
    return (
        found.inside
        & (found.alike > ALIKE)
        & (np.abs(dot(gap, found.normal)) < ACROSS * spacing)
        & (np.linalg.norm(gap, axis=1) < NEAR * spacing)
    )
