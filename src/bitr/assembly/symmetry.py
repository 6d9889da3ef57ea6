"""The near-symmetries of a cloud: motions after which it cannot be told from what it was.

Turns that may be symmetries come from pairs of points. Each is brought to where the cloud fits itself best
and must fit; the turns that do are made a group. Clouds that are round are looked for first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float64
from scipy.spatial.transform import Rotation
from small_gicp import KdTree

from bitr.assembly.align import (
    Frame,
    Matrix,
    Motions,
    Numbers,
    Points,
    angles,
    centroid,
    distinct,
    dot,
    lengths,
    motions_between,
    moved,
    radius,
    squares,
)
from bitr.assembly.overlay import Matches
from bitr.assembly.surface import Sample, spacing_of
from bitr.data.poses import inverse
from bitr.groups import nearest_rotation
from bitr.io import even_draw, farthest_points

Rotations = Float64[np.ndarray, "_ 3 3"]
Vector = Float64[np.ndarray, " 3"]

FEWEST = 32
"""Points from which a cloud shows a shape that can be matched with itself."""
MOST, DRAWN = 1000, 16_000
"""Points that are used: the farthest ones of an even draw."""
PROBES, NEIGHBORS = 240, 10
"""Points that are turned and compared with all; nearest points, itself among them, of a point's plane."""
FLAT = 0.01
"""Spread across a plane or a line, over the largest spread, from which a cloud is more than that."""

BASES, AMONG = 3, 200
"""Pairs of points that are matched with all others, and the probes that they are matched with."""
RADIUS, DISTANCE = 0.6, 1.0
"""How far lengths may be off, in the spacing of those probes."""
SMALLEST = np.radians(25)
"""A smaller turn alone is none: a piece can always slide along itself a little."""
SECOND, THIRD = 0.25, 0.4
"""How far the second and third moments may turn away from themselves, in the cloud's size."""
FIRST_LOOK, MOST_LOOKED_AT, MOST_TURNS = 16, 600, 48
"""Probes that tell which candidates are worth a search, how many they are shown, and how many are kept."""
SAME = np.radians(18)
"""Turns that are closer are one."""
ENOUGH = 16
"""Turns of which all others of a group are products; of a cube's 23, any 16 will do."""
LARGEST = 60
"""Turns of an icosahedron; larger groups have a round axis."""
MANY_SIDED = np.radians(55)
"""A smallest turn below this, that of a prism with seven sides, makes one look whether the axis is round."""

DAMPING = 1e-2
ROUGH, FINE = (48, (4.0, 2.5, 1.5)), (120, (2.5, 2.0, 1.5))
"""Probes of a search, and the widths of its steps in spacings."""
FAR, FARTHEST = 2.5, 3.0
"""Spacings from which a point has nothing near it; and what a point may at most count in the misfit."""
WORSE, BESIDES = 1.5, 0.25
"""Largest misfit of a symmetry: this many times the usual one, and so many spacings on top of it."""
PROMISING = 2.5
"""Misfit over the largest that is allowed, from which a turn is given up before the last search."""
ALONE = 0.03
"""Share of the points that may have nothing near them."""
OFF_CENTER = 2.0
"""Spacings that a symmetry may move the centre."""

STEPS_AROUND = 16
"""Turns about a round axis that are listed."""
AROUND = 2 * np.pi * ((1 + np.arange(8)) * (np.sqrt(5) - 1) / 2 % 1)
"""Angles of which no two differ by a simple fraction of a full turn."""
DRIFT = np.radians(9)
"""A turn of a prism with up to 8 sides goes farther, to where the sides fit."""
EVEN = 0.15
"""Second moments about a round axis are equal; what they may differ by, in the cloud's size."""
ON_AXIS = 0.1
"""How far motions move places on their common axis, over the most that they move a place."""

