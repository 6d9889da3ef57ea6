"""What the sliders do to a piece, in the frame of its own file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from bitr.data.piece import MIN_POINTS
from bitr.data.transforms import add_outliers, jitter, take
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.testing import cloud_size

LIMITS = {"cut": (-0.9, 0.9), "noise": (0.0, 0.2), "outliers": (0.0, 1.0)}


@dataclass(frozen=True)
class Changes:
    """A piece that is cut by a plane, noisy, and among points that do not belong to it."""

    cut: float = 0.0
    """Share of the points beyond the plane: of one end where positive, of the other where negative."""
    noise: float = 0.0
    """Standard deviation along each axis, in root mean square radii of the piece."""
    outliers: float = 0.0
    """Further points, as a share of the points of the piece."""

    def __post_init__(self) -> None:
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if not low <= value <= high:  # written so that NaN fails
                raise InputError(f"{name} = {value!r}: expected a number from {low:g} to {high:g}")


def changed(cloud: Geometry, changes: Changes, seed: int) -> Geometry:
    """The cloud after the changes; its frame stays, so that whatever moves the piece moves them along.

    One seed draws the same noise, larger or smaller: a slider changes the piece without a jump.
    """
    size, middle, reach = cloud_size(cloud.points), cloud.points.mean(0), np.ptp(cloud.points, axis=0).max()
    if changes.cut:
        cloud = _cut(cloud, changes.cut)
    if changes.noise:
        cloud = jitter(cloud, changes.noise * size, np.random.default_rng([seed, 0]))
    if changes.outliers:
        count = round(changes.outliers * len(cloud.points))
        about = _shifted(cloud, -middle)
        cube = add_outliers(about, count, np.random.default_rng([seed, 1]), -0.6 * reach, 0.6 * reach)
        cloud = _shifted(cube, middle)
    return cloud


def _cut(cloud: Geometry, share: float) -> Geometry:
    """Without the share of its points that lies farthest along its longest axis, to one side or the other.

    What the model needs is left.
    """
    centered = cloud.points - cloud.points.mean(0)
    axis = np.linalg.eigh(centered.T @ centered)[1][:, -1]
    axis = axis if axis[np.abs(axis).argmax()] > 0 else -axis
    order = np.argsort(centered @ axis, kind="stable")
    gone = min(round(abs(share) * len(order)), max(len(order) - MIN_POINTS, 0))
    return take(cloud, np.sort(order[gone:] if share < 0 else order[: len(order) - gone]))


def _shifted(cloud: Geometry, by: Float64[np.ndarray, " 3"]) -> Geometry:
    matrix = np.eye(4)
    matrix[:3, 3] = by
    return cloud.moved(matrix)
