"""Pieces that share a surface: places that look alike, and the motions they agree on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from scipy.spatial.distance import cdist
from torch import Tensor

from bitr.assembly.overlay import Motions, distinct
from bitr.groups import Rigid
from bitr.refine.arun import arun
from bitr.refine.frame import Points, dot
from bitr.refine.surface import Surface, common_spacing

REACH = 8.0
"""Spacings around a point that its descriptor covers."""
NEIGHBORS = 256
"""Most neighbours within that reach that count; a plane has 200."""
BINS = (6, 9, 3)
"""Of distances from the normal's line, of heights above the tangent plane, of angles between normals."""
CANDIDATES = 4
"""Points of the other piece that a point may correspond to, if it is one of theirs in turn."""
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
"""What a correspondence may be off to agree with a motion, over what two lengths may differ."""
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

    def support(self, motions: Float64[np.ndarray, "g 4 4"]) -> Float64[np.ndarray, " g"]:
        """How many agree with each motion, each counted from 0 to 1."""
        off = self.source @ motions[:, :3, :3].swapaxes(1, 2) + motions[:, None, :3, 3] - self.reference
        return np.clip(1 - np.square(off).sum(2) / self.tolerance**2, 0, None).sum(1)


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
    none = np.empty((0, 4, 4))
    if len(found.source) < FEWEST:
        return none
    linked = torch.from_numpy(_compatible(found).astype(np.float32))  # whole numbers: no sum is rounded
    links = (linked * (linked @ linked)).numpy()
    seeds = np.argsort(-links.sum(1), kind="stable")[:SEEDS]
    np.fill_diagonal(links, links.max(1))  # a seed and two others are three places: fewer fix no rotation
    taken = np.argsort(-links[seeds], axis=1, kind="stable")[:, :TOGETHER]
    weights = np.take_along_axis(links[seeds], taken, axis=1).astype(np.float64)
    begun = weights.sum(1) > 0
    source, reference = torch.from_numpy(found.source), torch.from_numpy(found.reference)
    rows, shares = torch.from_numpy(taken[begun]), torch.from_numpy(weights[begun])
    spans = _span(source[rows], shares) & _span(reference[rows], shares)
    if not spans.any():
        return none
    motions = arun(source[rows][spans], reference[rows][spans], shares[spans])
    for _ in range(ROUNDS):
        agree = _agreement(motions, source, reference, found.tolerance)
        enough = agree[(agree > 0).sum(1) >= FEWEST]
        enough = enough[_span(source, enough) & _span(reference, enough)]
        if not len(enough):
            return none
        motions = arun(source.expand(len(enough), -1, -1), reference.expand(len(enough), -1, -1), enough)
    matrices = motions.matrix().numpy()
    shift = SAME_SHIFT * found.tolerance / (WIDER * TOLERANCE)
    return matrices[distinct(matrices, found.support(matrices), most, SAME_TURN, shift)]


def frame_motions(found: Correspondences) -> Motions:
    """The motions that lay the frames of corresponding points on each other, two for each correspondence.

    One correspondence is enough for a motion where the surface bends more one way than the other. The line of
    strongest bending has no direction: either is taken.
    """
    x, y = found.source_frames, found.reference_frames
    assert x is not None
    assert y is not None
    firm = x.is_firm & y.is_firm
    motions = np.zeros((2, int(firm.sum()), 4, 4))
    motions[..., 3, 3] = 1
    for k, turn in enumerate((np.eye(3), np.diag([-1.0, -1.0, 1.0]))):
        rotation = y.axes[firm] @ turn @ x.axes[firm].swapaxes(1, 2)
        motions[k, :, :3, :3] = rotation
        motions[k, :, :3, 3] = found.reference[firm] - np.einsum("nij,nj->ni", rotation, found.source[firm])
    return motions.reshape(-1, 4, 4)


def frames(surface: Surface) -> Frames:
    """Directions of strongest and least bending and the normal, which points to where the surface bends.

    From a quadric through the neighbours of each point, those at the edge counting least.
    """
    points, normals, reach = surface.points, surface.normals, BENDING * surface.spacing
    index, squared = surface.tree.batch_knn_search(points, min(round(3.3 * BENDING**2), len(points)))
    weight = np.clip(1 - squared / reach**2, 0, None)
    helper = np.eye(3)[np.abs(normals).argmin(1)]
    u = np.cross(normals, helper)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    v = np.cross(normals, u)
    local = (points[index.view(np.int64)] - points[:, None]) / reach
    a, b, height = (np.einsum("nki,ni->nk", local, axis) for axis in (u, v, normals))
    terms = np.stack([np.ones_like(a), a, b, a * a, a * b, b * b], axis=2)
    weighted = (terms * weight[:, :, None]).swapaxes(1, 2)
    fitted = np.linalg.solve(weighted @ terms + 1e-9 * np.eye(6), weighted @ height[:, :, None])[:, :, 0]
    bending = np.stack([2 * fitted[:, 3], fitted[:, 4], fitted[:, 4], 2 * fitted[:, 5]], axis=1)
    values, axes = np.linalg.eigh(bending.reshape(-1, 2, 2))
    up = np.where(values.sum(1) < 0, -1.0, 1.0)
    first = np.where(up > 0, 1, 0)  # seen from the other side, the least bending is the strongest
    direction = np.take_along_axis(axes, first[:, None, None], axis=2)[:, :, 0]
    normal = (normals - fitted[:, 1:2] * u - fitted[:, 2:3] * v) * up[:, None]
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    main = direction[:, :1] * u + direction[:, 1:] * v
    main -= dot(main, normal)[:, None] * normal
    main /= np.linalg.norm(main, axis=1, keepdims=True)
    is_firm = (values[:, 1] - values[:, 0] > LEAST_BENT) & (np.abs(values.sum(1)) > LEAST_BENT)
    return Frames(np.stack([main, np.cross(normal, main), normal], axis=2), is_firm)


