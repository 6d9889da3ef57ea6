"""Poses that give the same assembly, and poses that symmetries make of one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64

from bitr.data.poses import inverse
from bitr.hypotheses.turning import angles
from bitr.refine.frame import Frame

SAME_TURN, SAME_SHIFT = np.radians(10), 0.1
"""Poses are one up to this angle and this share of the pieces' size."""
APART = 2.0
"""Poses that symmetries make of one are one up to this gap. Turns of a group are farther from each other; but
where both pieces are symmetric, and a pose is off by a few degrees, images of it are twice that apart."""
MANY = 24
"""The turns of a cube."""

Poses = Float64[np.ndarray, "_ 4 4"]
Pose = Float64[np.ndarray, "4 4"]


@dataclass(frozen=True, eq=False)
class Nearness:
    """How far two poses of a pair are from each other: unchanged by motions, by scale and by a swap."""

    source_center: Float64[np.ndarray, " 3"]
    reference_center: Float64[np.ndarray, " 3"]
    size: float

    @classmethod
    def of(cls, source: Float64[np.ndarray, "n 3"], reference: Float64[np.ndarray, "m 3"]) -> Nearness:
        frame = Frame.of(source, reference)
        return cls(frame.source_center, frame.reference_center, frame.unit)

    def gaps(self, poses: Poses, pose: Pose) -> Float64[np.ndarray, " k"]:
        """At most 1 where two poses give the same assembly.

        The larger of the angle between them and the mean of how far either piece's centre is from its place
        in the other's coordinates, each over what is allowed.
        """
        turn = angles(poses[:, :3, :3] @ pose[:3, :3].T)
        there = self._apart(poses, pose, self.source_center)
        back = self._apart(inverse(poses), inverse(pose), self.reference_center)
        return np.maximum(turn / SAME_TURN, (there + back) / 2 / SAME_SHIFT)

    def _apart(self, poses: Poses, pose: Pose, place: Float64[np.ndarray, " 3"]) -> Float64[np.ndarray, " k"]:
        """How far apart poses take a place, in the pieces' size."""
        off = (poses[:, :3, :3] - pose[:3, :3]) @ place + poses[:, :3, 3] - pose[:3, 3]
        return np.linalg.norm(off / (self.size or 1.0), axis=1)  # squares of very large numbers have no room


@dataclass(frozen=True, eq=False)
class Orbit:
    """What symmetries of the pieces make of a pose g. A swap of the pieces inverts all of it."""

    every: Poses
    """All h_Y g h_X, also those that are about the same; g itself is the first."""
    larger: int
    """How many symmetries the piece with more of them has."""
    nearness: Nearness

    @classmethod
    def of(cls, pose: Pose, source: Poses, reference: Poses, nearness: Nearness) -> Orbit:
        every = (reference[:, None] @ pose @ source).reshape(-1, 4, 4)
        return cls(every, max(len(source), len(reference)), nearness)

    def has(self, pose: Pose) -> bool:
        """Whether a pose gives the same assembly as one of them."""
        return bool(self.nearness.gaps(self.every, pose).min() <= 1)

    @cached_property
    def size(self) -> float:
        """How many differ: of all h_Y g h_X, the same share is about g as about any other."""
        again = self.nearness.gaps(self.every, self.every[0]) <= APART
        return len(self.every) / np.count_nonzero(again)

    def images(self, most: int) -> Poses:
        """Up to ``most`` that differ, g first and then each the farthest from those before it.

        They are no more than the larger group or a cube has. Where more would differ, g takes few symmetries
        of one piece to those of the other: it may be far off, and then so are all of them.
        """
        chosen, gaps = [0], self.nearness.gaps(self.every, self.every[0])
        while len(chosen) < min(most, round(self.size), max(self.larger, MANY)):
            chosen.append(int(gaps.argmax()))
            gaps = np.minimum(gaps, self.nearness.gaps(self.every, self.every[chosen[-1]]))
        return self.every[chosen]
