"""The shortest motion that keeps to linear bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.optimize import nnls
from scipy.spatial.transform import Rotation

from bitr.data.poses import pose
from bitr.refine.frame import Matrix, Points

STIFF = 1e-6
"""Added to the moments of inertia: points on a line have none about it."""
CONTRADICTION = 1e-9
"""What is left of the dual problem where the bounds contradict each other."""


@dataclass(frozen=True, eq=False)
class Correction:
    """Both pieces moved by half of it, in opposite ways: D = T(v/2) R(ω) T(v/2), with the turn about c.

    The source's points p come to D p. −ω and −v give the inverse of D exactly.
    """

    center: Float64[np.ndarray, " 3"]
    twist: Float64[np.ndarray, " 6"]
    """ξ = (ω, v)."""

    @property
    def half_turn(self) -> Float64[np.ndarray, "3 3"]:
        return Rotation.from_rotvec(self.twist[:3] / 2).as_matrix()

    @property
    def matrix(self) -> Matrix:
        turn, half = Rotation.from_rotvec(self.twist[:3]).as_matrix(), self.twist[3:] / 2
        return pose(turn, self.center + half + turn @ (half - self.center))

    def half_way_back(self, places: Points) -> Points:
        """From the reference's coordinates to the middle between both pieces: R(−ω/2) T(−v/2)."""
        return (places - self.center - self.twist[3:] / 2) @ self.half_turn + self.center


def inertia(
    source: Points, reference: Points, center: Float64[np.ndarray, " 3"]
) -> Float64[np.ndarray, "6 6"]:
    r"""M such that :math:`\xi^\top M \xi` is the mean of :math:`\|v + \omega\times(p - c)\|^2`.

    Over the points of both pieces, either of which counts half; c must be the mean of their means.
    """
    spreads = [(points - center).T @ (points - center) / len(points) for points in (source, reference)]
    spread = (spreads[0] + spreads[1]) / 2
    mass = np.eye(6)
    mass[:3, :3] = (np.trace(spread) + STIFF) * np.eye(3) - spread
    return mass


def shortest(
    rows: Float64[np.ndarray, "m 6"], bounds: Float64[np.ndarray, " m"], mass: Float64[np.ndarray, "6 6"]
) -> Float64[np.ndarray, " 6"] | None:
    r"""The twist of least :math:`\xi^\top M \xi` with :math:`A \xi \ge b`; None where there is none.

    Least distance programming by non-negative least squares (Lawson and Hanson 1974, chapter 23): with
    :math:`M = L L^\top`, :math:`E = [(A L^{-\top})^\top;\, b^\top]` and f = (0, …, 0, 1), the residual r of
    :math:`\min_{u \ge 0} \|E u - f\|` gives :math:`L^\top \xi = -r_{1..6} / r_7`.
    """
    largest = float(np.abs(bounds).max(initial=0.0))
    if largest == 0:
        return np.zeros(6)
    root = np.linalg.cholesky(mass)
    dual = np.concatenate([np.linalg.solve(root, rows.T), bounds[None] / largest])
    target = np.eye(7)[6]
    residual = dual @ nnls(dual, target)[0] - target
    if np.linalg.norm(residual) < CONTRADICTION:
        return None
    return largest * np.linalg.solve(root.T, -residual[:6] / residual[6])
