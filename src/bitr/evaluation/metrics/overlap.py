"""3DMatch's criterion: how far the points that both scans see are from their place."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from bitr.data.poses import inverse

PARTNERS = 0.05
"""Metres within which two points are the same place, as in the benchmark."""
REGISTERED = 0.2
"""Metres of RMSE below which 3DMatch accepts a pair."""


def overlap(
    source: Float64[np.ndarray, "n 3"],
    reference: Float64[np.ndarray, "m 3"],
    truth: Float64[np.ndarray, "4 4"],
    within: float = PARTNERS,
) -> Float64[np.ndarray, "k 3"]:
    """The source's points that, in place, have a point of the reference nearby; in the source's frame."""
    in_place = source @ truth[:3, :3].T + truth[:3, 3]
    return source[cKDTree(reference).query(in_place)[0] < within]


def information_matrix(points: Float64[np.ndarray, "k 3"]) -> Float64[np.ndarray, "6 6"]:
    r""":math:`\Lambda = \sum_p G_p^\top G_p` with :math:`G_p = [\,I \mid -2[p]_\times\,]`, as in ``gt.info``.

    To first order :math:`G_p \xi` is what the motion :math:`\xi = (t, q)` does to p, where q is the vector
    part of its unit quaternion: half the angle, hence the 2. :math:`\Lambda_{00}` is the number of points.
    """
    x, y, z = points.T
    one, zero = np.ones_like(x), np.zeros_like(x)
    rows = [
        [one, zero, zero, zero, 2 * z, -2 * y],
        [zero, one, zero, -2 * z, zero, 2 * x],
        [zero, zero, one, 2 * y, -2 * x, zero],
    ]
    g = np.array(rows)
    return np.einsum("rik,rjk->ij", g, g)


def registration_rmse(
    pose: Float64[np.ndarray, "4 4"],
    truth: Float64[np.ndarray, "4 4"],
    information: Float64[np.ndarray, "6 6"],
) -> float:
    r""":math:`\sqrt{\xi^\top \Lambda\,\xi / \Lambda_{00}}`, where ξ = (t, q) is of :math:`g_{gt}^{-1} g`.

    The root mean square distance of the overlap from its place, exact for translations and to first order
    for rotations; for large rotations it is only a large number. 3DMatch accepts what is below 0.2 m.
    """
    off = inverse(truth) @ pose
    quaternion = Rotation.from_matrix(off[:3, :3]).as_quat(canonical=True)  # x, y, z, w with w ≥ 0
    xi = np.concatenate([off[:3, 3], quaternion[:3]])
    return float(np.sqrt(xi @ information @ xi / information[0, 0]))
