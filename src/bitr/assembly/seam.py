"""Open surfaces whose borders meet: where positions meet, normals agree and outward directions oppose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64
from small_gicp import KdTree

from bitr.assembly.align import (
    NO_MOTION,
    Motions,
    Numbers,
    Points,
    TwistFit,
    distinct,
    dot,
    lengths,
    motions_between,
    squares,
)
from bitr.assembly.surface import Border, Rows, Surface, common_spacing, couple, unit_rows
from bitr.io import farthest_points

ANCHORS = 64
"""Border points of either piece whose frames are laid onto each other."""
FIRST_LOOK = 16
"""Border points of either piece that a first look judges a motion by."""
PROMISING, KEPT = 300, 32
"""Motions that a second look judges, and that are settled."""
LOOK_REACH = 5.0
"""Spacings within which borders count as near, at a first look."""
FINAL_REACH = 1.5
"""Spacings of the last kernel."""
CLEAR_REACH, CLEAR_STEPS, FEWEST_CLEAR = 2.0, 8, 6
"""Spacings of the first kernel of the last steps, by points right at a border alone; how many steps there
are, and the least points of either piece."""
STEPS = 12
ACROSS, OUT, ALONG = 0.3, 0.6, 4.0
"""Standard deviations of a border point's place, in spacings: across the surface, across the border in the
surface, and along the border, where points are paired that were sampled apart."""
TURNED = 0.6
"""Standard deviation of a border point's directions, in radians."""
DAMPING = 1e-3
LESS = 0.9
"""Part of a squared distance along the border that is not counted."""
MEETS = 2.0
"""Spacings within which two border points meet."""
SAME_TURN, SAME_SHIFT = np.radians(6), 1.5
"""Motions that are closer, in radians and in spacings, are one."""

ENDS = 2
"""Most flat ends of a piece."""
TRIED = 40
"""Directions that are tried as the normal of a flat end."""
FITS = 10
"""Times that a plane is fitted again: directions that lead to one plane then end at the same one."""
THIN = 0.05
"""Width over length of border points that count as a line, which fixes no plane."""
FEWEST_FLAT = 6.0
"""Border points that a flat end has at least."""
OTHER_END = np.cos(np.radians(15))
"""Cosine between normals of ends above which they are one."""

FLIPS = (np.diag([-1.0, 1.0, -1.0]), np.diag([1.0, -1.0, -1.0]))
"""Frames (tangent, normal, outward) that meet: outward directions oppose; the normals' signs are unknown."""


@dataclass(frozen=True, eq=False)
class Met:
    """Border points of both pieces under motions, each with its nearest on the other border."""

    p: Float64[np.ndarray, "g m 3"]
    q: Float64[np.ndarray, "g m 3"]
    normal_p: Float64[np.ndarray, "g m 3"]
    normal_q: Float64[np.ndarray, "g m 3"]
    """With the sign that agrees with ``normal_p``."""
    outward_p: Float64[np.ndarray, "g m 3"]
    outward_q: Float64[np.ndarray, "g m 3"]
    share: Float64[np.ndarray, " m"]
    """Either piece's points have sum 1/2."""

    @property
    def squared(self) -> Float64[np.ndarray, "g m"]:
        """Squared distances; those along the border count less, since its points were sampled apart."""
        gap = self.p - self.q
        tangent = np.cross(self.normal_p, self.outward_p) - np.cross(self.normal_q, self.outward_q)
        length = lengths(tangent)
        along = dot(gap, tangent) / np.maximum(length, 1e-9)
        return squares(gap) - LESS * (length > 1) * np.square(along)

    @property
    def alignment(self) -> Float64[np.ndarray, "g m"]:
        """From 0 to 1: normals agree and outward directions oppose."""
        agree = dot(self.normal_p, self.normal_q)
        oppose = -dot(self.outward_p, self.outward_q)
        return np.clip(agree, 0, 1) * np.clip(oppose, 0, 1)


