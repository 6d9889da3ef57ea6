"""Pieces that share a surface: places that look alike, and the motions they agree on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from scipy.spatial.distance import cdist

from bitr.assembly.align import NO_MOTION, Motions, Points, distinct, dot, motions_between, moved, squares
from bitr.assembly.surface import Surface, common_spacing, fit_quadrics, unit_rows
from bitr.groups import nearest_rotation

REACHES = (8.0, 12.0)
"""Spacings around a point that its descriptor covers: the nearer part is left where the overlap is small, the
farther one tells more."""
NEIGHBORS = (256, 519)
"""Most neighbours within each reach that count; a plane has 200 and 450."""
ROWS = 128
"""Points that are described at once, few enough for the processor's cache."""
BINS = (6, 9, 3)
"""Bins of distances from the normal's line, heights above the tangent plane, angles between normals."""
CANDIDATES = 4
"""Points of the other piece that a point may correspond to, if it is one of theirs in turn."""
USUAL = 20
"""Points of the other piece that tell how alike a point is to others."""
TOLERANCE = 1.5
"""Spacings that two lengths may differ."""
CORRESPONDENCES = 1000
SEEDS = 600
"""Most correspondences that begin a motion each."""
TOGETHER, ROUNDS = 12, 2
"""Correspondences that a seed takes with it, and how often its motion is fitted again to all that agree."""
LEANING = 0.2
"""Cosines of two normals and the line between them may differ by this."""
WIDER = 1.5
"""Tolerance of a correspondence that agrees with a motion, over that of two lengths."""
FEWEST = 4
"""Correspondences without which nothing is tried."""
THIN = 1e-2
"""Width over length of places that count as a line."""
SAME_TURN, SAME_SHIFT = np.radians(9), 2.25
"""Motions that are closer, in radians and in spacings, are one."""
BENDING = 6.0
"""Spacings around a point that its curvature is measured in."""
LEAST_BENT = 0.01
"""Sum and difference of the principal curvatures, times that reach, below which they give no frame."""


@dataclass(frozen=True, eq=False)
class Frames:
    """Local frames of surface points."""

    axes: Float64[np.ndarray, "n 3 3"]
    """Columns: strongest bending, least bending, normal; the first two have no sign of their own."""
    is_firm: Bool[np.ndarray, " n"]
    """False where the surface is flat, or bends alike in all directions."""

    def take(self, rows: Int64[np.ndarray, " k"]) -> Frames:
        return Frames(self.axes[rows], self.is_firm[rows])


@dataclass(frozen=True, eq=False)
class Correspondences:
    """Places of the source and of the reference that look alike, the most alike first."""

    source: Points
    reference: Points
    tolerance: float
    """Length within which a correspondence agrees with a motion."""
    source_frames: Frames | None = None
    reference_frames: Frames | None = None

    def agreement(self, motions: Motions) -> Float64[np.ndarray, "g n"]:
        """Agreement of each correspondence with each motion: 1 where it is met, 0 from the tolerance on."""
        off = moved(self.source, motions) - self.reference
        return np.clip(1 - squares(off) / self.tolerance**2, 0, None)

    def support(self, motions: Motions) -> Float64[np.ndarray, " g"]:
        """How many agree with each motion, each counted from 0 to 1."""
        return self.agreement(motions).sum(1)


def correspond(x: Surface, y: Surface, most: int = CORRESPONDENCES) -> Correspondences:
    """Points that are among the most alike of each other, by descriptors that no motion changes."""
    spacing = common_spacing(x, y)
    i, j = _alike(descriptors(x, spacing) @ descriptors(y, spacing).T, most)
    return Correspondences(
        x.points[i], y.points[j], WIDER * TOLERANCE * spacing, frames(x).take(i), frames(y).take(j)
    )


def match_motions(found: Correspondences, most: int) -> Motions:
    """Motions that many correspondences agree with, the most supported first.

    Two correspondences are compatible where their points are equally far apart on either side, and their
    normals lean alike. Right ones are compatible with each other, wrong ones are not: each correspondence
    counts what its neighbours in that graph share with it, and the best of them begin a motion each. Swapping
    the sides inverts the motions.
    """
    if len(found.source) < FEWEST:
        return NO_MOTION
    linked = torch.from_numpy(_compatible(found).astype(np.float32))  # whole numbers: no sum is rounded
    links = (linked * (linked @ linked)).numpy()
    seeds = np.argsort(-links.sum(1), kind="stable")[:SEEDS]
    np.fill_diagonal(links, links.max(1))  # a seed and two others are three places: fewer fix no rotation
    taken = np.argsort(-links[seeds], axis=1, kind="stable")[:, :TOGETHER]
    weights = np.take_along_axis(links[seeds], taken, axis=1).astype(np.float64)
    begun = np.zeros((len(seeds), len(found.source)))
    np.put_along_axis(begun, taken, weights, axis=1)
    motions = _fit(found, begun[weights.sum(1) > 0])
    for _ in range(ROUNDS):
        agree = found.agreement(motions)
        motions = _fit(found, agree[(agree > 0).sum(1) >= FEWEST])
    shift = SAME_SHIFT * found.tolerance / (WIDER * TOLERANCE)
    return motions[distinct(motions, found.support(motions), most, SAME_TURN, shift)]