SAME_AXIS = np.cos(np.radians(15))
SOLIDS = {12: "a tetrahedron", 24: "a cube", 60: "an icosahedron"}
"""Solids by the number of turns, the one that changes nothing among them."""
NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


@dataclass(frozen=True, eq=False)
class Symmetries:
    """A group of motions of a cloud onto itself, up to its noise and its spacing; the identity is the first.

    They move with the cloud: those of gX are g h g⁻¹ for those h of X. With each its inverse is one of them.
    """

    motions: Motions
    """All of them; of a round cloud without the turns about its axis, of a ball those of an icosahedron."""
    axis: Vector | None = None
    """Any turn about it is a symmetry; its sign means nothing."""
    place: Vector | None = None
    """A point of that axis."""
    ball: bool = False
    """Any turn at all is a symmetry."""

    @property
    def trivial(self) -> bool:
        return len(self.motions) == 1 and self.axis is None

    def listed(self) -> Motions:
        """All of them; of a round cloud 16 turns about its axis, evenly spread, times the others."""
        if self.axis is None or self.place is None:
            return self.motions
        turns = turns_about(self.axis, 2 * np.pi * np.arange(STEPS_AROUND) / STEPS_AROUND)
        around = motions_between(turns, self.place, self.place)
        return (around[:, None] @ self.motions).reshape(-1, 4, 4)

    def moved(self, motion: Matrix) -> Symmetries:
        """The symmetries of the cloud after a motion of it."""
        axis = None if self.axis is None else motion[:3, :3] @ self.axis
        place = None if self.place is None else moved(self.place[None], motion)[0]
        return replace(self, motions=motion @ self.motions @ inverse(motion), axis=axis, place=place)

    def describe(self) -> str:
        """How a cloud looks the same, as "after turns by 120° about one axis"; empty if it does not."""
        if self.ball:
            return "after any turn"
        if self.axis is not None:
            across = " and after half turns across it" if len(self.motions) > 1 else ""
            return f"after any turn about one axis{across}"
        if self.trivial:
            return ""
        first, *others = sorted(_orders(self.motions[1:, :3, :3]), reverse=True)
        turns = "a half turn" if first == 2 else f"turns by {360 / first:.0f}°"
        if not others:
            return f"after {turns} about one axis"
        if first == 2:
            return f"after half turns about {NUMBERS.get(1 + len(others), 1 + len(others))} axes"
        if set(others) == {2} and len(others) == first:
            return f"after {turns} about one axis and half turns about {NUMBERS.get(first, first)} others"
        count = len(self.motions)
        return f"after {count - 1} turns{', those of ' + SOLIDS[count] if count in SOLIDS else ''}"


NO_SYMMETRY = Symmetries(np.eye(4)[None])


def symmetries(cloud: Points) -> Symmetries:
    """Turns h, about a place near the middle, with hX ≈ X: the cloud is matched with itself.

    symmetries(gX) = g symmetries(X) g⁻¹ for motions g, and a scale changes nothing. Up to 16,000 points their
    order does not matter. Clouds of fewer than 32 points, or flat ones, are left alone.
    """
    spread = spreads(cloud)
    if len(cloud) < FEWEST or not spread[2] > FLAT * spread[0]:
        return NO_SYMMETRY
    outline = Outline.of(cloud)
    if len(outline.probes) < FEWEST:  # the others are copies
        return NO_SYMMETRY
    around = _round_turns(outline, _principal_axes(outline))
    if not around:
        group = _group(outline, _fitting_turns(outline))
        turns = angles(group[1:, :3, :3])
        if len(turns) and turns.min() < MANY_SIDED:
            around = _round_turns(outline, _common_axis(group[1:, :3, :3][turns < MANY_SIDED])[None])
    return _round(outline, around) if around else Symmetries(outline.frame.outside(group))


