"""Coordinates without a unit, in which both pieces are centred."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from bitr.data.poses import inverse, pose

Points = Float64[np.ndarray, "_ 3"]
Matrix = Float64[np.ndarray, "4 4"]


@dataclass(frozen=True, eq=False)
class Frame:
    """Either piece about its own centroid, lengths over one length of both: their root mean square radius.

    The coordinates turn with the pieces and are free of shifts and scales; a swap of the pieces swaps them.
    """

    source_center: Float64[np.ndarray, " 3"]
    reference_center: Float64[np.ndarray, " 3"]
    unit: float

    @classmethod
    def of(cls, source: Points, reference: Points) -> Frame:
        x, y = centroid(source), centroid(reference)
        return cls(x, y, root_mean_square(radius(source - x), radius(reference - y)))

    def source(self, points: Points) -> Points:
        return (points - self.source_center) / self.unit

    def reference(self, points: Points) -> Points:
        return (points - self.reference_center) / self.unit

    def inside(self, ref_from_src: Matrix) -> Matrix:
        """The same pose in these coordinates."""
        rotation, translation = ref_from_src[:3, :3], ref_from_src[:3, 3]
        shift = rotation @ self.source_center + translation - self.reference_center
        return pose(rotation, shift / self.unit)

    def outside(self, ref_from_src: Matrix) -> Matrix:
        """A pose of these coordinates in those of the pieces."""
        rotation, translation = ref_from_src[:3, :3], ref_from_src[:3, 3]
        return pose(rotation, self.unit * translation + self.reference_center - rotation @ self.source_center)


def root_mean_square(a: float, b: float) -> float:
    return float(np.hypot(a, b) / np.sqrt(2))


def dot(a: Points, b: Points) -> Float64[np.ndarray, " n"]:
    """Row by row."""
    return np.einsum("ni,ni->n", a, b)


def moved(points: Points, ref_from_src: Matrix) -> Points:
    return points @ ref_from_src[:3, :3].T + ref_from_src[:3, 3]


def moved_back(points: Points, ref_from_src: Matrix) -> Points:
    return moved(points, inverse(ref_from_src))


def centroid(points: Points) -> Float64[np.ndarray, " 3"]:
    """Also of clouds far from the origin."""
    center = points.mean(0)
    return center + (points - center).mean(0)  # the mean of numbers near 10⁶ is only good to 10⁻¹⁰


def radius(centered: Points) -> float:
    """Root mean square length; squares of very large or small numbers have no room."""
    largest = np.abs(centered).max()
    return float(largest * np.sqrt(np.square(centered / largest).sum(1).mean())) if largest > 0 else 0.0
