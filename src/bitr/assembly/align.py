"""Motions of a pair: its frame, Arun's method, which motions are one, and the step that aligns points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from scipy.spatial.transform import Rotation
from torch import Tensor

from bitr.data.poses import inverse
from bitr.errors import InputError
from bitr.groups import Rigid, nearest_rotation

Points = Float64[np.ndarray, "_ 3"]
Vectors = Float64[np.ndarray, "... 3"]
Numbers = Float64[np.ndarray, " _"]
Matrix = Float64[np.ndarray, "4 4"]
Motions = Float64[np.ndarray, "_ 4 4"]
Scalars = Float64[np.ndarray, "..."]
Poses = Float64[np.ndarray, "... 4 4"]
"""One motion or many."""
NO_MOTION = np.empty((0, 4, 4))
SAME_TURN, SAME_SHIFT = np.radians(12), 0.12
"""Motions are one up to this angle and this share of the pieces' size."""


def moved(points: Vectors, motions: Poses) -> Vectors:
    """Points under one motion or under each of many."""
    return points @ motions[..., :3, :3].swapaxes(-1, -2) + motions[..., None, :3, 3]


def moved_back(points: Vectors, motions: Poses) -> Vectors:
    """Points under the inverse motions."""
    return moved(points, inverse(motions))


def motions_between(rotations: Float64[np.ndarray, "*g 3 3"], places: Vectors, targets: Vectors) -> Poses:
    """The motions with given rotations that take places to their targets."""
    motions = np.zeros((*rotations.shape[:-2], 4, 4))
    motions[..., 3, 3] = 1
    motions[..., :3, :3] = rotations
    motions[..., :3, 3] = targets - np.einsum("...ij,...j->...i", rotations, places)
    return motions


def dot(a: Vectors, b: Vectors) -> Scalars:
    """Inner products of vectors."""
    return np.einsum("...i,...i->...", a, b)


def squares(vectors: Vectors) -> Scalars:
    """Squared lengths."""
    return dot(vectors, vectors)


def lengths(vectors: Vectors) -> Scalars:
    return np.sqrt(squares(vectors))


def root_mean_square(a: float, b: float) -> float:
    return float(np.hypot(a, b) / np.sqrt(2))


def centroid(points: Points) -> Vectors:
    """The mean, also of clouds far from the origin."""
    center = points.mean(0)
    return center + (points - center).mean(0)  # the mean of numbers near 10⁶ is only good to 10⁻¹⁰


def radius(centered: Points) -> float:
    """Root mean square length; squares of very large or small numbers have no room."""
    largest = np.abs(centered).max()
    return float(largest * np.sqrt(np.square(centered / largest).sum(1).mean())) if largest > 0 else 0.0


def check_finite(source: Points, reference: Points, ref_from_src: Matrix) -> None:
    """Refuse clouds that are empty, and numbers that are not finite."""
    for name, values in (("source", source), ("reference", reference), ("pose", ref_from_src)):
        if not len(values) or not np.isfinite(values).all():
            raise InputError(f"{name}: is empty or not finite, expected finite numbers")


@dataclass(frozen=True, eq=False)
class Frame:
    """Either piece about its own centroid, lengths over one length of both: their root mean square radius.

    The coordinates turn with the pieces and are free of shifts and scales; a swap of the pieces swaps them.
    """

    source_center: Vectors
    reference_center: Vectors
    unit: float

    @classmethod
    def of(cls, source: Points, reference: Points) -> Frame:
        x, y = centroid(source), centroid(reference)
        return cls(x, y, root_mean_square(radius(source - x), radius(reference - y)))

    def source(self, points: Points) -> Points:
        return (points - self.source_center) / self.unit

    def reference(self, points: Points) -> Points:
        return (points - self.reference_center) / self.unit

    def inside(self, poses: Poses) -> Poses:
        """The same poses in these coordinates."""
        found = poses.copy()
        found[..., :3, 3] += poses[..., :3, :3] @ self.source_center - self.reference_center
        found[..., :3, 3] /= self.unit
        return found

    def outside(self, poses: Poses) -> Poses:
        """Poses of these coordinates in those of the pieces."""
        found = poses.copy()
        found[..., :3, 3] *= self.unit
        found[..., :3, 3] += self.reference_center - poses[..., :3, :3] @ self.source_center
        return found


