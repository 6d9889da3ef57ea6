"""Finish motions: surfaces overlap, borders meet, breaks mate, pieces touch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Int64

from bitr.assembly.align import (
    SAME_SHIFT,
    SAME_TURN,
    Matrix,
    Motions,
    Numbers,
    distinct,
    gaps,
    side_by_side,
)
from bitr.assembly.mate import settle_mates
from bitr.assembly.overlay import bring_together, polish
from bitr.assembly.propose import Proposals
from bitr.assembly.sample import Sampled
from bitr.assembly.seam import settle
from bitr.assembly.surface import Surface, common_spacing, couple

METHODS = ("overlap", "seam", "mate", "touch", "model")
"""Kinds of joint. ``model`` is the model's pose as it is."""
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
    """The method that finished each: one of ``METHODS``, or ``given`` for a pose that the user gives."""
    origins: tuple[str, ...]
    """The proposer of each: model, match, seam, mate, copy or given."""
    starts: Motions
    """The motions before they were finished."""

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
            ended = starts
            if len(starts):
                ended = np.stack(side_by_side(*(partial(_overlay, sampled, g) for g in starts)))
            found.append((ended, "overlap", origin, starts))
        found.append((proposals.copy, "overlap", "copy", proposals.copy))
    if "seam" in methods and min(len(x.border), len(y.border)) >= 4:
        found.append((proposals.seam, "seam", "seam", proposals.seam))
        found.append((settle(x, y, modes, WIDE_SEAM), "seam", "model", modes))
        if len(proposals.given):
            found.append((settle(x, y, proposals.given, NEAR_SEAM), "seam", "given", proposals.given))
    if "mate" in methods and sampled.sheets is not None:
        found.append((proposals.mate, "mate", "mate", proposals.mate))
        for origin, starts, widest in (("model", modes, WIDE_SEAM), ("given", proposals.given, NEAR_SEAM)):
            if len(starts):
                ended = settle_mates(*sampled.sheets, starts, widest=widest)
                found.append((ended, "mate", origin, starts))
    if "touch" in methods:
        found.append((np.stack([bring_to_touch(x, y, g) for g in main]), "touch", "model", main))
    found.append((main, "model", "model", main))
    found.append((proposals.given, "given", "given", proposals.given))
    found = [entry for entry in found if len(entry[0])]
    return Candidates(
        np.concatenate([entry[0] for entry in found]),
        tuple(entry[1] for entry in found for _ in entry[0]),
        tuple(entry[2] for entry in found for _ in entry[0]),
        np.concatenate([entry[3] for entry in found]),
    )


def model_modes(poses: Motions, share: Numbers, most: int) -> Motions:
    """Motions of the model that differ, those with the largest share of agreeing ones first."""
    apart = np.stack([gaps(poses, pose) for pose in poses])
    support = (np.clip(1 - np.square(apart / 2), 0, None) * share).sum(1)
    ranked = np.round(support, 9)  # of equals the first, whatever the rounding
    return poses[distinct(poses, ranked, most, SAME_TURN, SAME_SHIFT)]


def _overlay(sampled: Sampled, start: Matrix) -> Matrix:
    """Move the motion to where the surfaces lie on each other: a search on few points, then on all."""
    x, y = sampled.source, sampled.reference
    found = bring_together(*sampled.coarse, start)
    return found if sampled.coarse == (x, y) else polish(x, y, found)


def bring_to_touch(x: Surface, y: Surface, start: Matrix) -> Matrix:
    """Shift the motion until the nearest points of both pieces are one spacing apart."""
    found = couple(x, y, start)
    gap = found.q - found.p
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
