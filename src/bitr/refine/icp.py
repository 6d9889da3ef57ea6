"""Two-sided ICP: nearest points in both directions, one symmetric score."""

from __future__ import annotations

import numpy as np

from bitr.refine.frame import Matrix, Points
from bitr.refine.matches import Matches, descend, partners
from bitr.refine.refinement import Refinement
from bitr.refine.search import refined
from bitr.refine.surface import Surface, common_noise, common_spacing

WIDEST = 0.25
"""First width of the kernel, of the unit of length; the last is one spacing."""
NOISY = 2.5
"""Standard deviations of the noise that the last width covers."""
NARROWING, AT_LAST = 16, 6
"""Steps while the width shrinks, and steps at the last width."""


def icp(source: Points, reference: Points, ref_from_src: Matrix) -> Refinement:
    """The pose that brings the surfaces of both pieces together, near the given one.

    Moving or scaling the pieces moves or scales the answer; icp(Y, X, g⁻¹) is the inverse of icp(X, Y, g).
    Where too little overlaps, the pose stays as it is.
    """
    return refined(source, reference, ref_from_src, bring_together)


def bring_together(x: Surface, y: Surface, ref_from_src: Matrix) -> tuple[Matrix, int]:
    """The search itself: the pose where it ends, and its steps."""
    last = _last_width(x, y)
    widths = [*np.geomspace(max(WIDEST, last), last, NARROWING), *[last] * AT_LAST]
    return descend(x, y, ref_from_src, nearest_points, widths)


def _last_width(x: Surface, y: Surface) -> float:
    return max(common_spacing(x, y), NOISY * common_noise(x, y))


def polish(x: Surface, y: Surface, ref_from_src: Matrix) -> Matrix:
    """A few last steps from a pose that is nearly right."""
    width = _last_width(x, y)
    return descend(x, y, ref_from_src, nearest_points, [2 * width, width, width])[0]


def nearest_points(x: Surface, y: Surface, ref_from_src: Matrix, width: float) -> Matches:
    r"""Each point of both pieces and its nearest, of weight :math:`(1 + d^2/\sigma^2)^{-2} (n_p\cdot n_q)^2`.

    Geman-McClure's kernel forgets what is farther than a few widths σ: outliers, and parts that the other
    piece lacks. So does the rule that a border point is nobody's match (Turk and Levoy). Either piece counts
    half, however many points it has.
    """
    found = partners(x, y, ref_from_src)
    squared = np.square(found.p - found.q).sum(1)
    share = np.repeat([1 / len(x.points), 1 / len(y.points)], [len(x.points), len(y.points)])
    weight = share * found.inside * found.alike**2 / np.square(1 + squared / width**2)
    return Matches(found.p, found.q, found.normal, weight)
