"""Poses that symmetries make of one, and all right answers of a pair whose pieces are symmetric."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from bitr.assembly.align import Frame, Matrix, Motions, Numbers, Points, angles, gaps
from bitr.assembly.symmetry import Symmetries, symmetries
from bitr.data import AssemblyPair
from bitr.data.poses import inverse, move_points
from bitr.io import Geometry, as_points

SAME_TURN, SAME_SHIFT = np.radians(10), 0.1
"""Poses are one up to this angle and this share of the pieces' size."""
APART = 2.0
"""Poses that symmetries make of one are one up to this gap. Turns of a group are farther from each other; but
where both pieces are symmetric, and a pose is off by a few degrees, images of it are twice that apart."""
MANY = 24
"""Turns of a cube."""

SAMPLES = 1500
"""Points of a piece that is a mesh."""
SAME_ANGLE, SAME_PLACE = np.radians(6), 0.06
"""Angle and distance, over half the source's extent, up to which two lines, or two motions, are the same."""

NEAR = 2.5
"""Spacings within which points of both pieces touch."""
TURNS = (40.0, 90.0, 180.0, 250.0)
"""Angles in degrees that a joint is tried with where a pair has an axis."""

Line = Float64[np.ndarray, "2 3"]
"""Two points of a line."""
_remembered: dict[bytes, Symmetries] = {}


def pose_gaps(frame: Frame, poses: Motions, pose: Matrix) -> Numbers:
    """How far poses of a pair are from one, at most 1 where they give the same assembly."""
    return gaps(frame.inside(poses), frame.inside(pose), SAME_TURN, SAME_SHIFT)


@dataclass(frozen=True, eq=False)
class Orbit:
    """The poses that symmetries of the pieces make of a pose g. A swap of the pieces inverts them all."""

    every: Motions
    """All h_Y g h_X, also those that are about the same; g itself is the first."""
    larger: int
    """How many symmetries the piece with more of them has."""
    frame: Frame

    @classmethod
    def of(cls, pose: Matrix, source: Motions, reference: Motions, frame: Frame) -> Orbit:
        every = (reference[:, None] @ pose @ source).reshape(-1, 4, 4)
        return cls(every, max(len(source), len(reference)), frame)

    def gaps(self, pose: Matrix) -> Numbers:
        return pose_gaps(self.frame, self.every, pose)

    def has(self, pose: Matrix) -> bool:
        """True for a pose that gives the same assembly as one of them."""
        return bool(self.gaps(pose).min() <= 1)

    @property
    def size(self) -> float:
        """How many differ: of all h_Y g h_X, the same share is about g as about any other."""
        return len(self.every) / np.count_nonzero(self.gaps(self.every[0]) <= APART)

    def images(self, most: int) -> Motions:
        """Up to ``most`` that differ, g first and then each the farthest from those before it.

        They are no more than the larger group or a cube has. Where more would differ, g takes few symmetries
        of one piece to those of the other: it may be far off, and then so are all of them.
        """
        chosen, apart = [0], self.gaps(self.every[0])
        for _ in range(min(most, round(self.size), max(self.larger, MANY)) - 1):
            chosen.append(int(apart.argmax()))
            apart = np.minimum(apart, self.gaps(self.every[chosen[-1]]))
        return self.every[chosen]


def with_symmetry(pair: AssemblyPair, whole: Geometry | None = None) -> AssemblyPair:
    """The pair with the symmetries of its pieces, up to noise and spacing, as those of its answer.

    With gX in its place at Y, also g s and h g are right for motions s and h that take X and Y onto
    themselves: as motions of the source, all (g⁻¹ h g) s. A bottle cut across its axis has two round pieces,
    and any turn about the axis is right. Cut along it, the halves have a mirror only, which is no motion.
    Crops of a ``whole``, given in the source's coordinates, may lie anywhere on it: its symmetries w count
    too, as (g⁻¹ h g) w s. Otherwise the joint is asked as well: a pot that lacks a chip is nearly round, but
    the chip fits at one place only.
    """
    src_from_ref = inverse(pair.ref_from_src)
    size = float(np.ptp(pair.source.points, axis=0).max()) / 2
    groups = [_symmetries_of(pair.source)]
    groups += [_symmetries_of(whole)] if whole is not None else []
    groups.append(_symmetries_of(pair.reference).moved(src_from_ref))
    axis: Line | None = None
    products = np.eye(4)[None]
    for group in groups:
        line, motions = _line(group), group.motions
        # a pair has one axis: a second one is listed, and so is one that the symmetries before it move
        if line is not None and axis is None:
            axis = line if all(_is_same(move_points(s, line), line, size) for s in products) else None
        if line is not None and (axis is None or not _is_same(line, axis, size)):
            motions = group.listed()
        products = _each_once((motions[:, None] @ products).reshape(-1, 4, 4), pair.source, size)
    products[0] = np.eye(4)  # to the last digit: the first of each is the identity
    if whole is None and (axis is not None or len(products) > 1):
        source, other = (as_points(side, SAMPLES, seed=0).points for side in (pair.source, pair.reference))
        joint = _Joint.of(source, other, pair.ref_from_src)
        if axis is not None and not all(map(joint.keeps, _turns(axis))):
            axis = None
        products = products[[joint.keeps(motion) for motion in products]]
    return replace(pair, symmetry=products, axis=axis)