def spreads(cloud: Points) -> Vector:
    """Standard deviations along the principal axes, largest first, over the largest coordinate."""
    centered = cloud - centroid(cloud)
    largest = np.abs(centered).max()
    if not largest > 0:
        return np.zeros(3)
    values: Vector = np.linalg.svd(centered / largest, compute_uv=False)
    return np.pad(values, (0, 3 - len(values))) / np.sqrt(len(cloud))


def turns_about(axis: Vector, turns: Numbers) -> Rotations:
    """Rotations by angles about one axis."""
    return Rotation.from_rotvec(turns[:, None] * axis).as_matrix().reshape(-1, 3, 3)


def about_center(rotations: Rotations) -> Motions:
    return motions_between(rotations, np.zeros(3), np.zeros(3))


@dataclass(frozen=True, eq=False)
class Outline(Sample):
    """A cloud as it is matched with itself: centred, of size 1, with a plane at every point."""

    points: Points
    middles: Points
    """Means of the nearest points: a point of the plane at each point."""
    normals: Points
    """Unit normals; their sign means nothing."""
    probes: Float64[np.ndarray, "m 3"]
    """Points that cover the cloud evenly, however many of them are taken from the first on."""
    probe_normals: Float64[np.ndarray, "m 3"]
    spacing: float
    allowed: float
    """The misfit up to which a turn is a symmetry: what noise and edges of this cloud explain."""
    tree: KdTree
    frame: Frame

    @classmethod
    def of(cls, cloud: Points) -> Outline:
        """The outline of at least ``FEWEST`` points, not all at one place."""
        points = cloud[even_draw(len(cloud), DRAWN, 0)]
        if len(points) > MOST:
            points = points[farthest_points(points, MOST)]
        rows = farthest_points(points, min(PROBES, len(points)))
        center = centroid(points[rows])  # they lie evenly: how the cloud was sampled does not matter
        points = points - center
        unit = radius(points[rows])
        points = points / unit
        tree = KdTree(points)
        number, squared = tree.batch_knn_search(points, NEIGHBORS)
        near, spacing = number.view(np.int64), spacing_of(squared)
        middles = points[near].mean(1)
        offset = points[near] - middles[:, None]
        normals = np.linalg.eigh(offset.swapaxes(1, 2) @ offset / NEIGHBORS)[1][:, :, 0]
        next_ = near[rows, 1]
        off = dot(points[rows] - middles[next_], normals[next_]) / spacing
        allowed = float(np.hypot(WORSE * np.sqrt(np.square(off).mean()), BESIDES))
        frame = Frame(center, center, unit)
        return cls(points, middles, normals, points[rows], normals[rows], spacing, allowed, tree, frame)


@dataclass(frozen=True, eq=False)
class SelfMatch:
    """Turned probes with the planes they come to lie at, then the same seen from the other side."""

    p: Float64[np.ndarray, "c m 3"]
    q: Float64[np.ndarray, "c m 3"]
    normal: Float64[np.ndarray, "c m 3"]
    alike: Float64[np.ndarray, "c m"]
    """|n · n'| of both surfaces."""
    apart: Float64[np.ndarray, "c m"]
    """Spacings from a turned probe to the nearest point."""
    misfit: Numbers
    """Root mean square distance across the surface, in spacings; the same for a turn and its inverse."""


def self_match(outline: Outline, turns: Motions, count: int) -> SelfMatch:
    """Match the first ``count`` probes; for the inverse turns p and q are swapped, and all else the same."""
    x, n = outline.probes[:count], outline.probe_normals[:count]
    there, back = moved(x, turns), moved(x, inverse(turns))
    j, k = outline.nearest(there), outline.nearest(back)
    turned = turns[:, :3, :3].swapaxes(1, 2)
    p = np.concatenate([there, moved(outline.middles[k], turns)], axis=1)
    q = np.concatenate([outline.middles[j], np.broadcast_to(x, there.shape)], axis=1)
    normal = np.concatenate([outline.normals[j], outline.normals[k] @ turned], axis=1)
    other = np.concatenate([n @ turned, np.broadcast_to(n, there.shape)], axis=1)
    apart = np.concatenate([there - outline.points[j], back - outline.points[k]], axis=1)
    across = dot(p - q, normal) / outline.spacing
    return SelfMatch(
        p,
        q,
        normal,
        np.abs(dot(normal, other)),
        lengths(apart) / outline.spacing,
        np.sqrt(np.square(np.minimum(np.abs(across), FARTHEST)).mean(1)),
    )