def seam_motions(x: Surface, y: Surface, most: int) -> tuple[Motions, Numbers]:
    """Motions under which the borders of both surfaces meet, best first, with how much of them meets.

    One border point of each piece with its frame already gives a motion. All such motions are judged by how
    well a few other border points meet, the best are settled by ``settle`` and judged by all border points.
    Nothing is random and both pieces are treated alike: the motions move with the pieces, and a swap inverts
    them.
    """
    if min(len(x.border), len(y.border)) < 4:
        return NO_MOTION, np.empty(0)
    spacing = common_spacing(x, y)
    chosen = [farthest_points(b.points, min(ANCHORS, len(b))) for b in (x.border, y.border)]
    motions = _frame_motions(x.border, y.border, chosen[0], chosen[1])
    few = [rows[:FIRST_LOOK] for rows in chosen]
    score = closeness(meet(x.border, y.border, motions, few[0], few[1]), LOOK_REACH * spacing)
    motions = motions[np.argsort(-score, kind="stable")[:PROMISING]]
    score = closeness(meet(x.border, y.border, motions, *chosen), LOOK_REACH * spacing)
    motions = motions[distinct(motions, score, KEPT, 2 * SAME_TURN, 2 * SAME_SHIFT * spacing)]
    motions = settle(x, y, motions)
    score = closeness(meet(x.border, y.border, motions), MEETS * spacing)
    kept = distinct(motions, score, most, SAME_TURN, SAME_SHIFT * spacing)
    return motions[kept], score[kept]


def end_motions(ends_x: Sequence[Surface], ends_y: Sequence[Surface], most: int) -> Motions:
    """Motions that lay a flat end of one piece against one of the other: the best of each pair of ends."""
    found = [seam_motions(x, y, most)[0] for x in ends_x for y in ends_y]
    return np.concatenate([NO_MOTION, *found])


def flat_ends(surface: Surface) -> tuple[Surface, ...]:
    """The surface with its border reduced to a plane that ends it, for each such plane, best first.

    A saw leaves such an end. Among many points that only look like a border (thin parts, creases) its points
    are those that belong to the cut; their outward direction is known exactly.
    """
    border, spacing = surface.border, surface.spacing
    if len(border) < FEWEST_FLAT:
        return ()
    normals = border.outward
    top = np.maximum((surface.points @ normals.T).max(0), (border.points @ normals.T).max(0))
    weight = _on_plane(border, normals, top, spacing)
    best = np.argsort(-weight.sum(1), kind="stable")[:TRIED]
    normals, weight, spans = normals[best], weight[best], np.ones(len(best), dtype=bool)
    for _ in range(FITS):
        total = np.maximum(weight.sum(1), 1e-12)[:, None]
        center = weight @ border.points / total
        offset = border.points - center[:, None]
        values, vectors = np.linalg.eigh((weight[:, :, None] * offset).swapaxes(1, 2) @ offset)
        spans &= values[:, 1] > THIN**2 * values[:, 2]
        axes = vectors[:, :, 0]
        normals = axes * np.sign(dot(axes, normals))[:, None]
        height = dot(center, normals)
        weight = _on_plane(border, normals, height, spacing)
    beyond = (surface.points @ normals.T - height > 0.8 * spacing).mean(0) * len(surface.points)
    score = np.where(spans, weight.sum(1) - 5 * beyond, -np.inf)
    kept: list[int] = []
    for i in np.argsort(-score, kind="stable"):
        if score[i] > FEWEST_FLAT and not (normals[kept] @ normals[i] > OTHER_END).any():
            kept.append(int(i))
            if len(kept) == ENDS:
                break
    return tuple(_reduce(surface, weight[i] > 0, normals[i]) for i in kept)


def _on_plane(border: Border, normals: Points, height: Numbers, spacing: float) -> Float64[np.ndarray, "c m"]:
    """How much each border point belongs to each plane, from 0 to 1: it lies on it and faces its way."""
    off = (border.points @ normals.T - height).T / spacing
    return np.clip(1 - np.square(off), 0, None) * np.clip(normals @ border.outward.T, 0, 1)