@dataclass(frozen=True, eq=False)
class _Joint:
    """The points of an assembled pair where the pieces touch."""

    trees: tuple[cKDTree, cKDTree]  # source and reference, in the source's coordinates
    touching: tuple[Points, Points]
    away: float  # mean distance of these points from the other piece, and one spacing more

    @classmethod
    def of(cls, source: Points, reference: Points, ref_from_src: Matrix) -> _Joint:
        sides = source, move_points(inverse(ref_from_src), reference)
        trees = cKDTree(sides[0]), cKDTree(sides[1])
        spacing = max(float(np.median(t.query(p, k=2)[0][:, 1])) for t, p in zip(trees, sides, strict=True))
        apart = trees[1].query(sides[0])[0], trees[0].query(sides[1])[0]
        near = [own < NEAR * spacing for own in apart]
        touching = sides[0][near[0]], sides[1][near[1]]
        distances = np.concatenate([own[rows] for own, rows in zip(apart, near, strict=True)])
        return cls(trees, touching, float(distances.mean() if len(distances) else 0) + spacing)

    def keep(self, group: Symmetries) -> Symmetries:
        """The symmetries, as motions of the source, that leave the joint as it is."""
        line = _line(group)
        if line is not None and not all(map(self.keeps, _turns(line))):
            group = replace(group, axis=None, place=None)
        kept = [self.keeps(motion) for motion in group.motions]
        return replace(group, motions=group.motions[kept], ball=group.ball and all(kept))

    def keeps(self, motion: Matrix) -> bool:
        """True if the points that touch still do after a motion of the source."""
        moved = move_points(motion, self.touching[0]), move_points(inverse(motion), self.touching[1])
        if not len(moved[0]) or not len(moved[1]):
            return True
        there, back = self.trees[1].query(moved[0])[0], self.trees[0].query(moved[1])[0]
        return bool(max(there.mean(), back.mean()) <= self.away)


def at_joint(
    groups: tuple[Symmetries, Symmetries], source: Points, reference: Points, ref_from_src: Matrix
) -> tuple[Symmetries, Symmetries]:
    """The symmetries of source and reference that leave the joint of a pose as it is.

    A pot that lacks a chip is nearly round, but its break is not: the chip fits at one place only.
    """
    if all(group.trivial for group in groups):
        return groups
    joint = _Joint.of(source, reference, ref_from_src)
    return joint.keep(groups[0]), joint.keep(groups[1].moved(inverse(ref_from_src))).moved(ref_from_src)


def _turns(axis: Line) -> Iterator[Matrix]:
    """Some turns about a line."""
    direction = (axis[1] - axis[0]) / np.linalg.norm(axis[1] - axis[0])
    for angle in np.radians(TURNS):
        turn = np.eye(4)
        turn[:3, :3] = Rotation.from_rotvec(angle * direction).as_matrix()
        turn[:3, 3] = axis[0] - turn[:3, :3] @ axis[0]
        yield turn


def _symmetries_of(piece: Geometry) -> Symmetries:
    """The symmetries of a piece; a search takes a tenth of a second, and pairs are asked for again."""
    points = as_points(piece, SAMPLES, seed=0).points
    key = hashlib.sha256(points.tobytes()).digest()
    if key not in _remembered:
        _remembered[key] = symmetries(points)
    return _remembered[key]


def _each_once(motions: Motions, piece: Geometry, size: float) -> Motions:
    """Motions without those that are nearly another: pieces of one shape often share a symmetry."""
    middle = piece.points.mean(axis=0)
    places = motions[:, :3, :3] @ middle + motions[:, :3, 3]
    kept: list[int] = []
    for i in range(len(motions)):
        turns = angles(motions[kept, :3, :3].swapaxes(1, 2) @ motions[i, :3, :3])
        moves = np.linalg.norm(places[kept] - places[i], axis=1)
        if not ((turns < SAME_ANGLE) & (moves < SAME_PLACE * size)).any():
            kept.append(i)
    return motions[kept]


def _line(found: Symmetries) -> Line | None:
    if found.axis is None or found.place is None:
        return None
    return np.stack([found.place, found.place + found.axis])


def _is_same(one: Line, other: Line, size: float) -> bool:
    """True for two lines that are the same, whatever their sense."""
    a, b = ((line[1] - line[0]) / np.linalg.norm(line[1] - line[0]) for line in (one, other))
    away = one[0] - other[0]
    apart = np.linalg.norm(away - b * (away @ b))
    return bool(np.linalg.norm(np.cross(a, b)) < np.sin(SAME_ANGLE) and apart < SAME_PLACE * size)
