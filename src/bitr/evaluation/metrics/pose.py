"""Errors of a pose against the true one."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64

from bitr.data.poses import inverse
from bitr.groups import rotation_angle


def rotation_error_deg(pose: Float64[np.ndarray, "4 4"], truth: Float64[np.ndarray, "4 4"]) -> float:
    r"""Δr of the paper (Sec. 6.1), also called RRE: :math:`\arccos\frac{\mathrm{tr}(r\,r_{gt}^\top) - 1}{2}`.

    In degrees, from 0 to 180. Unchanged by motions of either cloud and by a swap. Computed by atan2, which
    is the same number and keeps its digits near 0.
    """
    turn = torch.from_numpy(pose[:3, :3] @ truth[:3, :3].T)
    return float(torch.rad2deg(rotation_angle(turn)))


def translation_error(pose: Float64[np.ndarray, "4 4"], truth: Float64[np.ndarray, "4 4"]) -> float:
    r"""Δt of the paper (Sec. 6.1), also called RTE: :math:`\|t - t_{gt}\|`, in the unit of the pair.

    Where the rotation is off, it depends on where the source's origin lies: see ``displacement``.
    """
    return float(np.linalg.norm(pose[:3, 3] - truth[:3, 3]))


def displacement(
    pose: Float64[np.ndarray, "4 4"],
    truth: Float64[np.ndarray, "4 4"],
    source: Float64[np.ndarray, "n 3"],
    reference: Float64[np.ndarray, "m 3"],
) -> float:
    r"""How far a piece is from its place: the mean of :math:`\|g\,m(X) - g_{gt}\,m(X)\|` and
    :math:`\|g^{-1} m(Y) - g_{gt}^{-1} m(Y)\|`, where m is the centroid.

    In the unit of the pair. Unchanged by motions of either cloud and by a swap.
    """
    there = _gap(pose, truth, source.mean(0))
    back = _gap(inverse(pose), inverse(truth), reference.mean(0))
    return (there + back) / 2


def _gap(
    a: Float64[np.ndarray, "4 4"], b: Float64[np.ndarray, "4 4"], point: Float64[np.ndarray, " 3"]
) -> float:
    return float(np.linalg.norm((a[:3, :3] - b[:3, :3]) @ point + a[:3, 3] - b[:3, 3]))