def settle_turns(outline: Outline, turns: Motions, search: tuple[int, tuple[float, ...]]) -> Motions:
    """Move the turns to where the cloud fits itself best, nearby, by ICP with ever smaller widths.

    The inverse of a turn ends at the inverse of where the turn ends.
    """
    count, widths = search
    for width in widths if len(turns) else ():
        found = self_match(outline, turns, count)
        weight = found.alike**2 / np.square(1 + np.square(found.apart / width))
        turns = Matches(found.p, found.q, found.normal, weight).step(damping=DAMPING) @ turns
    return turns


def judge_turns(outline: Outline, turns: Motions) -> Numbers:
    """The misfit of each turn; infinite where the cloud can be told from the turned one."""
    if not len(turns):
        return np.zeros(0)
    found = self_match(outline, turns, len(outline.probes))
    fits = (found.misfit <= outline.allowed) & ((found.apart > FAR).mean(1) <= ALONE)
    fits &= np.linalg.norm(turns[:, :3, 3], axis=1) <= OFF_CENTER * outline.spacing
    return np.where(fits, found.misfit, np.inf)


def _fitting_turns(outline: Outline) -> Motions:
    """Turns that fit, each once, the best first; not all, but enough to make the others from."""
    turns = settle_turns(outline, candidate_turns(outline), ROUGH)
    if not len(turns):
        return turns
    score = self_match(outline, turns, ROUGH[0]).misfit
    turns = _each_once(turns, np.where(score < PROMISING * outline.allowed, score, np.inf))[:ENOUGH]
    turns = settle_turns(outline, turns, FINE)
    return _each_once(turns, judge_turns(outline, turns))


def _each_once(turns: Motions, score: Numbers) -> Motions:
    """Turns that differ and are large enough to be some, those of the least score first; no infinite ones."""
    good = np.isfinite(score) & (angles(turns[:, :3, :3]) > SMALLEST)
    turns = turns[good]
    return turns[distinct(turns, -score[good], len(turns), SAME)]


def candidate_turns(outline: Outline) -> Motions:
    """Turns about the centre that take a pair of points near another pair, best first; no small ones.

    Such pairs have equal distances from the centre and from each other. The first pair has a point far from
    the centre, which few can match. Which pairs are chosen moves with the cloud.
    """
    axes = np.linalg.eigh(outline.probes.T @ outline.probes)[1].T
    half_turns = 2 * axes[:, :, None] * axes[:, None] - np.eye(3)  # all of a body with three different axes
    found = [(half_turns, np.zeros(3)), *(_turns_of_base(outline, first) for first in range(BASES))]
    turns, mismatch = (np.concatenate(part) for part in zip(*found, strict=True))
    likely = (angles(turns) > SMALLEST) & _keeps_moments(outline, turns)
    turns, mismatch = turns[likely], mismatch[likely]
    looked_at = about_center(turns[np.argsort(mismatch, kind="stable")[:MOST_LOOKED_AT]])
    if not len(looked_at):
        return looked_at
    few, off = outline.probes[:FIRST_LOOK], np.zeros(len(looked_at))
    for turned in (moved(few, looked_at), moved(few, inverse(looked_at))):
        off += squares(turned - outline.points[outline.nearest(turned)]).mean(1)
    return looked_at[distinct(looked_at, -off, MOST_TURNS, SAME)]


