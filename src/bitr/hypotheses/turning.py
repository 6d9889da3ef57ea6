"""Rotations by axis and angle, many at once."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.spatial.transform import Rotation

FREE = 0.1
"""Over the most that motions move a place, what they move places on a common axis."""


def angles(rotations: Float64[np.ndarray, "*c 3 3"]) -> Float64[np.ndarray, "*c"]:
    """In radians, from 0 to π."""
    r = rotations
    sine = np.sqrt(
        np.square(r[..., 2, 1] - r[..., 1, 2])
        + np.square(r[..., 0, 2] - r[..., 2, 0])
        + np.square(r[..., 1, 0] - r[..., 0, 1])
    )
    return np.arctan2(sine, np.trace(r, axis1=-2, axis2=-1) - 1)


def about(axis: Float64[np.ndarray, " 3"], turns: Float64[np.ndarray, " c"]) -> Float64[np.ndarray, "c 3 3"]:
    """Turns by angles about one axis."""
    return Rotation.from_rotvec(turns[:, None] * axis).as_matrix().reshape(-1, 3, 3)


def common_axis(rotations: Float64[np.ndarray, "c 3 3"]) -> Float64[np.ndarray, " 3"]:
    """The axis nearest to those of all rotations; its sign means nothing."""
    vectors = Rotation.from_matrix(rotations).as_rotvec()
    axes: Float64[np.ndarray, "3 3"] = np.linalg.eigh(vectors.T @ vectors)[1]
    return axes[:, 2]


def common_place(
    rotations: Float64[np.ndarray, "c 3 3"], shifts: Float64[np.ndarray, "c 3"]
) -> Float64[np.ndarray, " 3"]:
    """The place that motions move least: (1 − r) place = shift; on a common axis, the one nearest to 0."""
    moves = (np.eye(3) - rotations).reshape(-1, 3)
    solved: Float64[np.ndarray, " 3"] = np.linalg.lstsq(moves, shifts.reshape(-1), rcond=FREE)[0]
    return solved


def nearest(matrices: Float64[np.ndarray, "c 3 3"]) -> Float64[np.ndarray, "c 3 3"]:
    """Rotations nearest to matrices."""
    u, _, vh = np.linalg.svd(matrices)
    u[:, :, 2] *= np.linalg.det(u @ vh)[:, None]
    return u @ vh