@dataclass(frozen=True)
class Freedom:
    """The motions that an answer may be: shifts, and turns of the files of any kind, about one axis, or none.

    They are a group, and all that is done within it commutes with it: an answer that turns about z alone
    moves with pieces that are turned about z alone.
    """

    turns: str = "any"
    """``any``, ``x``, ``y``, ``z`` or ``none``."""

    @property
    def is_full(self) -> bool:
        return self.turns == "any"

    @property
    def twists(self) -> list[int]:
        """Places of the twist (ω, v) that may differ from 0."""
        turns = {"any": [0, 1, 2], "none": []}
        return [*turns.get(self.turns, ["xyz".find(self.turns)]), 3, 4, 5]

    def project(self, poses: Poses) -> Poses:
        """The nearest motions that are allowed, in the coordinates of a frame.

        The shift is the mean of two: one moves the source's centroid as the motion does, the other the
        reference's as its inverse does. So a swap of the pieces inverts the answer.
        """
        if self.is_full:
            return poses
        rotation, shift = poses[..., :3, :3], poses[..., :3, 3]
        nearest = np.broadcast_to(np.eye(3), rotation.shape).copy()
        if self.turns != "none":
            k = "xyz".index(self.turns)
            i, j = (k + 1) % 3, (k + 2) % 3
            angle = np.arctan2(
                rotation[..., j, i] - rotation[..., i, j], rotation[..., i, i] + rotation[..., j, j]
            )
            nearest[..., i, i] = nearest[..., j, j] = np.cos(angle)
            nearest[..., j, i], nearest[..., i, j] = np.sin(angle), -np.sin(angle)
        back = np.einsum("...ij,...kj,...k->...i", nearest, rotation, shift)
        found = poses.copy()
        found[..., :3, :3], found[..., :3, 3] = nearest, (shift + back) / 2
        return found

    def tilt(self, pose: Matrix) -> float:
        """Angle in radians by which a motion turns otherwise than is allowed."""
        return float(angles((self.project(pose)[:3, :3].T @ pose[:3, :3])[None])[0])

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let every step of least squares in here stay within these motions."""
        before = HELD.set(self)
        try:
            yield
        finally:
            HELD.reset(before)


ANY = Freedom()
HELD: ContextVar[Freedom] = ContextVar("HELD", default=ANY)
"""The freedom of all steps at present: every way to finish a pose ends in ``TwistFit``."""


def side_by_side(*calls: Callable[[], Any]) -> list[Any]:
    """The results of independent calls, on as many threads as torch has; what is held stays held."""
    with ThreadPoolExecutor(max(1, min(len(calls), torch.get_num_threads()))) as pool:
        return [future.result() for future in [pool.submit(copy_context().run, call) for call in calls]]


def arun(
    source: Float[Tensor, "*b n 3"],
    reference: Float[Tensor, "*b n 3"],
    weights: Float[Tensor, "*b n"] | None = None,
) -> Rigid:
    r"""Arun's method (Sec. 3.2): the best rigid motion between points whose correspondence is known.

    Minimises :math:`\sum_i w_i \|r x_i + t - y_i\|^2`, with non-negative weights (default: all equal):
    r = SVD(Σ wᵢ ȳᵢ x̄ᵢᵀ), t = m(Y) − r m(X). Bi-, swap- and scale-equivariant where the rotation is unique:
    the weighted points must span at least a plane. Computed in double precision.
    """
    if source.shape != reference.shape:
        raise InputError(
            f"got {tuple(source.shape)} and {tuple(reference.shape)}: expected corresponding points"
        )
    if weights is None:
        weights = source.new_ones(source.shape[:-1])
    if weights.shape != source.shape[:-1]:
        raise InputError(f"got weights of shape {tuple(weights.shape)}, expected {tuple(source.shape[:-1])}")
    if not all(bool(values.isfinite().all()) for values in (source, reference, weights)):
        raise InputError("points and weights must be finite; drop NaN and infinite rows first")
    if bool((weights < 0).any()) or bool((weights.sum(-1) <= 0).any()):
        raise InputError("weights must not be negative, nor all 0")
    x, y, w = source.double(), reference.double(), weights.double()[..., None]
    share = w / w.sum(-2, keepdim=True)
    x_mean, y_mean = (share * x).sum(-2, keepdim=True), (share * y).sum(-2, keepdim=True)
    rotation = nearest_rotation((share * (y - y_mean)).mT @ (x - x_mean))
    pose = Rigid(rotation, (y_mean - x_mean @ rotation.mT)[..., 0, :])
    return pose.to(torch.promote_types(source.dtype, reference.dtype))


def angles(rotations: Float64[np.ndarray, "*c 3 3"]) -> Float64[np.ndarray, "*c"]:
    """Angles of rotations in radians, from 0 to π; exact also for small ones."""
    r = rotations
    sine = np.sqrt(
        np.square(r[..., 2, 1] - r[..., 1, 2])
        + np.square(r[..., 0, 2] - r[..., 2, 0])
        + np.square(r[..., 1, 0] - r[..., 0, 1])
    )
    return np.arctan2(sine, np.trace(r, axis1=-2, axis2=-1) - 1)


def differences(motions: Motions, motion: Matrix) -> tuple[Numbers, Numbers]:
    """Angle and shift between each of the motions and one, in the coordinates of the frame.

    There the centroids are the origin: a motion moves them by its translation, and its inverse by the
    translation turned back. The shift is the mean of both, so that a swap of the pieces does not change it.
    """
    turn = angles(motions[:, :3, :3] @ motion[:3, :3].T)
    there = lengths(motions[:, :3, 3] - motion[:3, 3])
    back = lengths(_origins(motions) - _origins(motion[None]))
    return turn, (there + back) / 2


def gaps(motions: Motions, motion: Matrix, turn: float = SAME_TURN, shift: float = SAME_SHIFT) -> Numbers:
    """How far motions are from one, at most 1 where they give the same assembly."""
    turned, shifted = differences(motions, motion)
    return np.maximum(turned / turn, shifted / shift)


def distinct(
    motions: Motions, score: Numbers, most: int, turn: float, shift: float = np.inf
) -> Int64[np.ndarray, " k"]:
    """Numbers of motions that differ from all better ones by an angle or by a shift, best first."""
    kept, is_open = list[int](), np.ones(len(motions), dtype=bool)
    for i in np.argsort(-score, kind="stable"):
        if is_open[i]:
            kept.append(int(i))
            if len(kept) == most:
                break
            turned, shifted = differences(motions, motions[i])
            is_open &= (turned >= turn) | (shifted >= shift)
    return np.array(kept, dtype=np.int64)


def agreement(motions: Motions, turn: float, shift: float) -> Numbers:
    """How many motions are like each one, counted from 0 to 1: less the more they differ."""
    rotation = motions[:, :3, :3].reshape(-1, 9)
    squared = (3 - rotation @ rotation.T) / turn**2  # 3 − tr(aᵀb) is the squared angle where it is small
    for places in (motions[:, :3, 3], _origins(motions)):
        square = squares(places)
        squared += (square[:, None] + square - 2 * places @ places.T) / (2 * shift**2)
    return np.clip(1 - squared, 0, None).sum(1)


def _origins(motions: Motions) -> Points:
    """Places that the motions take to the origin."""
    return -np.einsum("gji,gj->gi", motions[:, :3, :3], motions[:, :3, 3])


class TwistFit:
    r"""Least squares for a twist ξ = (ω, v) that brings points p to points q; one for each motion.

    With p turned by ω/2 and q by −ω/2 about the weighted mean c of all midpoints, and shifted by ±v/2, to
    first order :math:`p - q` becomes :math:`p - q + \omega\times(\tfrac{p+q}{2} - c) + v`: Rusinkiewicz'
    symmetric objective. The motion D shifts by v/2, turns by ω about c and shifts by v/2. Swapping p and q
    changes the sign of ω and v, and so inverts D, exactly.
    """

    def __init__(self, p: Vectors, q: Vectors, weight: Float64[np.ndarray, "*g m"]) -> None:
        self.weight = weight / weight.sum(-1, keepdims=True)
        middle = (p + q) / 2
        self.center = np.einsum("...m,...mi->...i", self.weight, middle)
        self.arm, self.gap = middle - self.center[..., None, :], p - q
        self.a, self.b = np.zeros((*weight.shape[:-1], 6, 6)), np.zeros((*weight.shape[:-1], 6))

    def add_distance(self, direction: Vectors, precision: float = 1.0) -> None:
        """Add the squares of (p − q)·direction."""
        rows = np.concatenate([np.cross(self.arm, direction), direction], axis=-1)
        scaled = (precision * self.weight)[..., None] * rows
        self.a += scaled.swapaxes(-1, -2) @ rows
        self.b += np.einsum("...mi,...m->...i", scaled, dot(direction, self.gap))

    def add_all_distances(self, precision: float) -> None:
        """Add the squares of p − q, whatever its direction."""
        self.a[..., :3, :3] += precision * self._inertia(self.arm)
        self.a[..., 3:, 3:] += precision * np.eye(3)
        self.b[..., :3] += precision * self._mean(np.cross(self.arm, self.gap))
        self.b[..., 3:] += precision * self._mean(self.gap)

    def add_turn(self, mean: Vectors, off: Vectors, precision: float) -> None:
        """Add the squares of ``off``, the difference of two directions: a turn changes it by ω × mean."""
        self.a[..., :3, :3] += precision * self._inertia(mean)
        self.b[..., :3] += precision * self._mean(np.cross(mean, off))

    def _inertia(self, vectors: Vectors) -> Float64[np.ndarray, "*g 3 3"]:
        """Weighted mean of |x|² 1 − x xᵀ, the squares of ω × x."""
        spread = (self.weight[..., None] * vectors).swapaxes(-1, -2) @ vectors
        return np.trace(spread, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - spread

    def _mean(self, vectors: Vectors) -> Vectors:
        return np.einsum("...m,...mi->...i", self.weight, vectors)

    @property
    def curvature(self) -> Float64[np.ndarray, "*g"]:
        """Mean curvature of the score."""
        return np.trace(self.a, axis1=-2, axis2=-1) / 6

    def solve(self, damping: float | Float64[np.ndarray, "*g"]) -> Poses:
        """The motions D; what the points do not tell stays as it is, by a damping of the twist."""
        damped = self.a + np.asarray(damping)[..., None, None] * np.eye(6)
        free = HELD.get().twists
        twist = np.zeros_like(self.b)
        twist[..., free] = -np.linalg.solve(damped[..., free, :][..., free], self.b[..., free, None])[..., 0]
        return twist_motions(self.center, twist)


def twist_motions(center: Vectors, twist: Float64[np.ndarray, "*g 6"]) -> Poses:
    """The motions T(v/2) R(ω) T(v/2) of twists (ω, v), turned about c; −ξ gives the inverse exactly."""
    turn = Rotation.from_rotvec(twist[..., :3].reshape(-1, 3)).as_matrix().reshape(*twist.shape[:-1], 3, 3)
    half = twist[..., 3:] / 2
    return motions_between(turn, center - half, center + half)
