"""The geometry of a cloud's neighbourhoods: computed once, used by every layer and by keys and values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bitr.groups import angular_matrix, solid_harmonics
from bitr.layers.neighbors import gather_neighbors, nearest_neighbors

SOFTNESS = 0.25
"""Lengths below this part of the unit count as short: there a direction fades instead of jumping."""

Angular = tuple[Float[Tensor, "b n _ _ k"], ...]
"""For each input degree i of one side: the matrices A_J(z_vu) of all (o, J), stacked as rows (o, m_o, J)."""


@dataclass(frozen=True)
class Neighborhoods:
    """For each point u its nearest other points v and the offsets z_vu = z_v − z_u."""

    index: Int[Tensor, "b n k"]
    valid: Bool[Tensor, "b n k"] | None
    offset: Float[Tensor, "b n d k"]

    @classmethod
    def of(
        cls, points: Float[Tensor, "b n d"], k: int, mask: Bool[Tensor, "b n"] | None = None
    ) -> Neighborhoods:
        index, valid = nearest_neighbors(points.detach(), k, mask)
        return cls(index, valid, gather_neighbors(points, index) - points[..., None])

    def farthest_square(self) -> Float[Tensor, "b n"]:
        """Square of the distance to the farthest neighbour; 0 for padding."""
        squares = self.offset.square().sum(2)
        if self.valid is not None:
            squares = squares.masked_fill(~self.valid, 0)
        return squares.amax(-1)

    def mean_reach(self) -> Float[Tensor, "b"]:
        """Mean over the points of the distance to the farthest neighbour: a length of scale degree 1."""
        reach = _root(self.farthest_square())
        if self.valid is None:
            return reach.mean(-1)
        counted = self.valid.any(-1)
        return (reach * counted).sum(-1) / counted.sum(-1)


@dataclass(frozen=True)
class Edges:
    """What a layer knows of the pairs (u, v): 3-D clouds have one side, the merged 6-D cloud has two."""

    index: Int[Tensor, "b n k"]
    valid: Bool[Tensor, "b n k"] | None
    lengths: Float[Tensor, "b n sides k"]
    angular: tuple[Angular, ...]
    envelope: Float[Tensor, "b n k"] | None

    @property
    def sides(self) -> int:
        return len(self.angular)


def edges_of(around: Neighborhoods, max_degree: int, unit: Float[Tensor, "b"] | None) -> Edges:
    r"""Lengths and angular matrices of the offsets, side by side.

    With a ``unit`` the geometry is smooth in the points: lengths are in that unit, directions are
    :math:`z/\sqrt{\|z\|^2 + \delta^2}`, which only multiplies the radial function of each J by a power of
    :math:`\|z\|/\sqrt{\|z\|^2 + \delta^2}`, and the envelope :math:`(1 - \|z\|^2/d^2)^2` falls to 0 at the
    distance d of the farthest neighbour, where points enter and leave. Without, all is as in the paper.
    """
    sides = around.offset.unflatten(2, (-1, 3))
    smooth = unit is not None
    if unit is not None:
        sides = sides / unit[:, None, None, None, None]
    squares = sides.square().sum(3)
    lengths = (squares + SOFTNESS**2).sqrt() if smooth else _root(squares)
    directions = (sides / lengths[:, :, :, None]).movedim(3, -1)
    angular = tuple(_angular(directions[:, :, side], max_degree) for side in range(sides.shape[2]))
    return Edges(around.index, around.valid, lengths, angular, _envelope(around) if smooth else None)


def _root(squares: Tensor) -> Tensor:
    """Square root whose gradient at 0 is finite: points may coincide."""
    return (squares + torch.finfo(squares.dtype).tiny).sqrt()


def _angular(direction: Float[Tensor, "b n k 3"], max_degree: int) -> Angular:
    harmonics = solid_harmonics(direction, 2 * max_degree)
    degrees = range(max_degree + 1)
    stacked = []
    for i in degrees:
        blocks = []
        for o in degrees:
            matrices = [angular_matrix(harmonics[j], o, i) for j in range(abs(o - i), o + i + 1)]
            blocks.append(torch.stack(matrices, dim=-2).flatten(-3, -2))
        stacked.append(torch.cat(blocks, dim=-2).movedim(2, -1).contiguous())
    return tuple(stacked)


def _envelope(around: Neighborhoods) -> Float[Tensor, "b n k"]:
    farthest = around.farthest_square()[..., None] + torch.finfo(around.offset.dtype).tiny
    envelope = (1 - around.offset.square().sum(2) / farthest).square()
    return envelope if around.valid is None else envelope.masked_fill(~around.valid, 0)