def _reduce(surface: Surface, rows: Bool[np.ndarray, " m"], outward: Float64[np.ndarray, " 3"]) -> Surface:
    """The surface with some of its border points, all with one outward direction."""
    border = surface.border
    normals = border.normals - np.outer(border.normals @ outward, outward)
    rows &= np.linalg.norm(normals, axis=1) > 0.1
    points, normals = border.points[rows], unit_rows(normals[rows])
    tree = KdTree(points) if len(points) else None
    ahead = np.broadcast_to(outward, points.shape).copy()
    return replace(surface, border=Border(points, normals, ahead, border.clear[rows], tree))


def settle(x: Surface, y: Surface, motions: Motions, widest: float = LOOK_REACH) -> Motions:
    """Move motions to where the borders meet, by robust two-sided steps from wide to narrow.

    The last steps go by the points that are beyond doubt: thin parts and creases, which are taken for borders
    as well, pull a pose off its place.
    """
    spacing = common_spacing(x, y)
    for width in np.geomspace(widest, FINAL_REACH, STEPS) * spacing:
        motions = _steps(meet(x.border, y.border, motions), width, spacing) @ motions
    rows_x, rows_y = np.flatnonzero(x.border.clear), np.flatnonzero(y.border.clear)
    if min(len(rows_x), len(rows_y)) < FEWEST_CLEAR or len(rows_x) + len(rows_y) == len(x.border) + len(
        y.border
    ):
        return motions
    clear_x, clear_y = x.border.take(rows_x), y.border.take(rows_y)
    for width in np.geomspace(CLEAR_REACH, FINAL_REACH, CLEAR_STEPS) * spacing:
        motions = _steps(meet(clear_x, clear_y, motions), width, spacing) @ motions
    return motions


def meet(
    x: Border, y: Border, motions: Motions, rows_x: Rows | None = None, rows_y: Rows | None = None
) -> Met:
    """The border points of both pieces, or some of them, with their nearest under each motion."""
    found, turned = couple(x, y, motions, rows_x, rows_y), motions[:, :3, :3].swapaxes(1, 2)
    normal_p, normal_q = x.normals[found.i] @ turned, y.normals[found.j]
    sign = np.sign(dot(normal_p, normal_q))[:, :, None]
    outward_p, outward_q = x.outward[found.i] @ turned, y.outward[found.j]
    return Met(found.p, found.q, normal_p, sign * normal_q, outward_p, outward_q, found.share)


def closeness(met: Met, reach: float) -> Numbers:
    """Share of both borders that meets, from 0 to 1: points count less the farther and the less aligned."""
    return (np.clip(1 - met.squared / reach**2, 0, None) * met.alignment) @ met.share


def _frame_motions(x: Border, y: Border, rows_x: Rows, rows_y: Rows) -> Motions:
    """The motions that lay the frame of a border point of one piece onto that of the other."""
    frames_x, frames_y = (
        np.stack([border.tangents[rows], border.normals[rows], border.outward[rows]], axis=2)
        for border, rows in ((x, rows_x), (y, rows_y))
    )
    rotations = np.stack([np.einsum("bik,kl,ajl->abij", frames_y, flip, frames_x) for flip in FLIPS])
    motions = motions_between(rotations, x.points[rows_x][:, None], y.points[rows_y])
    return motions.reshape(-1, 4, 4)


def _steps(met: Met, width: float, spacing: float) -> Motions:
    """The motions that lessen the weighted squares of what separates the borders; see ``TwistFit``.

    Of p − q what lies across the surface and across the border counts, and of the directions what turns them
    apart; distances along the border hardly count.
    """
    weight = met.share * np.clip(met.alignment, 0.05, 1) / np.square(1 + met.squared / width**2)
    normal, outward = (met.normal_p + met.normal_q) / 2, (met.outward_p - met.outward_q) / 2
    twist = TwistFit(met.p, met.q, weight)
    twist.add_distance(normal, (ACROSS * spacing) ** -2)
    twist.add_distance(outward, (OUT * spacing) ** -2)
    twist.add_all_distances((ALONG * spacing) ** -2)
    twist.add_turn(normal, met.normal_p - met.normal_q, TURNED**-2)
    twist.add_turn(outward, met.outward_p + met.outward_q, TURNED**-2)
    return twist.solve(DAMPING * twist.curvature)
