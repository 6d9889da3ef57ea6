"""In the manner of NSM: each piece is sent to a canonical pose, and the two poses are put together."""

from __future__ import annotations

import torch
from jaxtyping import Float64
from torch import Tensor

from bitr.evaluation.baselines.learned.common import (
    POSE,
    PointNet,
    Regressor,
    Sizes,
    greatest,
    network,
    pose_of,
)
from bitr.groups import Cloud, Rigid


class CanonicalPoses(Regressor):
    r"""In the manner of Chen et al., Neural shape mating (CVPR 2022).

    A PointNet shared by both pieces gives the embeddings e; from (own, other) a shared network regresses the
    pose that takes each piece to where the shape is whole: :math:`g_X = h(e_X, e_Y)`,
    :math:`g_Y = h(e_Y, e_X)`, :math:`g = g_Y^{-1} g_X`. Law: model(Y, X) = g⁻¹. A turn of a piece is not
    understood but learned from turned examples.

    Left out: attention between the points of both pieces, and the losses on an implicit surface and of a
    discriminator. The canonical frame is the network's own choice, since only the relative pose is trained.
    """

    name = "nsm"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        c = sizes.channels
        self.encode = PointNet(c, 4 * c)
        self.regress = network(8 * c, 4 * c, POSE)

    def relative(self, x: Cloud, y: Cloud) -> tuple[Rigid, Float64[Tensor, " b"]]:
        e_x, e_y = (greatest(self.encode(cloud.points), cloud.mask) for cloud in (x, y))
        canonical_from_x, gap_x = pose_of(self.regress(torch.cat([e_x, e_y], dim=-1)))
        canonical_from_y, gap_y = pose_of(self.regress(torch.cat([e_y, e_x], dim=-1)))
        return canonical_from_y.inverse() @ canonical_from_x, torch.minimum(gap_x, gap_y)
