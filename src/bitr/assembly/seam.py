"""Open surfaces whose borders meet: where positions meet, normals agree and outward directions oppose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.spatial.transform import Rotation
from small_gicp import KdTree

from bitr.assembly.overlay import Motions, distinct
from bitr.io import farthest_points
from bitr.refine.frame import Points
from bitr.refine.surface import Border, Surface, common_spacing

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
        length = np.linalg.norm(tangent, axis=2)
        along = np.einsum("gmi,gmi->gm", gap, tangent) / np.maximum(length, 1e-9)
        return np.square(gap).sum(2) - LESS * (length > 1) * np.square(along)

    @property
    def alignment(self) -> Float64[np.ndarray, "g m"]:
        """From 0 to 1: normals agree and outward directions oppose."""
        agree = np.einsum("gmi,gmi->gm", self.normal_p, self.normal_q)
        oppose = -np.einsum("gmi,gmi->gm", self.outward_p, self.outward_q)
        return np.clip(agree, 0, 1) * np.clip(oppose, 0, 1)


def seam_motions(x: Surface, y: Surface, most: int) -> tuple[Motions, Float64[np.ndarray, " g"]]:
    """Motions under which the borders of both surfaces meet, best first, with how much of them meets.

    One border point of each piece with its frame already gives a motion. All such motions are judged by how
    well a few other border points meet, the best are settled by ``settle`` and judged by all border points.
    Nothing is random and both pieces are treated alike: the motions move with the pieces, and a swap inverts
    them.
    """
    none = np.empty((0, 4, 4)), np.empty(0)
    if min(len(x.border), len(y.border)) < 4:
        return none
    spacing = common_spacing(x, y)
    chosen = [_spread(border, ANCHORS) for border in (x.border, y.border)]
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


def end_motions(
    ends_x: Sequence[Surface], ends_y: Sequence[Surface], most: int
) -> Float64[np.ndarray, "_ 4 4"]:
    """Motions that lay a flat end of one piece against one of the other: the best of each pair of ends."""
    found = [seam_motions(x, y, most)[0] for x in ends_x for y in ends_y]
    return np.concatenate([np.empty((0, 4, 4)), *found])


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
        normals = axes * np.sign(np.einsum("ci,ci->c", axes, normals))[:, None]
        height = np.einsum("ci,ci->c", center, normals)
        weight = _on_plane(border, normals, height, spacing)
    beyond = (surface.points @ normals.T - height > 0.8 * spacing).mean(0) * len(surface.points)
    score = np.where(spans, weight.sum(1) - 5 * beyond, -np.inf)
    kept: list[int] = []
    for i in np.argsort(-score, kind="stable"):
        if score[i] > FEWEST_FLAT and not (normals[kept] @ normals[i] > OTHER_END).any():
            kept.append(int(i))
            if len(kept) == ENDS:
                break
    return tuple(_reduced(surface, weight[i] > 0, normals[i]) for i in kept)


def _on_plane(
    border: Border,
    normals: Float64[np.ndarray, "c 3"],
    height: Float64[np.ndarray, " c"],
    spacing: float,
) -> Float64[np.ndarray, "c m"]:
    """How much each border point belongs to each plane, from 0 to 1: it lies on it and faces its way."""
    off = (border.points @ normals.T - height).T / spacing
    return np.clip(1 - np.square(off), 0, None) * np.clip(normals @ border.outward.T, 0, 1)


def _reduced(surface: Surface, rows: Bool[np.ndarray, " m"], outward: Float64[np.ndarray, " 3"]) -> Surface:
    """The surface with some of its border points, all with one outward direction."""
    border = surface.border
    normals = border.normals[rows] - np.outer(border.normals[rows] @ outward, outward)
    length = np.linalg.norm(normals, axis=1)
    rows = np.flatnonzero(rows)[length > 0.1]
    normals, points = (normals / np.maximum(length, 1e-12)[:, None])[length > 0.1], border.points[rows]
    tree = KdTree(points) if len(points) else None
    ahead = np.broadcast_to(outward, points.shape).copy()
    return replace(surface, border=Border(points, normals, ahead, border.clear[rows], tree))


def settle(x: Surface, y: Surface, motions: Motions, widest: float = LOOK_REACH) -> Motions:
    """Motions moved to where the borders meet, by robust two-sided steps from wide to narrow."""
    spacing = common_spacing(x, y)
    for width in np.geomspace(widest, FINAL_REACH, STEPS) * spacing:
        motions = _steps(meet(x.border, y.border, motions), width, spacing) @ motions
    return motions


def meet(
    x: Border,
    y: Border,
    motions: Motions,
    rows_x: Int64[np.ndarray, " a"] | None = None,
    rows_y: Int64[np.ndarray, " b"] | None = None,
) -> Met:
    """The border points of both pieces, or some of them, with their nearest under each motion."""
    rows_x = np.arange(len(x)) if rows_x is None else rows_x
    rows_y = np.arange(len(y)) if rows_y is None else rows_y
    r, t = motions[:, :3, :3], motions[:, :3, 3]
    moved = x.points[rows_x] @ r.swapaxes(1, 2) + t[:, None]
    back = (y.points[rows_y] - t[:, None]) @ r
    to_y, to_x = _nearest(y, moved), _nearest(x, back)

    def turned(vectors: Float64[np.ndarray, "g m 3"]) -> Float64[np.ndarray, "g m 3"]:
        return vectors @ r.swapaxes(1, 2)

    def both(from_x: Points, from_y: Points) -> tuple[Float64[np.ndarray, "g m 3"], ...]:
        p = turned(np.concatenate([np.broadcast_to(from_x[rows_x], moved.shape), from_x[to_x]], axis=1))
        q = np.concatenate([from_y[to_y], np.broadcast_to(from_y[rows_y], back.shape)], axis=1)
        return p, q

    p, q = both(x.points, y.points)
    normal_p, normal_q = both(x.normals, y.normals)
    outward_p, outward_q = both(x.outward, y.outward)
    sign = np.sign(np.einsum("gmi,gmi->gm", normal_p, normal_q))[:, :, None]
    share = np.repeat([0.5 / len(rows_x), 0.5 / len(rows_y)], [len(rows_x), len(rows_y)])
    return Met(p + t[:, None], q, normal_p, sign * normal_q, outward_p, outward_q, share)


def closeness(met: Met, reach: float) -> Float64[np.ndarray, " g"]:
    """Share of both borders that meets, from 0 to 1: points count less the farther and the less aligned."""
    return (np.clip(1 - met.squared / reach**2, 0, None) * met.alignment) @ met.share


def _spread(border: Border, most: int) -> Int64[np.ndarray, " a"]:
    return farthest_points(border.points, min(most, len(border)))


def _nearest(border: Border, points: Float64[np.ndarray, "g m 3"]) -> Int64[np.ndarray, "g m"]:
    assert border.tree is not None
    index, _ = border.tree.batch_knn_search(points.reshape(-1, 3), 1)
    return index.view(np.int64)[:, 0].reshape(points.shape[:2])


def _frame_motions(
    x: Border, y: Border, rows_x: Int64[np.ndarray, " a"], rows_y: Int64[np.ndarray, " b"]
) -> Motions:
    """The motions that lay the frame of a border point of one piece onto that of the other."""
    frames_x, frames_y = (
        np.stack([border.tangents[rows], border.normals[rows], border.outward[rows]], axis=2)
        for border, rows in ((x, rows_x), (y, rows_y))
    )
    found = []
    for flip in FLIPS:
        motions = np.zeros((len(rows_x), len(rows_y), 4, 4))
        motions[..., 3, 3] = 1
        rotation = np.einsum("bik,kl,ajl->abij", frames_y, flip, frames_x)
        motions[..., :3, :3] = rotation
        motions[..., :3, 3] = y.points[rows_y] - np.einsum("abij,aj->abi", rotation, x.points[rows_x])
        found.append(motions.reshape(-1, 4, 4))
    return np.concatenate(found)


def _steps(met: Met, width: float, spacing: float) -> Motions:
    r"""The motions D that lessen the weighted squares of what separates the borders.

    Of p − q what lies across the surface and across the border, and of the directions what turns them apart;
    distances along the border hardly count. As in symmetric ICP, p turns by ω/2 and q by −ω/2, so that a swap
    inverts D exactly.
    """
    weight = met.share * np.clip(met.alignment, 0.05, 1) / np.square(1 + met.squared / width**2)
    weight = weight / weight.sum(1, keepdims=True)
    middle = (met.p + met.q) / 2
    center = np.einsum("gm,gmi->gi", weight, middle)
    arm, gap = middle - center[:, None], met.p - met.q
    normal, outward = (met.normal_p + met.normal_q) / 2, (met.outward_p - met.outward_q) / 2
    a, b = np.zeros((len(weight), 6, 6)), np.zeros((len(weight), 6))
    sigma = np.array([ACROSS, OUT, ALONG]) * spacing
    for direction, size in ((normal, sigma[0]), (outward, sigma[1])):
        rows = np.concatenate([np.cross(arm, direction), direction], axis=2)
        residual = np.einsum("gmi,gmi->gm", direction, gap)
        scaled = (weight / size**2)[:, :, None] * rows
        a += scaled.swapaxes(1, 2) @ rows
        b += np.einsum("gmi,gm->gi", scaled, residual)
    for axis in np.eye(3):  # every direction, weakly
        direction = np.broadcast_to(axis, arm.shape)
        rows = np.concatenate([np.cross(arm, direction), direction], axis=2)
        scaled = (weight / sigma[2] ** 2)[:, :, None] * rows
        a += scaled.swapaxes(1, 2) @ rows
        b += np.einsum("gmi,gm->gi", scaled, gap @ axis)
    for mean, off in ((normal, met.normal_p - met.normal_q), (outward, met.outward_p + met.outward_q)):
        # turning p by ω changes off by ω × mean; the squares are |off + ω × mean|²
        size = (weight / TURNED**2)[:, :, None]
        square = np.square(mean).sum(2)[:, :, None, None] * np.eye(3) - mean[:, :, :, None] * mean[:, :, None]
        a[:, :3, :3] += (size[:, :, :, None] * square).sum(1)
        b[:, :3] += (size * np.cross(mean, off)).sum(1)
    a += DAMPING * np.trace(a, axis1=1, axis2=2)[:, None, None] / 6 * np.eye(6)
    solved = -np.linalg.solve(a, b[:, :, None])[:, :, 0]
    turn, half = Rotation.from_rotvec(solved[:, :3]).as_matrix(), solved[:, 3:] / 2
    steps = np.zeros((len(weight), 4, 4))
    steps[:, 3, 3] = 1
    steps[:, :3, :3] = turn
    steps[:, :3, 3] = center + half + np.einsum("gij,gj->gi", turn, half - center)
    return steps
