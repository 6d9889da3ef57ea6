"""The near-symmetries of a cloud: motions after which it cannot be told from what it was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.spatial.transform import Rotation

from bitr.data.poses import pose
from bitr.hypotheses.candidates import SMALLEST, candidates, frame, thinned
from bitr.hypotheses.group import SAME, grown
from bitr.hypotheses.outline import FEWEST, FLAT, Outline, spreads
from bitr.hypotheses.round import Axis, principal_axes, round_axes
from bitr.hypotheses.self_match import (
    FINE,
    PROMISING,
    ROUGH,
    allowed,
    misfit,
    partners,
    settled,
    verdict,
)
from bitr.hypotheses.turning import about, angles, common_axis
from bitr.hypotheses.turns import Turns

MANY_SIDED = np.radians(55)
"""A smallest turn below this, that of a prism with seven sides, makes one look whether the axis is round."""
ENOUGH = 16
"""Turns of which all others of a group are products; of a cube's 23, any 16 will do."""
STEPS_AROUND = 16
"""Turns about a round axis that are listed."""


@dataclass(frozen=True, eq=False)
class Symmetries:
    """A group of motions of a cloud onto itself, up to its noise and its spacing; the identity is the first.

    They move with the cloud: those of gX are g h g⁻¹ for those h of X. With each its inverse is one of them.
    """

    motions: Float64[np.ndarray, "k 4 4"]
    """All of them; of a round cloud without the turns about its axis, of a ball those of an icosahedron."""
    axis: Float64[np.ndarray, " 3"] | None = None
    """Any turn about it is a symmetry; its sign means nothing."""
    place: Float64[np.ndarray, " 3"] | None = None
    """A point of that axis."""
    ball: bool = False
    """Any turn at all is a symmetry."""

    @property
    def trivial(self) -> bool:
        return len(self.motions) == 1 and self.axis is None

    def listed(self) -> Float64[np.ndarray, "k 4 4"]:
        """All of them; of a round cloud 16 turns about its axis, evenly spread, times the others."""
        if self.axis is None or self.place is None:
            return self.motions
        turns = about(self.axis, 2 * np.pi * np.arange(STEPS_AROUND) / STEPS_AROUND)
        around = np.stack([pose(turn, self.place - turn @ self.place) for turn in turns])
        return (around[:, None] @ self.motions).reshape(-1, 4, 4)


NONE = Symmetries(np.eye(4)[None])


def symmetries(cloud: Float64[np.ndarray, "n 3"]) -> Symmetries:
    """Turns h, about a place near the middle, with hX ≈ X: the cloud is matched with itself.

    symmetries(gX) = g symmetries(X) g⁻¹ for motions g, and a scale changes nothing. Up to 16,000 points their
    order does not matter. Clouds of fewer than 32 points, or flat ones, are left alone.
    """
    spread = spreads(cloud)
    if len(cloud) < FEWEST or not spread[2] > FLAT * spread[0]:
        return NONE
    outline = Outline.of(cloud)
    if len(outline.probes) < FEWEST:  # the others are copies
        return NONE
    axes = round_axes(outline, principal_axes(outline))
    if axes:
        return _round(outline, axes)
    group = grown(outline, _found(outline))
    if len(group) > 1 and angles(group.rotations[1:]).min() < MANY_SIDED:
        smallest = group.rotations[1:][angles(group.rotations[1:]) < MANY_SIDED]
        axes = round_axes(outline, common_axis(smallest)[None])
        if axes:
            return _round(outline, axes)
    return Symmetries(outline.outside(group.rotations, group.shifts))


def _found(outline: Outline) -> Turns:
    """Turns that fit, each once, the best first; not all, but enough to make the others from."""
    turns = settled(outline, candidates(outline), ROUGH)
    if not len(turns):
        return turns
    score = misfit(partners(outline, turns, ROUGH[0]), outline)
    turns = _each_once(turns, np.where(score < PROMISING * allowed(outline), score, np.inf))[:ENOUGH]
    turns = settled(outline, turns, FINE)
    return _each_once(turns, verdict(outline, turns))


def _each_once(turns: Turns, score: Float64[np.ndarray, " c"]) -> Turns:
    """Turns that differ and are large enough to be some, those of the least score first; no infinite ones."""
    good = np.isfinite(score) & (angles(turns.rotations) > SMALLEST)
    turns = turns[good]
    return turns[thinned(turns.rotations, score[good], SAME, len(turns))]


def _round(outline: Outline, axes: list[Axis]) -> Symmetries:
    """Two round axes make a ball."""
    if len(axes) > 1:
        to_cloud = frame(outline)
        turns = to_cloud @ Rotation.create_group("I").as_matrix() @ to_cloud.T
        turns = np.concatenate([np.eye(3)[None], turns[angles(turns) > SMALLEST]])
        return Symmetries(outline.outside(turns, np.zeros((len(turns), 3))), ball=True)
    (axis,) = axes
    turns = np.stack([np.eye(3)] if axis.flip is None else [np.eye(3), axis.flip])
    motions = outline.outside(turns, axis.place - turns @ axis.place)
    return Symmetries(motions, axis.direction, outline.center + outline.unit * axis.place)
