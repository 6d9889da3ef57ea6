"""From rough motions to finished ones: surfaces that overlap, borders that meet, pieces that touch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from bitr.assembly.propose import Motions, Proposals
from bitr.assembly.sample import Sampled
from bitr.assembly.seam import settle
from bitr.refine.frame import moved, moved_back
from bitr.refine.icp import bring_together, polish
from bitr.refine.surface import Surface, common_spacing

METHODS = ("overlap", "seam", "touch", "model")
"""Kinds of joint. ``model`` is the model's pose as it is."""
SAME_TURN, SAME_SHIFT = np.radians(12), 0.12
"""Motions are one up to this angle and this share of the pieces' size."""
MODES = 3
"""Most different motions of the model that are kept as they are, and brought to touch."""
STARTS = 8
"""Most different motions of the model that start a search along the borders."""
WIDE_SEAM, NEAR_SEAM = 8.0, 3.0
"""Spacings within which borders attract each other at first: from the model, and from a given pose."""
CLOSEST = 10
"""Pairs of points by which the gap between two pieces is measured."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Finished motions in the coordinates of the pair's frame."""

    poses: Motions
    methods: tuple[str, ...]
    """What finished each: one of ``METHODS``, or ``given`` for a pose that the user gives."""
    origins: tuple[str, ...]
    """Where each was proposed: model, match, seam, copy or given."""
    starts: Motions
    """What each was before it was finished."""

    def __len__(self) -> int:
        return len(self.poses)

    def take(self, rows: Int64[np.ndarray, " k"] | list[int]) -> Candidates:
        return Candidates(
            self.poses[rows],
            tuple(self.methods[i] for i in rows),
            tuple(self.origins[i] for i in rows),
            self.starts[rows],
        )


def finish(sampled: Sampled, proposals: Proposals, methods: frozenset[str]) -> Candidates:
    """Every proposal finished by the methods that fit it, and the model's own motions as they are."""
    x, y = sampled.source, sampled.reference
    modes = model_modes(proposals.model, proposals.share, STARTS)
    main = modes[:MODES]
    found: list[tuple[Motions, str, str, Motions]] = []
    if "overlap" in methods:
        for origin, starts in (("match", proposals.match), ("model", main[:1]), ("given", proposals.given)):
            ended = np.stack([_overlapping(sampled, g) for g in starts]) if len(starts) else starts
            found.append((ended, "overlap", origin, starts))
        found.append((proposals.copy, "overlap", "copy", proposals.copy))
    if "seam" in methods and min(len(x.border), len(y.border)) >= 4:
        found.append((proposals.seam, "seam", "seam", proposals.seam))
        found.append((settle(x, y, modes, WIDE_SEAM), "seam", "model", modes))
        if len(proposals.given):
            found.append((settle(x, y, proposals.given, NEAR_SEAM), "seam", "given", proposals.given))
    if "touch" in methods:
        touching = np.stack([_touching(x, y, g) for g in main])
        found.append((touching, "touch", "model", main))
    found.append((main, "model", "model", main))
    found.append((proposals.given, "given", "given", proposals.given))
    return _joined([entry for entry in found if len(entry[0])])


def gaps(poses: Motions, pose: Float64[np.ndarray, "4 4"]) -> Float64[np.ndarray, " g"]:
    """How far motions are from one, at most 1 where they give the same assembly.

    In the coordinates of the frame the centroids are the origin: a motion moves them by its translation, and
    its inverse by the translation turned back.
    """
    trace = np.einsum("gij,ij->g", poses[:, :3, :3], pose[:3, :3])
    turn = np.arccos(np.clip((trace - 1) / 2, -1, 1))
    there = np.linalg.norm(poses[:, :3, 3] - pose[:3, 3], axis=1)
    origin = -pose[:3, :3].T @ pose[:3, 3]
    origins = -np.einsum("gji,gj->gi", poses[:, :3, :3], poses[:, :3, 3])
    back = np.linalg.norm(origins - origin, axis=1)
    return np.maximum(turn / SAME_TURN, (there + back) / 2 / SAME_SHIFT)


def model_modes(poses: Motions, share: Float64[np.ndarray, " g"], most: int) -> Motions:
    """Motions of the model that differ, those with the largest share of agreeing ones first."""
    apart = np.stack([gaps(poses, pose) for pose in poses])
    support = (np.clip(1 - np.square(apart / 2), 0, None) * share).sum(1)
    kept: list[int] = []
    for i in np.argsort(-np.round(support, 9), kind="stable"):  # of equals the first, whatever the rounding
        if not kept or apart[i, kept].min() > 1:
            kept.append(int(i))
            if len(kept) == most:
                break
    return poses[kept]


def _overlapping(sampled: Sampled, start: Float64[np.ndarray, "4 4"]) -> Float64[np.ndarray, "4 4"]:
    """The motion moved to where the surfaces lie on each other: a search on few points, then on all."""
    x, y = sampled.source, sampled.reference
    found, _ = bring_together(*sampled.coarse, start)
    return found if sampled.coarse == (x, y) else polish(x, y, found)


def _touching(x: Surface, y: Surface, start: Float64[np.ndarray, "4 4"]) -> Float64[np.ndarray, "4 4"]:
    """The motion, shifted until the nearest points of both pieces are one spacing apart."""
    p, back = moved(x.points, start), moved_back(y.points, start)
    to_y, to_x = y.nearest(p), x.nearest(back)
    gap = np.concatenate([y.points[to_y] - p, y.points - p[to_x]])
    length = np.linalg.norm(gap, axis=1)
    closest = np.argsort(length, kind="stable")[:CLOSEST]
    away = float(length[closest].mean())
    if away <= common_spacing(x, y):
        return start
    direction = gap[closest].mean(0)
    size = np.linalg.norm(direction)
    if size < 1e-9:
        return start
    ended = start.copy()
    ended[:3, 3] += direction / size * (away - common_spacing(x, y))
    return ended


def _joined(found: list[tuple[Motions, str, str, Motions]]) -> Candidates:
    poses, starts = (np.concatenate([entry[k] for entry in found]) for k in (0, 3))
    methods = tuple(entry[1] for entry in found for _ in entry[0])
    origins = tuple(entry[2] for entry in found for _ in entry[0])
    return Candidates(poses, methods, origins, starts)