def _fit(found: Correspondences, weights: Float64[np.ndarray, "s n"]) -> Motions:
    """Arun's motions of weighted points that span a plane, alike on both sides: on a line, or where a plane
    meets one that it has nothing in common with, rounding would choose the rotation.

    All from the same points, so that their first and second moments are products of matrices.
    """
    both = np.concatenate([found.source, found.reference], axis=1)
    share = weights / weights.sum(1, keepdims=True)
    mean, square = share @ both, (both[:, :, None] * both[:, None]).reshape(len(both), 36)
    spread = (share @ square).reshape(-1, 6, 6) - mean[:, :, None] * mean[:, None]
    fixed = np.ones(len(weights), dtype=bool)
    for own in (slice(3), slice(3, 6)):
        values = np.linalg.eigvalsh(spread[:, own, own])
        fixed &= values[:, 1] > THIN**2 * values[:, 2]
    common = np.linalg.svd(spread[:, 3:, :3], compute_uv=False)
    fixed &= common[:, 1] > THIN**2 * common[:, 0]
    rotations = nearest_rotation(torch.from_numpy(spread[fixed, 3:, :3])).numpy()
    return motions_between(rotations, mean[fixed, :3], mean[fixed, 3:])


def frame_motions(found: Correspondences) -> Motions:
    """The motions that lay the frames of corresponding points on each other, two for each correspondence.

    One correspondence is enough for a motion where the surface bends more one way than the other. The line of
    strongest bending has no direction: either is taken.
    """
    x, y = found.source_frames, found.reference_frames
    assert x is not None
    assert y is not None
    firm = x.is_firm & y.is_firm
    turns = np.eye(3), np.diag([-1.0, -1.0, 1.0])
    rotations = np.stack([y.axes[firm] @ turn @ x.axes[firm].swapaxes(1, 2) for turn in turns])
    return motions_between(rotations, found.source[firm], found.reference[firm]).reshape(-1, 4, 4)


def frames(surface: Surface) -> Frames:
    """Directions of strongest and least bending and the normal, which points to where the surface bends.

    From a quadric through the neighbours of each point, those at the edge counting least.
    """
    points, normals, reach = surface.points, surface.normals, BENDING * surface.spacing
    index, squared = surface.tree.batch_knn_search(points, min(round(3.3 * BENDING**2), len(points)))
    local = (points[index.view(np.int64)] - points[:, None]) / reach
    quadrics = fit_quadrics(local, normals, np.clip(1 - squared / reach**2, 0, None))
    u, v, fitted = quadrics.u, quadrics.v, quadrics.coefficients
    bending = np.stack([2 * fitted[:, 3], fitted[:, 4], fitted[:, 4], 2 * fitted[:, 5]], axis=1)
    values, axes = np.linalg.eigh(bending.reshape(-1, 2, 2))
    up = np.where(values.sum(1) < 0, -1.0, 1.0)
    first = np.where(up > 0, 1, 0)  # seen from the other side, the least bending is the strongest
    direction = np.take_along_axis(axes, first[:, None, None], axis=2)[:, :, 0]
    normal = unit_rows((normals - fitted[:, 1:2] * u - fitted[:, 2:3] * v) * up[:, None])
    main = direction[:, :1] * u + direction[:, 1:] * v
    main = unit_rows(main - dot(main, normal)[:, None] * normal)
    is_firm = (values[:, 1] - values[:, 0] > LEAST_BENT) & (np.abs(values.sum(1)) > LEAST_BENT)
    return Frames(np.stack([main, np.cross(normal, main), normal], axis=2), is_firm)


def descriptors(surface: Surface, spacing: float) -> Float64[np.ndarray, "n d"]:
    """Rows of length 1 that describe the surroundings of each point; equal surroundings have product 1.

    For each reach the square roots of a histogram of where the neighbours are (a spin image) and of how their
    normals lean. Up is where the neighbours are, since the sign of a normal means nothing.
    """
    points, normals, found = surface.points, surface.normals, []
    for start in range(0, len(points), ROWS):
        p, n = points[start : start + ROWS], normals[start : start + ROWS]
        squared = cdist(p, points, "sqeuclidean")
        np.fill_diagonal(squared[:, start:], np.inf)  # a point is no neighbour of its own
        height, lean = n @ points.T - dot(p, n)[:, None], np.abs(n @ normals.T)
        images = [
            _spin_image(squared, height, lean, reach * spacing, most)
            for reach, most in zip(REACHES, NEIGHBORS, strict=True)
        ]
        found.append(np.concatenate(images, axis=1))
    return np.concatenate(found) / np.sqrt(len(REACHES))


