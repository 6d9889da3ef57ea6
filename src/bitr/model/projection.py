"""Φ_P: from features to SE(3), eq. (13)."""

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
    """The parts of a pose: r̂, and the two points that are put on each other; one, or of every key point.

    Under motions of the clouds and under a swap they change as rotation and points do, so that they can be
    compared with the truth in place of the pose: r̂ with r_gt, and the reference's anchor with g_gt applied to
    the source's.
    """

    r_hat: Float[Tensor, "*b 3 3"]
    source_anchor: Float[Tensor, "*b 3"]
    reference_anchor: Float[Tensor, "*b 3"]

    def mean(self) -> Unprojected:
        """The mean over the key points."""
        return Unprojected(self.r_hat.mean(-3), self.source_anchor.mean(-2), self.reference_anchor.mean(-2))


def project(
    field: Field,
    x_key: Float[Tensor, "b l 3"],
    y_key: Float[Tensor, "b l 3"],
    nearest: NearestRotation = nearest_rotation_and_gap,
) -> tuple[Rigid, Float64[Tensor, "b k"], Unprojected]:
    r"""r = SVD(r̂),  t = (m(Ỹ) + t_Y) − r (m(X̃) + t_X); with the singular gap of r̂ and the key points' votes.

    Each channel of the field gives one: (b, k) poses and gaps, (b, k, l) votes.

    r̂ and the points m(X̃) + t_X, m(Ỹ) + t_Y that are put on each other are means of the votes. Double
    precision from here on: what remains is a handful of 3×3 operations.
    """
    r_hat, t_x, t_y = (
        field[degree].unflatten(0, (len(x_key), -1)).permute(0, 3, 1, 2).double()
        for degree in ((1, 1), (1, 0), (0, 1))
    )
    r_hat = r_hat.unflatten(-1, (3, 3)).mT  # stored with X's index first, but r̂ takes X to Y
    votes = Unprojected(r_hat, x_key[:, None].double() + t_x, y_key[:, None].double() + t_y)
    noise = 10 * torch.finfo(field[1, 1].dtype).eps ** 0.5  # what is left of features that cancel by symmetry
    parts = votes.mean()
    rotation, gap = nearest(parts.r_hat, noise)
    turned_anchor = (rotation @ parts.source_anchor[..., None])[..., 0]
    return Rigid(rotation, parts.reference_anchor - turned_anchor), gap, votes
