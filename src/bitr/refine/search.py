"""What all refinements have in common: coordinates, fewer points, the search, and the verdict."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial.transform import Rotation

from bitr.errors import InputError
from bitr.io import even_draw
from bitr.refine.frame import Frame, Matrix, Points
from bitr.refine.overlap import LEAST, overlap
from bitr.refine.refinement import Refinement, left
from bitr.refine.surface import NUM_NEIGHBORS, Surface

MOST_POINTS = 2000
"""Of either cloud; of a larger one, an even draw."""
FARTHEST_TURN = 40.0
"""Degrees. A search that goes farther has lost its start, and found some other place to rest."""
CERTAIN = 0.5
"""Overlap from which on a pose is taken however far the search went: chance does not find that much."""

Search = Callable[[Surface, Surface, Matrix], tuple[Matrix, int] | None]
"""(source, reference, pose) → better pose, iterations; in coordinates without a unit. None: there is none."""


def refined(
    source: Points, reference: Points, ref_from_src: Matrix, search: Search, *, from_anywhere: bool = False
) -> Refinement:
    """Where the search ends, if the pieces overlap enough there for how far it is; else the pose given.

    A search ``from_anywhere`` may go far.
    """
    check(source, reference, ref_from_src)
    x, y = (points[even_draw(len(points), MOST_POINTS, 0)] for points in (source, reference))
    frame = Frame.of(x, y)
    if min(len(x), len(y)) < NUM_NEIGHBORS or not frame.unit > 0:
        return left(ref_from_src, f"fewer than {NUM_NEIGHBORS} points, or all at one place, show no surface")
    a, b = Surface.of(frame.source(x)), Surface.of(frame.reference(y))
    better = search(a, b, frame.inside(ref_from_src))
    if better is None:
        return left(ref_from_src, "the pieces have no surface in common that would tell a pose")
    found, iterations = better
    share, doubt = overlap(a, b, found), ""
    turn = np.degrees(Rotation.from_matrix(found[:3, :3] @ ref_from_src[:3, :3].T).magnitude())
    if share < LEAST:
        doubt = f", and below {LEAST:.0%} that does not tell a pose"
    elif not from_anywhere and share < CERTAIN and turn > FARTHEST_TURN:
        doubt = f", but only after a turn by {turn:.0f} degrees, which is no refinement"
    reason = f"the pieces overlap by {share:.0%}{doubt}"
    return Refinement(ref_from_src if doubt else frame.outside(found), not doubt, reason, iterations, share)


def check(source: Points, reference: Points, ref_from_src: Matrix) -> None:
    for name, values in (("source", source), ("reference", reference), ("pose", ref_from_src)):
        if not len(values) or not np.isfinite(values).all():
            raise InputError(f"{name}: is empty or not finite, expected finite numbers")
