"""In the manner of OMN: a mask tells the common part of both clouds, and the source moves round by round."""

from __future__ import annotations

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

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

ROUNDS = 3


class MaskedSteps(Regressor):
    r"""In the manner of Xu et al., OMNet: learning overlapping mask for partial-to-partial registration.

    ICCV 2021. In every round, with the same weights, the source is moved by the pose so far; a PointNet gives
    features f of the points; from those and from both clouds' pooled features each point gets a mask a in
    (0, 1); and a step is regressed from the masked features, as what it adds to standing still:

    .. math:: g \leftarrow h(\max_i a_i f_i^X, \max_j a_j f_j^Y)\, g.

    Law: none beyond those of all; a swap changes the answer.

    Left out: the loss on the masks and on the poses of all rounds. Our loop has one loss, on the last pose,
    so that the masks learn only what the pose gains by them.
    """

    name = "omn"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        c = sizes.channels
        self.encode = PointNet(c, 2 * c)
        self.mask_of_point = nn.Linear(2 * c, c)
        self.mask_of_clouds = nn.Linear(4 * c, c)
        self.mask = nn.Linear(c, 1)
        self.regress = network(4 * c, 4 * c, POSE)

    def relative(self, x: Cloud, y: Cloud) -> tuple[Rigid, Float64[Tensor, " b"]]:
        y_features = self.encode(y.points)
        y_pooled = greatest(y_features, y.mask)
        still = torch.cat([torch.eye(3).flatten(), torch.zeros(3)]).to(y_pooled)
        pose = Rigid.identity(len(x.points)).to(x.points.device)
        gap = pose.translation.new_full((len(x.points),), torch.inf)
        for _ in range(ROUNDS):
            x_features = self.encode(pose.to(x.points.dtype).act(x.points))
            x_pooled = greatest(x_features, x.mask)
            x_common = greatest(self._masked(x_features, x_pooled, y_pooled), x.mask)
            y_common = greatest(self._masked(y_features, y_pooled, x_pooled), y.mask)
            step, step_gap = pose_of(self.regress(torch.cat([x_common, y_common], dim=-1)) + still)
            pose, gap = step @ pose, torch.minimum(gap, step_gap)
        return pose, gap

    def _masked(
        self, features: Float[Tensor, "b n c"], own: Float[Tensor, "b c"], other: Float[Tensor, "b c"]
    ) -> Float[Tensor, "b n c"]:
        """The features, weighted by how much each point is taken for one of the common part."""
        of_clouds = self.mask_of_clouds(torch.cat([own, other], dim=-1))
        mask = self.mask((self.mask_of_point(features) + of_clouds[:, None]).relu())
        return mask.sigmoid() * features
