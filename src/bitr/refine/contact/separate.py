"""Pieces that touch and do not intersect: penetration is taken out of a pose by the shortest motion."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64

from bitr.data.poses import inverse
from bitr.io import Geometry, as_points
from bitr.refine.contact.correction import Correction, inertia, shortest
from bitr.refine.contact.crossing import crossing
from bitr.refine.contact.oriented import OrientedPoints
from bitr.refine.contact.separation import Separation
from bitr.refine.contact.solid import PROBES, Solid
from bitr.refine.frame import Frame, Matrix, moved
from bitr.refine.search import check
from bitr.refine.surface import NUM_NEIGHBORS

ROUNDS = 30
FARTHEST = 0.25
"""Root mean square way of the points, of the unit of length, that is no correction any more."""
DEEP, ALIKE = 0.5, 0.9
"""Places that take part in a step: at least half as deep as the deepest, and with a way out within 26 degrees
of its own. Shallow places near an edge would ask for other ways; most come out with the deep ones."""
NO_SURFACE = f"fewer than {NUM_NEIGHBORS} points, or all at one place, show no surface"
NO_INSIDE = (
    "nothing tells the inside of the pieces: neither is a closed mesh, or has normals that point outwards"
)
BEHIND = "one piece is behind the other's surface and nowhere comes through it: that may be inside or not"


def separate(source: Geometry, reference: Geometry, ref_from_src: Matrix) -> Separation:
    """The pose nearby in which neither piece reaches into the other by more than a tolerance.

    Moving or scaling the pieces moves or scales the answer; separate(Y, X, g⁻¹) is the inverse of
    separate(X, Y, g). Where no short motion frees the pieces, the pose stays as it is.
    """
    check(source.points, reference.points, ref_from_src)
    shown = [as_points(side, PROBES, seed=0).points for side in (source, reference)]
    frame = Frame.of(shown[0], shown[1])
    if min(map(len, shown)) < NUM_NEIGHBORS or not frame.unit > 0:
        return Separation(ref_from_src, None, None, False, NO_SURFACE)
    x = Solid.of(replace(source, points=frame.source(source.points)))
    y = Solid.of(replace(reference, points=frame.reference(reference.points)))
    if x.inside is None and y.inside is None:
        return Separation(ref_from_src, None, None, False, NO_INSIDE)
    return _in_unit(frame, ref_from_src, _freed(x, y, frame.inside(ref_from_src)))


def _freed(x: Solid, y: Solid, start: Matrix) -> Separation:
    """By cutting planes: each step adds what the deepest places ask for to what was asked for before."""
    tolerance, there = max(x.tolerance, y.tolerance), moved(x.probes, start)
    correction = Correction((there.mean(0) + y.probes.mean(0)) / 2, np.zeros(6))
    mass = inertia(there, y.probes, correction.center)
    found = contacts(x, y, start, correction)
    before = found.depth
    if before <= tolerance and found.behind > tolerance:
        return Separation(start, None, None, False, BEHIND)
    if before <= tolerance:
        return Separation(start, before, before, False, "the pieces do not reach into each other", True)
    rows, bounds, doubt = np.zeros((0, 6)), np.zeros(0), f"no way out was found in {ROUNDS} steps"
    for step in range(1, ROUNDS + 1):
        deep = found.rows[found.like_deepest]
        rows = np.concatenate([rows, deep])
        to_go = deep @ correction.twist - found.distance[found.like_deepest] - tolerance / 2
        bounds = np.concatenate([bounds, to_go])
        twist = shortest(rows, bounds, mass)
        if twist is None:
            doubt = "the pieces interlock: what frees one place pushes another in"
            break
        way = float(np.sqrt(twist @ mass @ twist))
        if way > FARTHEST:
            doubt = f"what would free the pieces moves them by more than {FARTHEST:.0%} of their size"
            break
        correction = replace(correction, twist=twist)
        found = contacts(x, y, start, correction)
        if found.depth <= tolerance and found.behind > tolerance:
            doubt = BEHIND
            break
        if found.depth <= tolerance:
            reason = f"the pieces reached into each other; steps that freed them: {step}"
            return Separation(correction.matrix @ start, before, found.depth, True, reason, True, way)
    return Separation(start, before, before, False, doubt)


@dataclass(frozen=True, eq=False)
class Contacts:
    """Places of either piece inside the other; to first order a twist ξ adds A ξ to their distances."""

    distance: Float64[np.ndarray, " m"]
    rows: Float64[np.ndarray, "m 6"]
    behind: float
    """Depth of the deepest place that is not believed: behind an open surface that is nowhere crossed."""

    @property
    def depth(self) -> float:
        return 0.0 - float(self.distance.min(initial=0.0))

    @property
    def like_deepest(self) -> Bool[np.ndarray, " m"]:
        ways = self.rows[:, 3:]
        alike = ways @ ways[int(np.argmin(self.distance))] >= ALIKE
        return alike & (self.distance <= -DEEP * self.depth)


def contacts(x: Solid, y: Solid, start: Matrix, correction: Correction) -> Contacts:
    """Places of the source in the reference, then of the reference in the source.

    Seen from half way between both pieces, as ``Correction`` is: a swap changes the sign of A, and no more.
    """
    ref_from_src, lonely = correction.matrix @ start, max(x.lonely, y.lonely)
    distances, rows, behind = [], [], 0.0
    for piece, probes, inside, ref_from_it, sign in (
        (x, moved(x.probes, ref_from_src), y.inside, np.eye(4), 1.0),
        (y, y.probes, x.inside, ref_from_src, -1.0),
    ):
        if inside is None:
            continue
        found = inside.signed(moved(probes, inverse(ref_from_it)))
        deepest_first = np.argsort(found.distance, kind="stable")[: np.count_nonzero(found.distance < 0)]
        chosen = deepest_first[lonely:]
        if isinstance(inside, OrientedPoints):  # which may be open
            believed = crossing(found.distance, piece.neighbors, max(x.tolerance, y.tolerance))[chosen]
            behind = max(behind, 0.0 - float(found.distance[chosen][~believed].min(initial=0.0)))
            chosen = chosen[believed]
        way = sign * found.outward[chosen] @ ref_from_it[:3, :3].T @ correction.half_turn
        arm = correction.half_way_back(probes[chosen]) - correction.center
        distances.append(found.distance[chosen])
        rows.append(np.concatenate([np.cross(arm, way), way], axis=1))
    return Contacts(np.concatenate(distances), np.concatenate(rows), behind)


def _in_unit(frame: Frame, ref_from_src: Matrix, found: Separation) -> Separation:
    """What was found in coordinates without a unit; a pose that was left is the one that came in."""
    before, after = found.depth_before, found.depth_after
    return replace(
        found,
        pose=frame.outside(found.pose) if found.moved else ref_from_src,
        depth_before=None if before is None else frame.unit * before,
        depth_after=None if after is None else frame.unit * after,
        way=frame.unit * found.way,
    )
