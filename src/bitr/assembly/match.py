"""Pieces that share a surface: places that look alike, and the motions they agree on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from scipy.spatial.distance import cdist
from torch import Tensor

from bitr.groups import Rigid
from bitr.refine.arun import arun
from bitr.refine.frame import Matrix, Points, moved, moved_back
from bitr.refine.surface import Surface, common_spacing

REACH = 8.0
"""Spacings around a point that its descriptor covers."""
NEIGHBORS = 256
"""Most neighbours within that reach that count; a plane has 200."""
BINS = (6, 9, 3)
"""Of distances from the normal's line, of heights above the tangent plane, of angles between normals."""
CANDIDATES = 3
"""Points of the other piece that a point may correspond to, if it is one of theirs in turn."""
TOLERANCE = 1.5
"""Spacings that two lengths may differ."""
TOGETHER, ROUNDS = 24, 4
"""Correspondences that a seed takes with it, and how often its motion is fitted again to all that agree."""
WIDER = 1.5
"""What a correspondence may be off to agree with a motion, over what two lengths may differ."""
FEWEST = 4
"""Correspondences without which nothing is tried."""
THIN = 1e-2
"""Width over length of places that count as a line."""


@dataclass(frozen=True)
class Effort:
    """How wide a search is."""

    correspondences: int
    seeds: int


FIRST = Effort(correspondences=1000, seeds=60)
WIDE = Effort(correspondences=2500, seeds=120)


@dataclass(frozen=True, eq=False)
class Correspondences:
    """Places of the source and of the reference that look alike, the most alike first."""

    source: Points
    reference: Points
    tolerance: float
    """Length within which a correspondence agrees with a motion."""

    def support(self, motions: Float64[np.ndarray, "g 4 4"]) -> Float64[np.ndarray, " g"]:
        """How many agree with each motion, each counted from 0 to 1."""
        off = self.source @ motions[:, :3, :3].swapaxes(1, 2) + motions[:, None, :3, 3] - self.reference
        return np.clip(1 - np.square(off).sum(2) / self.tolerance**2, 0, None).sum(1)


def correspond(x: Surface, y: Surface, effort: Effort) -> Correspondences:
    """Points that are among the most alike of each other, by descriptors that no motion changes."""
    spacing = common_spacing(x, y)
    i, j = _alike(descriptors(x, spacing) @ descriptors(y, spacing).T, effort.correspondences)
    return Correspondences(x.points[i], y.points[j], WIDER * TOLERANCE * spacing)


def match_motions(found: Correspondences, effort: Effort, most: int) -> Float64[np.ndarray, "g 4 4"]:
    """Motions that many correspondences agree with, the most supported first.

    Two correspondences are compatible where their points are equally far apart on either side. Right ones are
    compatible with each other, wrong ones are not: each correspondence counts what its neighbours in that
    graph share with it, and the best of them seed a motion each. Swapping the sides inverts the motions.
    """
    none, tolerance = np.empty((0, 4, 4)), found.tolerance / WIDER
    if len(found.source) < FEWEST:
        return none
    of_x, of_y = cdist(found.source, found.source), cdist(found.reference, found.reference)
    compatible = (np.abs(of_x - of_y) < tolerance) & (np.minimum(of_x, of_y) > 2 * tolerance)
    linked = torch.from_numpy(compatible.astype(np.float32))  # whole numbers, so that no sum is rounded
    links = (linked * (linked @ linked)).numpy()
    seeds = np.argsort(-links.sum(1), kind="stable")[: effort.seeds]
    np.fill_diagonal(links, links.max(1))  # a seed and two others are three places: fewer fix no rotation
    taken = np.argsort(-links[seeds], axis=1, kind="stable")[:, :TOGETHER]
    weights = np.take_along_axis(links[seeds], taken, axis=1).astype(np.float64)
    begun = weights.sum(1) > 0
    if not begun.any():
        return none
    source, reference = torch.from_numpy(found.source), torch.from_numpy(found.reference)
    rows = torch.from_numpy(taken[begun])
    motions = arun(source[rows], reference[rows], torch.from_numpy(weights[begun]))
    for _ in range(ROUNDS):
        agreement = _agreement(motions, source, reference, found.tolerance)
        enough = agreement[(agreement > 0).sum(1) >= FEWEST]
        enough = enough[_span(source, enough) & _span(reference, enough)]
        if not len(enough):
            return none
        motions = arun(source.expand(len(enough), -1, -1), reference.expand(len(enough), -1, -1), enough)
    matrices = motions.matrix().numpy()
    return distinct(matrices, found.support(matrices), found, most)


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


def _span(points: Float64[Tensor, "n 3"], weights: Float64[Tensor, "s n"]) -> Bool[Tensor, " s"]:
    """Whether weighted points span a plane: on a line they fix no rotation, and rounding would choose one."""
    share = weights / weights.sum(1, keepdim=True)
    offset = points - (share @ points)[:, None]
    values = torch.linalg.eigvalsh((share[:, :, None] * offset).mT @ offset)
    return values[:, 1] > THIN**2 * values[:, 2]


def distinct(
    motions: Float64[np.ndarray, "g 4 4"],
    score: Float64[np.ndarray, " g"],
    found: Correspondences,
    most: int,
) -> Float64[np.ndarray, "k 4 4"]:
    """The best motions that put the correspondences to different places."""
    kept: list[Matrix] = []
    for i in np.argsort(-score, kind="stable"):
        gaps = [
            (_moves(found.source, motions[i], k) + _moves_back(found.reference, motions[i], k)) / 2
            for k in kept
        ]
        if not gaps or min(gaps) > 2 * found.tolerance:
            kept.append(motions[i])
            if len(kept) == most:
                break
    return np.stack(kept) if kept else np.empty((0, 4, 4))


def _moves(points: Points, one: Matrix, other: Matrix) -> float:
    """How far apart two motions put points, on average."""
    return float(np.linalg.norm(moved(points, one) - moved(points, other), axis=1).mean())


def _moves_back(points: Points, one: Matrix, other: Matrix) -> float:
    """The same of the inverse motions, so that a swap of the pieces changes no choice."""
    return float(np.linalg.norm(moved_back(points, one) - moved_back(points, other), axis=1).mean())
