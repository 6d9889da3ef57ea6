"""From two clouds to the motion that their common surface tells."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Int64

from bitr.data.poses import pose
from bitr.io.subsample import farthest_points
from bitr.refine.frame import Matrix, Points
from bitr.refine.icp import bring_together
from bitr.refine.matching.consistency import best_motion
from bitr.refine.matching.descriptors import descriptors
from bitr.refine.overlap import overlap
from bitr.refine.refinement import Refinement
from bitr.refine.search import refined
from bitr.refine.surface import Surface, common_spacing

POINTS = 1200
"""Most points of a piece that are described."""
CANDIDATES = 3
"""Points of the other piece that a point may correspond to, if it is one of theirs in turn."""
MOST = 1000
"""Correspondences that are tried, the most alike of them."""
TOLERANCE = 1.5
"""Spacings that two lengths may differ."""


def match(source: Points, reference: Points, ref_from_src: Matrix) -> Refinement:
    """The pose that most of the two surfaces agrees with, wherever it is; for pieces that overlap.

    Each point is described by its surroundings. Points that are most alike both ways are doubtful
    correspondences; the motion that most of them are compatible with, and the given pose, both go through
    ICP, and the one under which the pieces overlap more is taken. No number is random, lengths are in
    spacings and both sides are treated alike, so that all laws of ``icp`` hold here too.
    """
    return refined(source, reference, ref_from_src, _search, from_anywhere=True)


def _search(x: Surface, y: Surface, ref_from_src: Matrix) -> tuple[Matrix, int]:
    near, steps = bring_together(x, y, ref_from_src)
    start = common_motion(_few(x), _few(y))
    if start is None:
        return near, steps
    far, more = bring_together(x, y, start)
    return (far if overlap(x, y, far) > overlap(x, y, near) else near), steps + more


def common_motion(x: Surface, y: Surface) -> Matrix | None:
    """What the correspondences of two surfaces agree on; None where they agree on nothing."""
    spacing = common_spacing(x, y)
    i, j = _alike(descriptors(x, spacing) @ descriptors(y, spacing).T)
    found = best_motion(x.points[i], y.points[j], TOLERANCE * spacing)
    return None if found is None else pose(*found)


def _few(surface: Surface) -> Surface:
    points = surface.points
    return surface if len(points) <= POINTS else Surface.of(points[farthest_points(points, POINTS)])


def _alike(similarity: Float64[np.ndarray, "n m"]) -> tuple[Int64[np.ndarray, " c"], Int64[np.ndarray, " c"]]:
    """Pairs that are among the nearest of each other, the most alike first."""
    i, j = np.nonzero(_nearest(similarity) & _nearest(similarity.T).T)
    order = np.argsort(-similarity[i, j], kind="stable")[:MOST]
    return i[order], j[order]


def _nearest(similarity: Float64[np.ndarray, "n m"]) -> Bool[np.ndarray, "n m"]:
    """Whether a column is among the most alike of its row."""
    count = min(CANDIDATES, similarity.shape[1])
    rows = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
    found = np.zeros(similarity.shape, dtype=bool)
    np.put_along_axis(found, rows, True, axis=1)
    return found
