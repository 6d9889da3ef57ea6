"""Φ_P: from features to SE(3) (eq. Arun-proj)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from bitr.groups import Field, Rigid, nearest_rotation_and_gap

NearestRotation = Callable[[Tensor, float], tuple[Tensor, Tensor]]
"""From a matrix, and the size below which it is noise, to the nearest rotation and its gap."""


@dataclass(frozen=True)
class Unprojected:
    """What a pose is made of: r̂, and the two points that are put on each other.

    Under motions of the clouds and under a swap they change as rotation and points do, so that they can be
    compared with the truth in place of the pose: r̂ with r_gt, and the reference's anchor with g_gt applied to
    the source's.
    """

    r_hat: Float[Tensor, "b 3 3"]
    source_anchor: Float[Tensor, "b 3"]
    reference_anchor: Float[Tensor, "b 3"]


def project(
    field: Field,
    x_key: Float[Tensor, "b l 3"],
    y_key: Float[Tensor, "b l 3"],
    nearest: NearestRotation = nearest_rotation_and_gap,
) -> tuple[Rigid, Float64[Tensor, " b"], Unprojected]:
    r"""r = SVD(r̂),  t = (m(Ỹ) + t_Y) − r (m(X̃) + t_X); with the singular gap of r̂ and what it was made of.

    Double precision from here on: what remains is a handful of 3×3 operations.
    """
    b = len(x_key)
    r_hat = _pool(field[1, 1], b).unflatten(-1, (3, 3)).mT  # stored with X's index first, but r̂ takes X to Y
    t_x, t_y = _pool(field[1, 0], b), _pool(field[0, 1], b)
    noise = 10 * torch.finfo(field[1, 1].dtype).eps ** 0.5  # what is left of features that cancel by symmetry
    rotation, gap = nearest(r_hat, noise)
    from_x, to_y = x_key.double().mean(1) + t_x, y_key.double().mean(1) + t_y
    pose = Rigid(rotation, to_y - (rotation @ from_x[..., None])[..., 0])
    return pose, gap, Unprojected(r_hat, from_x, to_y)


def _pool(values: Float[Tensor, "N m 1"], b: int) -> Float64[Tensor, "b m"]:
    return values[..., 0].unflatten(0, (b, -1)).double().mean(1)
