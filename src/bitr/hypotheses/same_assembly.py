"""All right answers of a pair: the motions of its source that leave the assembly as it is."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.data.poses import inverse, move_points
from bitr.hypotheses.symmetry import Symmetries, symmetries
from bitr.hypotheses.turning import angles
from bitr.io import Geometry, as_points

SAMPLES = 1500
"""Points of a piece that is a mesh."""
SAME_ANGLE, SAME_PLACE = np.radians(6), 0.06
"""Angle and distance, over half the source's extent, up to which two lines, or two
motions, are the same."""
MOST = 4096
"""Pieces whose symmetries are remembered."""

Motions = Float64[np.ndarray, "k 4 4"]
Line = Float64[np.ndarray, "2 3"]
"""Two points of it."""
_remembered: dict[bytes, Symmetries] = {}


def with_symmetry(pair: AssemblyPair) -> AssemblyPair:
    """The pair with the symmetries of its pieces, up to noise and spacing, as those of its answer.

    With gX in its place at Y, also g s and h g are right for motions s and h that take X and Y onto
    themselves: as motions of the source, all (g⁻¹ h g) s. A bottle cut across its axis has two round pieces,
    and any turn about the axis is right. Cut along it, the halves have a mirror only, which is no motion.
    """
    own, other = _found(pair.source), _found(pair.reference)
    src_from_ref = inverse(pair.ref_from_src)
    size = float(np.ptp(pair.source.points, axis=0).max()) / 2
    axis, other_axis = _line(own), _line(other)
    motions = other.motions
    if other_axis is not None:
        other_axis = move_points(src_from_ref, other_axis)
        # a pair has one axis: a second one is listed, and so is one that the source's symmetries move
        if axis is None and all(_is_same(move_points(s, other_axis), other_axis, size) for s in own.motions):
            axis = other_axis
        if axis is None or not _is_same(other_axis, axis, size):
            motions = other.listed()
    products = (src_from_ref @ motions @ pair.ref_from_src)[:, None] @ own.motions
    products[0, 0] = np.eye(4)  # to the last digit: the first of either are the identity
    return replace(pair, symmetry=_each_once(products.reshape(-1, 4, 4), pair.source, size), axis=axis)


def _found(piece: Geometry) -> Symmetries:
    """The symmetries of a piece; a search takes a tenth of a second, and pairs are asked for again."""
    points = as_points(piece, SAMPLES, seed=0).points
    key = hashlib.sha256(points.tobytes()).digest()
    if key not in _remembered:
        if len(_remembered) >= MOST:
            _remembered.clear()
        _remembered[key] = symmetries(points)
    return _remembered[key]


def _each_once(motions: Motions, piece: Geometry, size: float) -> Float64[np.ndarray, "j 4 4"]:
    """Motions without those that are nearly another: pieces of one shape often share a symmetry."""
    middle = piece.points.mean(axis=0)
    places = motions[:, :3, :3] @ middle + motions[:, :3, 3]
    kept: list[int] = []
    for i in range(len(motions)):
        turns = angles(motions[kept, :3, :3].swapaxes(1, 2) @ motions[i, :3, :3])
        moves = np.linalg.norm(places[kept] - places[i], axis=1)
        if not ((turns < SAME_ANGLE) & (moves < SAME_PLACE * size)).any():
            kept.append(i)
    return motions[kept]


def _line(found: Symmetries) -> Line | None:
    if found.axis is None or found.place is None:
        return None
    return np.stack([found.place, found.place + found.axis])


def _is_same(one: Line, other: Line, size: float) -> bool:
    """Whether two lines are the same, whatever their sense."""
    a, b = ((line[1] - line[0]) / np.linalg.norm(line[1] - line[0]) for line in (one, other))
    away = one[0] - other[0]
    apart = np.linalg.norm(away - b * (away @ b))
    return bool(np.linalg.norm(np.cross(a, b)) < np.sin(SAME_ANGLE) and apart < SAME_PLACE * size)