def descriptors(surface: Surface, spacing: float) -> Float64[np.ndarray, "n d"]:
    """Rows of length 1 that describe the surroundings of each point; equal surroundings have product 1.

    Square roots of a histogram of where the neighbours are (a spin image) and of how their normals lean. Up
    is where the neighbours are, since the sign of a normal means nothing.
    """
    points, normals, reach = surface.points, surface.normals, REACH * spacing
    index, squared = surface.tree.batch_knn_search(points, min(NEIGHBORS, len(points)))
    index, squared = index.view(np.int64)[:, 1:], squared[:, 1:] / reach**2
    near = squared < 1
    height = np.einsum("nki,ni->nk", points[index] - points[:, None], normals) / reach
    up = np.where((height * near).sum(1) < 0, -1.0, 1.0)
    height *= up[:, None]
    away = np.sqrt(np.clip(squared - height**2, 0, None))
    lean = np.abs(np.einsum("nki,ni->nk", normals[index], normals))
    # heights are small where a surface is smooth: their square roots are told apart better
    places = (away, (np.sign(height) * np.sqrt(np.abs(height)) + 1) / 2, lean)
    counts = _histogram([np.clip(place, 0, 1)[near] for place in places], near)
    return np.sqrt(counts / np.maximum(counts.sum(1, keepdims=True), 1))


def _histogram(
    places: list[Float64[np.ndarray, " e"]], near: Bool[np.ndarray, "n k"]
) -> Float64[np.ndarray, "n d"]:
    """Numbers from 0 to 1, each shared by the two bins next to it, so that no bin fills at a jump."""
    rows, size = np.repeat(np.arange(len(near)), near.sum(1)), int(np.prod(BINS))
    cells = []
    for place, bins in zip(places, BINS, strict=True):
        low = np.minimum((place * (bins - 1)).astype(np.int64), bins - 2)
        part = place * (bins - 1) - low
        cells.append(((low, 1 - part), (low + 1, part)))
    counts = np.zeros(len(near) * size)
    for (a, share_a), (b, share_b), (c, share_c) in product(*cells):
        cell = rows * size + (a * BINS[1] + b) * BINS[2] + c
        counts += np.bincount(cell, share_a * share_b * share_c, minlength=len(counts))
    return counts.reshape(len(near), size)


def _alike(
    similarity: Float64[np.ndarray, "n m"], most: int
) -> tuple[Int64[np.ndarray, " c"], Int64[np.ndarray, " c"]]:
    """Pairs that are among the nearest of each other, the most alike first."""
    i, j = np.nonzero(_nearest(similarity) & _nearest(similarity.T).T)
    order = np.argsort(-similarity[i, j], kind="stable")[:most]
    return i[order], j[order]


def _nearest(similarity: Float64[np.ndarray, "n m"]) -> Bool[np.ndarray, "n m"]:
    """Whether a column is among the most alike of its row."""
    count = min(CANDIDATES, similarity.shape[1])
    rows = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
    found = np.zeros(similarity.shape, dtype=bool)
    np.put_along_axis(found, rows, True, axis=1)
    return found


def _agreement(
    motions: Rigid, source: Float64[Tensor, "n 3"], reference: Float64[Tensor, "n 3"], width: float
) -> Float64[Tensor, "s n"]:
    """Of each correspondence with each motion: 1 where it is met, 0 from ``width`` on."""
    off = motions.act(source.expand(len(motions.rotation), -1, -1)) - reference
    return (1 - off.square().sum(2) / width**2).clamp_min(0)


def _span(points: Float64[Tensor, "*s n 3"], weights: Float64[Tensor, "s n"]) -> Bool[Tensor, " s"]:
    """Whether weighted points span a plane: on a line they fix no rotation, and rounding would choose one."""
    share = (weights / weights.sum(1, keepdim=True))[:, :, None]
    offset = points - (share * points).sum(1, keepdim=True)
    values = torch.linalg.eigvalsh((share * offset).mT @ offset)
    return values[:, 1] > THIN**2 * values[:, 2]


def _compatible(found: Correspondences) -> Bool[np.ndarray, "n n"]:
    """Whether two correspondences can be of one motion: equal distances, and normals that lean alike."""
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