def _base(outline: Outline, first: int) -> tuple[Points, Points]:
    """A probe, and the one that spans the largest triangle with it and the centre."""
    q = outline.probes[:AMONG]
    return q[[first]], q[[np.linalg.norm(np.cross(q[first], q), axis=1).argmax()]]


def _turns_of_base(outline: Outline, first: int) -> tuple[Rotations, Numbers]:
    """The turns that take a pair near others, and by how much the lengths of these differ."""
    q, (base, other) = outline.probes[:AMONG], _base(outline, first)
    spacing = outline.spacing * float(np.sqrt(np.pi * len(outline.points) / len(q)))
    away = np.linalg.norm(q, axis=1)
    off_base, off_other = (np.abs(away - np.linalg.norm(p)) / spacing for p in (base, other))
    ones, others = np.flatnonzero(off_base < RADIUS), np.flatnonzero(off_other < RADIUS)
    between = np.linalg.norm(q[ones][:, None] - q[others], axis=2) - np.linalg.norm(base - other)
    i, j = np.nonzero(np.abs(between) < DISTANCE * spacing)
    mismatch = np.abs(between[i, j]) / spacing + off_base[ones[i]] + off_other[others[j]]
    turns = _frames(q[ones[i]], q[others[j]]) @ _frames(base, other)[0].T
    whole = np.isfinite(turns).all((1, 2))
    return turns[whole], mismatch[whole]


def _frames(a: Points, b: Points) -> Rotations:
    """Axes: in the middle between the directions of a and b, in their plane across it, and across both."""
    with np.errstate(invalid="ignore", divide="ignore"):  # parallel ones span no frame, and are dropped
        a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (a, b))
        axes = [a + b, a - b, np.cross(b, a)]
        return np.stack([v / np.linalg.norm(v, axis=1, keepdims=True) for v in axes], axis=2)


def _keeps_moments(outline: Outline, turns: Rotations) -> Bool[np.ndarray, " c"]:
    """True where second and third moments are about those of the turned cloud."""
    q = outline.probes
    second, third = q.T @ q / len(q), np.einsum("ni,nj,nk->ijk", q, q, q) / len(q)
    back = turns.swapaxes(1, 2)
    off_second = turns @ second @ back - second
    off_third = turns[:, None] @ (turns @ third.reshape(3, 9)).reshape(-1, 3, 3, 3) @ back[:, None] - third
    return (np.square(off_second).sum((1, 2)) < SECOND**2) & (np.square(off_third).sum((1, 2, 3)) < THIRD**2)


def _group(outline: Outline, found: Motions) -> Motions:
    """The group that the turns generate, the identity first; the first ones found count most.

    Each product is brought to where the cloud fits itself best, and must fit. A turn whose products do not is
    left out: a piece may slide along itself by 30 degrees, but not by 60.
    """
    group = np.eye(4)[None]
    for one in found:
        if len(new := _unknown(one[None], group)):
            closed = _close(outline, group, new)
            group = group if closed is None else closed
    # each turn in the middle between itself and the inverse of what undoes it, all about one place
    back = inverse(group)
    undone = _between(group, back).argmin(1)
    middle = torch.from_numpy(group[:, :3, :3] + back[undone, :3, :3])
    place = _common_place(group)
    return motions_between(nearest_rotation(middle).numpy(), place, place)


def _close(outline: Outline, group: Motions, new: Motions) -> Motions | None:
    """The group with new turns and all products; None when one of these does not fit, or there is no end."""
    while len(new):
        group = np.concatenate([group, new])
        products = _unknown((group[:, None] @ group).reshape(-1, 4, 4), group)
        products = products[distinct(products, np.zeros(len(products)), LARGEST, SAME)]
        if len(group) + len(products) > LARGEST:
            return None
        new = settle_turns(outline, products, FINE)
        score = judge_turns(outline, new)
        if not np.isfinite(score).all():
            return None
        new = new[distinct(new, -score, len(new), SAME)]  # two may have come together
        new = _unknown(new, group)
    return group


