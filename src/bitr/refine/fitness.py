"""How well two pieces lie on each other under a pose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.spatial import cKDTree

WITHIN = 2.0
"""How many typical spacings apart two points may be to count as partners."""


@dataclass(frozen=True)
class Fit:
    """Share of points with a partner, and the root mean square distance to it (None without partners)."""

    fitness: float
    inlier_rmse: float | None


def fit(source_on_reference: Float64[np.ndarray, "n 3"], reference: Float64[np.ndarray, "m 3"]) -> Fit:
    r"""Two-sided, so that swapping the pieces changes nothing, and free of any unit of length.

    A point's partner is the nearest point of the other cloud, if it is within
    :math:`\tau = 2\sqrt{(s_X^2 + s_Y^2)/2}`, where s is the median distance of a cloud's points to their
    nearest neighbour. ``fitness`` is the mean of both clouds' shares of points with a partner;
    ``inlier_rmse`` is over the partners of both clouds together.
    """
    x, y, unit = _of_order_one(source_on_reference, reference)
    x_tree, y_tree = cKDTree(x), cKDTree(y)
    tau = WITHIN * np.hypot(_spacing(x_tree), _spacing(y_tree)) / np.sqrt(2)
    gaps = [y_tree.query(x)[0], x_tree.query(y)[0]]
    close = [gap[gap <= tau] for gap in gaps]
    fitness = np.mean([len(c) / len(gap) for c, gap in zip(close, gaps, strict=True)])
    partners = np.concatenate(close)
    return Fit(float(fitness), float(unit * np.sqrt(np.mean(partners**2))) if len(partners) else None)


def _spacing(tree: cKDTree) -> float:
    return float(np.median(tree.query(tree.data, k=2)[0][:, 1]))


def _of_order_one(
    x: Float64[np.ndarray, "n 3"], y: Float64[np.ndarray, "m 3"]
) -> tuple[Float64[np.ndarray, "n 3"], Float64[np.ndarray, "m 3"], float]:
    """Both about one centre and in a common unit: squares of very large or small numbers have no room."""
    center = (x.mean(0) + y.mean(0)) / 2
    x, y = x - center, y - center
    unit = max(np.abs(x).max(), np.abs(y).max())
    return x / unit, y / unit, float(unit)
