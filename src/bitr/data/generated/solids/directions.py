"""Random directions and rotations."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from bitr.data.poses import random_pose


def random_direction(rng: np.random.Generator) -> Float64[np.ndarray, " 3"]:
    """Uniform on the sphere."""
    v = rng.normal(size=3)
    return v / np.linalg.norm(v)


def random_rotation(rng: np.random.Generator) -> Float64[np.ndarray, "3 3"]:
    """Uniform over all rotations."""
    return random_pose(rng, 0.0)[:3, :3]


def frame_about(axis: Float64[np.ndarray, " 3"], rng: np.random.Generator) -> Float64[np.ndarray, "3 3"]:
    """A rotation that takes z to the axis, turned about it at random: its columns are x, y and z."""
    z = axis / np.linalg.norm(axis)
    x = np.cross(random_direction(rng), z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)
