"""Clouds that are round: any turn about an axis leaves them as they are, or any turn at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from bitr.hypotheses.outline import Outline
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
from bitr.hypotheses.turning import about, angles, common_axis, common_place
from bitr.hypotheses.turns import Turns

TURNS = 2 * np.pi * ((1 + np.arange(8)) * (np.sqrt(5) - 1) / 2 % 1)
"""Of which no two differ by a simple fraction of a full turn."""
DRIFT = np.radians(9)
"""A turn of a prism with up to 8 sides goes farther, to where the sides fit."""
ALIKE = 0.15
"""Second moments about a round axis are equal; what they may differ by, in the cloud's size."""


@dataclass(frozen=True, eq=False)
class Axis:
    """A round axis through a place, and the rotation of a half turn across it, if that is a symmetry too."""

    direction: Float64[np.ndarray, " 3"]
    place: Float64[np.ndarray, " 3"]
    flip: Float64[np.ndarray, "3 3"] | None


def principal_axes(outline: Outline) -> Float64[np.ndarray, "k 3"]:
    """Those principal axes that may be round: the moments along both others are about equal."""
    q = outline.points[outline.probes]
    values, axes = np.linalg.eigh(q.T @ q / len(q))
    gaps = np.array([values[2] - values[1], values[2] - values[0], values[1] - values[0]])
    return axes.T[gaps < ALIKE]


def round_axes(outline: Outline, axes: Float64[np.ndarray, "k 3"]) -> list[Axis]:
    """Those of the axes about which the cloud is round."""
    axes = np.array([axis for axis in axes if _promising(outline, axis)])
    if not len(axes):
        return []
    start = Turns.about_center(np.concatenate([about(axis, TURNS) for axis in axes]))
    found = settled(outline, start, FINE)
    drift = angles(found.rotations @ start.rotations.swapaxes(1, 2))
    good = (np.isfinite(verdict(outline, found)) & (drift <= DRIFT)).reshape(len(axes), -1).all(1)
    return [_axis(outline, found[len(TURNS) * i : len(TURNS) * (i + 1)]) for i in np.flatnonzero(good)]


def _promising(outline: Outline, axis: Float64[np.ndarray, " 3"]) -> bool:
    """At first sight."""
    found = partners(outline, Turns.about_center(about(axis, TURNS)), ROUGH[0])
    return bool(misfit(found, outline).max() < PROMISING * allowed(outline))


def _axis(outline: Outline, turns: Turns) -> Axis:
    """What all turns have in common; and the half turn about the line from there to the farthest point."""
    direction, place = common_axis(turns.rotations), common_place(turns.rotations, turns.shifts)
    q = outline.points[outline.probes]
    across = q - np.outer(q @ direction, direction)
    far = across[np.linalg.norm(across, axis=1).argmax()]
    half = about(far / np.linalg.norm(far), np.array([np.pi]))
    found = settled(outline, Turns.about_center(half), FINE)
    if not np.isfinite(verdict(outline, found)).all():
        return Axis(direction, place, None)
    place = place + (found.shifts[0] @ direction) / 2 * direction
    return Axis(direction, place, half[0])
