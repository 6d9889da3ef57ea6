"""The right answer that is nearest to a pose, for shapes that have several."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from bitr.data.poses import inverse, turn_about

ANGLES = 2 * np.pi / 3 * np.arange(3)
"""Three values tell a wave a + b cos θ + c sin θ."""


def nearest_truth(
    pose: Float64[np.ndarray, "4 4"],
    truths: Float64[np.ndarray, "s 4 4"],
    source: Float64[np.ndarray, "n 3"],
    reference: Float64[np.ndarray, "m 3"],
    axis: Float64[np.ndarray, "2 3"] | None = None,
) -> Float64[np.ndarray, "4 4"]:
    r"""Of several right answers the one that is nearest to the pose, for shapes with symmetries.

    Minimises the mean over X of :math:`\|g x - g_{gt} x\|^2` plus the mean over Y of
    :math:`\|g^{-1} y - g_{gt}^{-1} y\|^2`, so that the choice moves along with either cloud and with a swap.
    With ``axis``, two points of an axis of the source, :math:`g_{gt} R_\theta` is right for every angle. The
    sum is linear in :math:`R_\theta`, and so a wave :math:`a + b\cos\theta + c\sin\theta` whose lowest
    place is known exactly. One answer is chosen for all metrics: a rotation and a translation that are
    each near another answer are not right together.
    """
    if axis is None:
        return truths[int(np.argmin(_apart(pose, truths, source, reference)))]
    turned = truths[:, None] @ np.stack([turn_about(axis, angle) for angle in ANGLES])
    height = _apart(pose, turned.reshape(-1, 4, 4), source, reference).reshape(-1, 3)
    wave = height @ np.exp(1j * ANGLES) * 2 / 3  # b + ic
    best = int(np.argmin(height.mean(1) - np.abs(wave)))
    return truths[best] @ turn_about(axis, float(np.angle(-wave[best])))


def _apart(
    pose: Float64[np.ndarray, "4 4"],
    truths: Float64[np.ndarray, "s 4 4"],
    source: Float64[np.ndarray, "n 3"],
    reference: Float64[np.ndarray, "m 3"],
) -> Float64[np.ndarray, " s"]:
    there = _mean_squares(pose, truths, source)
    return there + _mean_squares(inverse(pose), inverse(truths), reference)


def _mean_squares(
    pose: Float64[np.ndarray, "4 4"],
    others: Float64[np.ndarray, "s 4 4"],
    points: Float64[np.ndarray, "n 3"],
) -> Float64[np.ndarray, " s"]:
    r"""The mean of :math:`\|A x + b\|^2` is :math:`\mathrm{tr}(A\,C\,A^\top) + \|A m + b\|^2`."""
    center = points.mean(0)
    spread = (points - center).T @ (points - center) / len(points)
    a, b = pose[:3, :3] - others[:, :3, :3], pose[:3, 3] - others[:, :3, 3]
    return np.einsum("sij,jk,sik->s", a, spread, a) + np.square(a @ center + b).sum(-1)
