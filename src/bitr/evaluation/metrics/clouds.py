"""Errors that compare clouds: where the pose puts the points, and where they belong."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.spatial import cKDTree

PLACED = 0.01
"""Squared Chamfer distance below which Breaking Bad counts a part as placed, for shapes of about size 1."""


def chamfer(a: Float64[np.ndarray, "n 3"], b: Float64[np.ndarray, "m 3"]) -> float:
    r"""Squared Chamfer distance: the mean over a of :math:`\min_b \|a - b\|^2`, plus the same from b.

    In the squared unit of the clouds; symmetric. This is Breaking Bad's: both means are added, not averaged.
    """
    there, back = cKDTree(b).query(a)[0], cKDTree(a).query(b)[0]
    return float(np.mean(there**2) + np.mean(back**2))


def part_chamfer(
    pose: Float64[np.ndarray, "4 4"],
    truth: Float64[np.ndarray, "4 4"],
    source: Float64[np.ndarray, "n 3"],
) -> float:
    r"""How far the part is from its place: :math:`\mathrm{CD}(g X, g_{gt} X)`."""
    return chamfer(_moved(source, pose), _moved(source, truth))


def part_accuracy(part_chamfers: Float64[np.ndarray, " n"]) -> float:
    """Breaking Bad's part accuracy: the share of parts whose Chamfer distance is below 0.01.

    Only the source is a part that can be misplaced; the reference stands at its true place and is not
    counted. Benchmarks that count it report (1 + a)/2 for pairs where this is a. NaN counts as misplaced.
    """
    return float(np.mean(part_chamfers < PLACED))


def shape_chamfer(
    pose: Float64[np.ndarray, "4 4"],
    truth: Float64[np.ndarray, "4 4"],
    source: Float64[np.ndarray, "n 3"],
    reference: Float64[np.ndarray, "m 3"],
) -> float:
    r"""Breaking Bad's Chamfer distance of the whole: :math:`\mathrm{CD}(g X \cup Y,\; g_{gt} X \cup Y)`."""
    found, right = (np.concatenate([_moved(source, g), reference]) for g in (pose, truth))
    return chamfer(found, right)


def add_s(
    pose: Float64[np.ndarray, "4 4"],
    truth: Float64[np.ndarray, "4 4"],
    source: Float64[np.ndarray, "n 3"],
) -> float:
    r"""ADD-S of object pose estimation: the mean over x of :math:`\min_{x'} \|g_{gt} x - g x'\|`.

    In the unit of the pair. Small also where the shape is symmetric, known or not.
    """
    return float(np.mean(cKDTree(_moved(source, pose)).query(_moved(source, truth))[0]))


def _moved(
    points: Float64[np.ndarray, "n 3"], pose: Float64[np.ndarray, "4 4"]
) -> Float64[np.ndarray, "n 3"]:
    return points @ pose[:3, :3].T + pose[:3, 3]