def _unknown(turns: Motions, group: Motions) -> Motions:
    """Turns that differ from all of the group."""
    return turns[(_between(turns, group) > SAME).all(1)]


def _between(turns: Motions, group: Motions) -> Float64[np.ndarray, "c k"]:
    return angles(turns[:, None, :3, :3] @ group[:, :3, :3].swapaxes(1, 2))


def _common_axis(rotations: Rotations) -> Vector:
    """The axis nearest to those of all rotations; its sign means nothing."""
    vectors = Rotation.from_matrix(rotations).as_rotvec()
    axes: Float64[np.ndarray, "3 3"] = np.linalg.eigh(vectors.T @ vectors)[1]
    return axes[:, 2]


def _common_place(turns: Motions) -> Vector:
    """The place that motions move least: (1 − r) place = shift; on a common axis, the one nearest to 0."""
    moves = (np.eye(3) - turns[:, :3, :3]).reshape(-1, 3)
    solved: Vector = np.linalg.lstsq(moves, turns[:, :3, 3].reshape(-1), rcond=ON_AXIS)[0]
    return solved


def _principal_axes(outline: Outline) -> Points:
    """Those principal axes that may be round: the moments along both others are about equal."""
    values, axes = np.linalg.eigh(outline.probes.T @ outline.probes / len(outline.probes))
    gaps = np.array([values[2] - values[1], values[2] - values[0], values[1] - values[0]])
    return axes.T[gaps < EVEN]


def _round_turns(outline: Outline, axes: Points) -> list[Motions]:
    """Turns about each of the axes about which the cloud is round."""
    found = []
    for axis in axes:
        start = about_center(turns_about(axis, AROUND))
        if self_match(outline, start, ROUGH[0]).misfit.max() >= PROMISING * outline.allowed:
            continue
        ended = settle_turns(outline, start, FINE)
        drift = angles(ended[:, :3, :3] @ start[:, :3, :3].swapaxes(1, 2))
        if np.isfinite(judge_turns(outline, ended)).all() and (drift <= DRIFT).all():
            found.append(ended)
    return found


def _round(outline: Outline, around: list[Motions]) -> Symmetries:
    """The symmetries of a cloud with turns about a round axis, or about several: then it is a ball."""
    frame = outline.frame
    if len(around) > 1:
        to_cloud = _frames(*_base(outline, 0))[0]
        turns = to_cloud @ Rotation.create_group("I").as_matrix() @ to_cloud.T
        turns = np.concatenate([np.eye(3)[None], turns[angles(turns) > SMALLEST]])
        return Symmetries(frame.outside(about_center(turns)), ball=True)
    axis, place = _common_axis(around[0][:, :3, :3]), _common_place(around[0])
    # a half turn across the axis, about the line from there to the farthest point, may be a symmetry too
    across = outline.probes - np.outer(outline.probes @ axis, axis)
    far = across[np.linalg.norm(across, axis=1).argmax()]
    turns, half = np.eye(3)[None], turns_about(far / np.linalg.norm(far), np.array([np.pi]))
    found = settle_turns(outline, about_center(half), FINE)
    if np.isfinite(judge_turns(outline, found)).all():
        turns, place = np.concatenate([turns, half]), place + (found[0, :3, 3] @ axis) / 2 * axis
    motions = frame.outside(motions_between(turns, place, place))
    return Symmetries(motions, axis, frame.source_center + frame.unit * place)


def _orders(rotations: Rotations) -> list[int]:
    """For every axis, how many turns there are about it; a full one among them."""
    vectors = Rotation.from_matrix(rotations).as_rotvec()
    axes = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    orders = []
    while len(axes):
        same = np.abs(axes @ axes[0]) > SAME_AXIS
        orders.append(int(same.sum()) + 1)
        axes = axes[~same]
    return orders