def _spin_image(
    squared: Float64[np.ndarray, "n m"],
    height: Float64[np.ndarray, "n m"],
    lean: Float64[np.ndarray, "n m"],
    reach: float,
    most: int,
) -> Float64[np.ndarray, "n d"]:
    """The descriptors of n points for one reach, by at most so many of the nearest of m points."""
    near = squared < reach**2
    for row in np.flatnonzero(near.sum(1) > most):
        near[row] &= squared[row] <= np.partition(squared[row], most - 1)[most - 1]
    rows, columns = np.nonzero(near)
    height, lean, squared = height[rows, columns] / reach, lean[rows, columns], squared[rows, columns]
    height *= np.where(np.bincount(rows, height, len(near)) < 0, -1.0, 1.0)[rows]
    away = np.sqrt(np.clip(squared / reach**2 - height**2, 0, None))
    # heights are small where a surface is smooth: their square roots are told apart better
    places = (away, (np.sign(height) * np.sqrt(np.abs(height)) + 1) / 2, lean)
    counts = _histogram([np.clip(place, 0, 1) for place in places], rows, len(near))
    return np.sqrt(counts / np.maximum(counts.sum(1, keepdims=True), 1))


def _histogram(
    places: list[Float64[np.ndarray, " e"]], rows: Int64[np.ndarray, " e"], count: int
) -> Float64[np.ndarray, "n d"]:
    """Numbers from 0 to 1 by their row, each shared by the two bins next to it: no bin fills at a jump."""
    size = int(np.prod(BINS))
    cells = []
    for place, bins in zip(places, BINS, strict=True):
        low = np.minimum((place * (bins - 1)).astype(np.int64), bins - 2)
        part = place * (bins - 1) - low
        cells.append(((low, 1 - part), (low + 1, part)))
    counts = np.zeros(count * size)
    for (a, share_a), (b, share_b), (c, share_c) in product(*cells):
        cell = rows * size + (a * BINS[1] + b) * BINS[2] + c
        counts += np.bincount(cell, share_a * share_b * share_c, minlength=len(counts))
    return counts.reshape(count, size)


def _alike(
    similarity: Float64[np.ndarray, "n m"], most: int
) -> tuple[Int64[np.ndarray, " c"], Int64[np.ndarray, " c"]]:
    """Pairs that are among the nearest of each other; in turns the most alike, and the most telling.

    Points of a plane or a ball are alike everywhere, and there are many of them. A pair tells more where both
    points are far more alike than either is to others.
    """
    of_x, usual_x = _most_alike(similarity)
    of_y, usual_y = _most_alike(similarity.T)
    i, j = np.nonzero(of_x & of_y.T)
    alike = similarity[i, j]
    telling = alike - (usual_x[i] + usual_y[j]) / 2
    turns = np.minimum(2 * ranks(alike), 2 * ranks(telling) + 1)
    order = np.argsort(turns, kind="stable")[:most]
    return i[order], j[order]


def ranks(values: Float64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """Place of each value, the largest first."""
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return ranks


def _most_alike(
    similarity: Float64[np.ndarray, "n m"],
) -> tuple[Bool[np.ndarray, "n m"], Float64[np.ndarray, " n"]]:
    """True where a column is among the few most alike of its row, and the row's mean over some more."""
    few, some = (min(count, similarity.shape[1]) for count in (CANDIDATES, USUAL))
    best = np.sort(np.partition(similarity, -some, axis=1)[:, -some:], axis=1)
    return similarity >= best[:, [-few]], best.mean(1)


def _compatible(found: Correspondences) -> Bool[np.ndarray, "n n"]:
    """True where two correspondences may be of one motion: equal distances, and normals that lean alike."""
    tolerance = found.tolerance / WIDER
    of_x, of_y = cdist(found.source, found.source), cdist(found.reference, found.reference)
    compatible = (np.abs(of_x - of_y) < tolerance) & (np.minimum(of_x, of_y) > 2 * tolerance)
    if found.source_frames is None or found.reference_frames is None:
        return compatible
    n, m = found.source_frames.axes[:, :, 2], found.reference_frames.axes[:, :, 2]
    compatible &= np.abs(np.abs(n @ n.T) - np.abs(m @ m.T)) < LEANING
    lean = np.abs(_lean(found.source, n, of_x) - _lean(found.reference, m, of_y)) < LEANING
    return compatible & lean & lean.T


def _lean(points: Points, normals: Points, apart: Float64[np.ndarray, "n n"]) -> Float64[np.ndarray, "n n"]:
    """Cosine between the line from one point to another and the other's normal."""
    return np.abs(points @ normals.T - dot(points, normals)) / np.maximum(apart, 1e-12)
