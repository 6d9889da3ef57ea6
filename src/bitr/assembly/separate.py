"""Pieces that touch and do not intersect: penetration is taken out of a pose by the shortest motion."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.optimize import nnls
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.transform import Rotation

from bitr.assembly.align import Frame, Matrix, Points, check_finite, moved, moved_back, twist_motions
from bitr.assembly.solid import PROBES, OrientedPoints, Solid
from bitr.assembly.surface import NO_SURFACE, NUM_NEIGHBORS
from bitr.io import Geometry, as_points

ROUNDS = 30
FARTHEST = 0.25
"""Root mean square way of the points, over the unit of length, that is no correction any more."""
DEEP, ALIKE = 0.5, 0.9
"""Places that take part in a step: at least half as deep as the deepest, and with a way out within 26 degrees
of its own. Shallow places near an edge would ask for other ways; most come out with the deep ones."""
STIFF = 1e-6
"""Added to the moments of inertia: points on a line have none about it."""
CONTRADICTION = 1e-9
"""Remainder of the dual problem where the bounds contradict each other."""
NO_INSIDE = (
    "nothing tells the inside of the pieces: neither is a closed mesh, or has normals that point outwards"
)
BEHIND = "one piece is behind the other's surface and nowhere comes through it: that may be inside or not"


@dataclass(frozen=True, eq=False)
class Separation:
    """A pose after separation; where ``moved`` is False it is the pose that came in, to the last bit.

    Lengths are in the unit of the pieces.
    """

    pose: Matrix
    depth_before: float | None
    """How deep the deepest place of either piece is in the other; None where nothing tells inside from
    outside."""
    depth_after: float | None
    moved: bool
    reason: str
    """Why the pose was moved or left, in words."""
    free: bool = False
    """True where the pieces are out of each other now."""
    way: float = 0.0
    """Root mean square way of the points of both pieces against each other."""


def separate(source: Geometry, reference: Geometry, ref_from_src: Matrix) -> Separation:
    """The pose nearby in which neither piece reaches into the other by more than a tolerance.

    Moving or scaling the pieces moves or scales the answer; separate(Y, X, g⁻¹) is the inverse of
    separate(X, Y, g). Where no short motion frees the pieces, the pose stays as it is.
    """
    check_finite(source.points, reference.points, ref_from_src)
    shown = [as_points(side, PROBES, seed=0).points for side in (source, reference)]
    frame = Frame.of(shown[0], shown[1])
    if min(map(len, shown)) < NUM_NEIGHBORS or not frame.unit > 0:
        return Separation(ref_from_src, None, None, False, NO_SURFACE)
    x = Solid.of(replace(source, points=frame.source(source.points)))
    y = Solid.of(replace(reference, points=frame.reference(reference.points)))
    if x.inside is None and y.inside is None:
        return Separation(ref_from_src, None, None, False, NO_INSIDE)
    found = _free(x, y, frame.inside(ref_from_src))
    before, after = found.depth_before, found.depth_after
    return replace(
        found,
        pose=frame.outside(found.pose) if found.moved else ref_from_src,
        depth_before=None if before is None else frame.unit * before,
        depth_after=None if after is None else frame.unit * after,
        way=frame.unit * found.way,
    )


def _free(x: Solid, y: Solid, start: Matrix) -> Separation:
    """Separate by cutting planes: each step adds what the deepest places ask for to what was asked before."""
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
class Correction:
    """Both pieces moved by half of a motion D, in opposite ways; the source's points p come to D p."""

    center: Float64[np.ndarray, " 3"]
    twist: Float64[np.ndarray, " 6"]
    """The twist (ω, v) of D; its opposite is the inverse of D."""

    @property
    def half_turn(self) -> Float64[np.ndarray, "3 3"]:
        return Rotation.from_rotvec(self.twist[:3] / 2).as_matrix()

    @property
    def matrix(self) -> Matrix:
        return twist_motions(self.center, self.twist)

    def half_way_back(self, places: Points) -> Points:
        """From the reference's coordinates to the middle between both pieces: R(−ω/2) T(−v/2)."""
        return (places - self.center - self.twist[3:] / 2) @ self.half_turn + self.center


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
        found = inside.signed(moved_back(probes, ref_from_it))
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


def crossing(
    distance: Float64[np.ndarray, " n"], neighbors: Int64[np.ndarray, "n _"], tolerance: float
) -> Bool[np.ndarray, " n"]:
    """Places that hang together, over places of known distance, with one in front by more than a tolerance.

    A piece that is behind a surface and nowhere comes through it may be in the open: in a tube, or behind a
    scan.
    """
    n, known = len(distance), np.isfinite(distance)
    here, there = np.repeat(np.arange(n), neighbors.shape[1]), neighbors.ravel()
    both = known[here] & known[there]
    graph = coo_array((np.ones(both.sum()), (here[both], there[both])), shape=(n, n))
    patch = connected_components(graph, directed=False)[1]
    return known & np.isin(patch, patch[known & (distance > tolerance)])


def inertia(
    source: Points, reference: Points, center: Float64[np.ndarray, " 3"]
) -> Float64[np.ndarray, "6 6"]:
    r"""M such that :math:`\xi^\top M \xi` is the mean of :math:`\|v + \omega\times(p - c)\|^2`.

    Over the points of both pieces, either of which counts half; c must be the mean of their means.
    """
    spreads = [(points - center).T @ (points - center) / len(points) for points in (source, reference)]
    spread = (spreads[0] + spreads[1]) / 2
    mass = np.eye(6)
    mass[:3, :3] = (np.trace(spread) + STIFF) * np.eye(3) - spread
    return mass


def shortest(
    rows: Float64[np.ndarray, "m 6"], bounds: Float64[np.ndarray, " m"], mass: Float64[np.ndarray, "6 6"]
) -> Float64[np.ndarray, " 6"] | None:
    r"""The twist of least :math:`\xi^\top M \xi` with :math:`A \xi \ge b`; None where there is none.

    Least distance programming by non-negative least squares (Lawson and Hanson 1974, chapter 23): with
    :math:`M = L L^\top`, :math:`E = [(A L^{-\top})^\top;\, b^\top]` and f = (0, …, 0, 1), the residual r of
    :math:`\min_{u \ge 0} \|E u - f\|` gives :math:`L^\top \xi = -r_{1..6} / r_7`.
    """
    largest = float(np.abs(bounds).max(initial=0.0))
    if largest == 0:
        return np.zeros(6)
    root = np.linalg.cholesky(mass)
    dual = np.concatenate([np.linalg.solve(root, rows.T), bounds[None] / largest])
    target = np.eye(7)[6]
    residual = dual @ nnls(dual, target)[0] - target
    if np.linalg.norm(residual) < CONTRADICTION:
        return None
    return largest * np.linalg.solve(root.T, -residual[:6] / residual[6])
