"""From two clouds to the motion that their common surface tells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from bitr.io.subsample import farthest_points
from bitr.refine.frame import Matrix, Points
from bitr.refine.icp import bring_together, icp
from bitr.refine.matching.consistency import best_motion
from bitr.refine.matching.descriptors import descriptors
from bitr.refine.overlap import firmness, overlap
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
CONVINCING = 11.0
"""Correspondences that agree, times the overlap that ICP makes of them, from which a motion is believed:
halves of a cut, which have no surface in common, stay below it; see docs/refinement.md."""
FIRM = 0.0045
"""Firmness below which the common surface slides: halves of a jug lie on each other in any turn of it."""


def match(source: Points, reference: Points, ref_from_src: Matrix) -> Refinement:
    """The pose that most of the two surfaces agrees with, wherever it is; for pieces that overlap.

    Each point is described by its surroundings. Points that are most alike both ways are doubtful
    correspondences; the motion that most of them are compatible with, and the given pose, both go through
    ICP, and the one under which the pieces overlap more is taken. No number is random, lengths are in
    spacings and both sides are treated alike, so that all laws of ``icp`` hold here too.
    """
    return refined(source, reference, ref_from_src, _most_overlap, from_anywhere=True)


def auto(source: Points, reference: Points, ref_from_src: Matrix) -> Refinement:
    """For pieces of which nothing is known: as ``match`` where much speaks for it, otherwise as ``icp``."""
    told = refined(source, reference, ref_from_src, _convincing, from_anywhere=True)
    return told if told.moved else icp(source, reference, ref_from_src)


def _most_overlap(x: Surface, y: Surface, ref_from_src: Matrix) -> tuple[Matrix, int]:
    near, steps = bring_together(x, y, ref_from_src)
    far = evident_motion(x, y)
    if far is None:
        return near, steps
    return (far.pose if far.overlap > overlap(x, y, near) else near), steps + far.iterations


def _convincing(x: Surface, y: Surface, ref_from_src: Matrix) -> tuple[Matrix, int] | None:
    found = evident_motion(x, y)
    if found is None or found.evidence <= CONVINCING or firmness(x, y, found.pose) <= FIRM:
        return None
    return found.pose, found.iterations


@dataclass(frozen=True, eq=False)
class Evident:
    """A motion that two surfaces tell, and what speaks for it."""

    pose: Matrix
    agreeing: float
    """Correspondences that agree, each counted from 0 to 1."""
    overlap: float
    iterations: int

    @property
    def evidence(self) -> float:
        return self.agreeing * self.overlap


def evident_motion(x: Surface, y: Surface) -> Evident | None:
    """What the surfaces tell without a start; None where they tell nothing at all."""
    start = common_motion(_few(x), _few(y))
    if start is None:
        return None
    motion, agreeing = start
    found, steps = bring_together(x, y, motion)
    return Evident(found, agreeing, overlap(x, y, found), steps)


def common_motion(x: Surface, y: Surface) -> tuple[Matrix, float] | None:
    """What the correspondences of two surfaces agree on, and how many do; None where they do not at all."""
    spacing = common_spacing(x, y)
    i, j = _alike(descriptors(x, spacing) @ descriptors(y, spacing).T)
    return best_motion(x.points[i], y.points[j], TOLERANCE * spacing)


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
