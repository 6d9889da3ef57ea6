"""In the manner of DGL: a graph whose nodes are the pieces; messages and poses take turns."""

from __future__ import annotations

import torch
from jaxtyping import Float, Float64
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

ROUNDS = 3


class PieceGraph(Regressor):
    r"""In the manner of Zhan et al., Generative 3D part assembly via dynamic graph learning (NeurIPS 2020).

    Two nodes with a PointNet embedding each. In every round, with the same weights, node i gathers

    .. math:: m_i = \sum_j a_{ij}\, \mathrm{edge}(v_i, v_j), \qquad
              a_{ij} = \mathrm{softmax}_j\, \mathrm{relation}(v_i, p_i, v_j, p_j),

    over both nodes, becomes :math:`v_i + \mathrm{update}(v_i, m_i)`, and regresses its pose p_i anew from
    what it is, what it was at first, and where it stood; so the relation follows the poses. At last
    :math:`g = p_Y^{-1} p_X`. Law: model(Y, X) = g⁻¹.

    Left out: the exchange between parts that look alike, and the noise that makes it generative. The loss is
    on the poses of the last round.
    """

    name = "dgl"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        c = sizes.channels
        self.encode = PointNet(c, 2 * c)
        self.relation = network(4 * c + 2 * POSE, c, 1)
        self.edge = network(4 * c, 2 * c, 2 * c)
        self.update = network(4 * c, 2 * c, 2 * c)
        self.regress = network(4 * c + POSE, 4 * c, POSE)

    def relative(self, x: Cloud, y: Cloud) -> tuple[Rigid, Float64[Tensor, " b"]]:
        first = torch.stack([greatest(self.encode(cloud.points), cloud.mask) for cloud in (x, y)], dim=1)
        nodes, poses = first, first.new_zeros(*first.shape[:2], POSE)
        for _ in range(ROUNDS):
            nodes = nodes + self.update(torch.cat([nodes, self._messages(nodes, poses)], dim=-1))
            poses = self.regress(torch.cat([nodes, first, poses], dim=-1))
        whole_from_piece, gap = pose_of(poses)
        whole_from_x, whole_from_y = (
            Rigid(whole_from_piece.rotation[:, i], whole_from_piece.translation[:, i]) for i in range(2)
        )
        return whole_from_y.inverse() @ whole_from_x, gap.amin(1)

    def _messages(
        self, nodes: Float[Tensor, "b 2 c"], poses: Float[Tensor, "b 2 12"]
    ) -> Float[Tensor, "b 2 c"]:
        """What each node hears from both, itself included."""
        placed = torch.cat([nodes, poses], dim=-1)
        weights = self.relation(_ordered_pairs(placed)).softmax(dim=2)
        return (weights * self.edge(_ordered_pairs(nodes))).sum(2)


def _ordered_pairs(values: Float[Tensor, "b 2 c"]) -> Float[Tensor, "b 2 2 d"]:
    """At (i, j) the values of i and then those of j."""
    of_i, of_j = values[:, :, None].expand(-1, -1, 2, -1), values[:, None].expand(-1, 2, -1, -1)
    return torch.cat([of_i, of_j], dim=-1)
