"""The geometry of a cloud's neighbourhoods: computed once, used by every layer and by keys and values.

The points of all clouds of a batch stand in one row of length N = b·n, their neighbours last: (…, N, k).
Element-wise work then runs over long contiguous rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bitr.groups import angular_table, solid_harmonics
from bitr.layers.neighbors import nearest_neighbors_in_each

SOFTNESS = 0.25
"""Lengths below this part of the unit count as short: there a direction fades instead of jumping."""


@dataclass(frozen=True)
class Neighborhoods:
    """For each point u its nearest other points v and the offsets z_vu = z_v − z_u."""

    index: Int[Tensor, "N k"]
    """Into the points of the whole batch."""
    valid: Bool[Tensor, "N k"] | None
    offset: Float[Tensor, "d N k"]
    batch: int

    @classmethod
    def of(
        cls, points: Float[Tensor, "b n d"], k: int, mask: Bool[Tensor, "b n"] | None = None
    ) -> Neighborhoods:
        return cls.of_each([(points, mask)], k)[0]

    @classmethod
    def of_each(
        cls, batches: list[tuple[Float[Tensor, "_ _ d"], Bool[Tensor, "_ _"] | None]], k: int
    ) -> list[Neighborhoods]:
        """Of several batches of clouds at once."""
        found = nearest_neighbors_in_each(batches, k)
        return [cls._from(points, *of_batch) for (points, _), of_batch in zip(batches, found, strict=True)]

    @classmethod
    def _from(
        cls, points: Float[Tensor, "b n d"], index: Int[Tensor, "b n k"], valid: Bool[Tensor, "b n k"] | None
    ) -> Neighborhoods:
        b, n, _ = points.shape
        first = torch.arange(0, b * n, n, device=points.device)
        index = (index + first[:, None, None]).flatten(0, 1)
        rows = points.flatten(0, 1).mT.contiguous()
        offset = gather_neighbors(rows, index) - rows[..., None]
        return cls(index, None if valid is None else valid.flatten(0, 1), offset, b)

    def farthest_square(self) -> Float[Tensor, "N"]:
        """Square of the distance to the farthest neighbour; 0 for padding."""
        squares = self.offset.square().sum(0)
        if self.valid is not None:
            squares = squares.masked_fill(~self.valid, 0)
        return squares.amax(-1)

    def mean_reach(self) -> Float[Tensor, "b"]:
        """Mean over a cloud of the distance to the farthest neighbour: a length of scale degree 1."""
        reach = _root(self.farthest_square()).unflatten(0, (self.batch, -1))
        if self.valid is None:
            return reach.mean(-1)
        counted = self.valid.any(-1).unflatten(0, (self.batch, -1))
        return (reach * counted).sum(-1) / counted.sum(-1)


@dataclass(frozen=True)
class Edges:
    """What a layer knows of the pairs (u, v): 3-D clouds have one side, the merged 6-D cloud has two."""

    index: Int[Tensor, "N k"]
    valid: Bool[Tensor, "N k"] | None
    lengths: Float[Tensor, "sides N k"]
    directions: Float[Tensor, "sides 3 N k"]
    envelope: Float[Tensor, "N k"] | None
    max_degree: int
    radial_functions: dict[int, Tensor] = field(default_factory=dict, repr=False)
    """Kept by ``Chebyshev`` for the next layer: they are the same for all."""

    @property
    def sides(self) -> int:
        return len(self.directions)

    @cached_property
    def angular(self) -> Float[Tensor, "sides E r m"]:
        """For every edge the matrices A_J(z_vu) of all (o, i, J): rows (o, m_o, i, J) by columns (i, m_i)."""
        harmonics = solid_harmonics(self.directions.flatten(2).mT, 2 * self.max_degree)
        table = angular_table(self.max_degree).to(self.directions)
        return torch.einsum("rmy,sey->serm", table, torch.cat(harmonics, dim=-1))


def edges_of(around: Neighborhoods, max_degree: int, unit: Float[Tensor, "b"] | None) -> Edges:
    r"""Lengths and directions of the offsets, side by side.

    With a ``unit`` the geometry is smooth in the points: lengths are in that unit, directions are
    :math:`z/\sqrt{\|z\|^2 + \delta^2}`, which only multiplies the radial function of each J by a power of
    :math:`\|z\|/\sqrt{\|z\|^2 + \delta^2}`, and the envelope :math:`(1 - \|z\|^2/d^2)^2` falls to 0 at the
    distance d of the farthest neighbour, where points enter and leave. Without, all is as in the paper.
    """
    sides = around.offset.unflatten(0, (-1, 3))
    if unit is not None:
        each = unit.repeat_interleave(sides.shape[2] // around.batch)
        sides = sides / each[:, None]
    squares = sides.square().sum(1)
    lengths = _root(squares) if unit is None else (squares + SOFTNESS**2).sqrt()
    envelope = None if unit is None else _envelope(around)
    return Edges(around.index, around.valid, lengths, sides / lengths[:, None], envelope, max_degree)


def gather_neighbors(rows: Float[Tensor, "f N"], index: Int[Tensor, "N k"]) -> Float[Tensor, "f N k"]:
    """The values at each point's neighbours."""
    return rows.index_select(1, index.flatten()).unflatten(1, index.shape)


def _root(squares: Tensor) -> Tensor:
    """Square root whose gradient at 0 is finite: points may coincide."""
    return (squares + torch.finfo(squares.dtype).tiny).sqrt()


def _envelope(around: Neighborhoods) -> Float[Tensor, "N k"]:
    farthest = around.farthest_square()[:, None] + torch.finfo(around.offset.dtype).tiny
    envelope = (1 - around.offset.square().sum(0) / farthest).square()
    return envelope if around.valid is None else envelope.masked_fill(~around.valid, 0)
