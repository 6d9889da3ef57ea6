"""The geometry of a cloud's neighbourhoods: computed once, used by every layer and by keys and values.

The points of all clouds of a batch stand in one row of length N = b·n, their neighbours last: (…, N, k).
Element-wise work then runs over long contiguous rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from bitr.groups import angular_table, solid_harmonics
from bitr.layers.basis import chebyshev
from bitr.layers.clouds import Clouds
from bitr.layers.neighbors import nearest_neighbors_in_each
from bitr.layers.precision import full_precision

SOFTNESS = 0.25
"""Lengths below this part of the unit count as short: there a direction fades instead of jumping."""
SHORTEST = 1e-6
"""A length that counts as 0, in units of the clouds' size (without the scale law, of the input)."""


@dataclass(frozen=True)
class Neighborhoods:
    """For each point u its nearest other points v of the same cloud, and the offsets z_vu = z_v − z_u."""

    index: Int[Tensor, "N k"]
    valid: Bool[Tensor, "N k"] | None
    offset: Float[Tensor, "d N k"]
    clouds: Clouds

    @classmethod
    def of(
        cls, points: Float[Tensor, "b n d"], k: int, mask: Bool[Tensor, "b n"] | None = None
    ) -> Neighborhoods:
        return cls.of_all([points], [mask], k)

    @classmethod
    def of_all(
        cls,
        batches: list[Float[Tensor, "_ _ d"]],
        masks: list[Bool[Tensor, "_ _"] | None],
        k: int,
        known: Sequence[Int[Tensor, "_ _ _"] | None] | None = None,
    ) -> Neighborhoods:
        """Of several batches of clouds, in one row; the neighbours of some may be ``known``."""
        clouds = Clouds.of(batches, masks)
        found = nearest_neighbors_in_each(list(zip(batches, masks, strict=True)), k, known)
        most = max(index.shape[2] for index, _ in found)
        all_real = all(valid is None and index.shape[2] == most for index, valid in found)
        indices, valids, start = [], [], 0
        for (b, n), (index, valid) in zip(clouds.shapes, found, strict=True):
            first = torch.arange(start, start + b * n, n, device=index.device)
            fewer = (0, most - index.shape[2])
            indices.append(pad(index + first[:, None, None], fewer, value=start).flatten(0, 1))
            if not all_real:
                real = torch.ones_like(index, dtype=torch.bool) if valid is None else valid
                valids.append(pad(real, fewer).flatten(0, 1))
            start += b * n
        index = torch.cat(indices)
        rows = torch.cat([points.flatten(0, 1) for points in batches]).mT.contiguous()
        offset = gather_neighbors(rows, index) - rows[..., None]
        return cls(index, None if all_real else torch.cat(valids), offset, clouds)

    def farthest_square(self) -> Float[Tensor, " N"]:
        """Square of the distance to the farthest neighbour; 0 for padding."""
        squares = self.offset.square().sum(0)
        if self.valid is not None:
            squares = squares.masked_fill(~self.valid, 0)
        return squares.amax(-1)

    def mean_reach(self) -> Float[Tensor, " C"]:
        """Mean over a cloud of the distance to the farthest neighbour: a length of scale degree 1."""
        return self.clouds.means(_root(self.farthest_square()))


@dataclass(frozen=True)
class Edges:
    """What a layer knows of the pairs (u, v): 3-D clouds have one side, the merged 6-D cloud has two."""

    index: Int[Tensor, "N k"]
    valid: Bool[Tensor, "N k"] | None
    lengths: Float[Tensor, "sides N k"]
    directions: Float[Tensor, "sides 3 N k"]
    envelope: Float[Tensor, "N k"] | None
    basis: Float[Tensor, "N z k"] | None
    """The radial functions of ``Chebyshev``, where it is used."""
    angular: Float[Tensor, "sides E r m"] | None
    """For every edge the matrices A_J(z_vu) of all (o, i, J): rows (o, m_o, i, J) by columns (i, m_i).
    Not needed for vectors of one cloud, where they are dot, cross and outer products."""
    harmonics: Float[Tensor, "N y k"] | None
    """Of the directions in one cloud, all degrees: what is needed where there is no ``basis``."""
    max_degree: int

    @property
    def sides(self) -> int:
        return len(self.directions)


def edges_of(
    around: Neighborhoods, max_degree: int, unit: Float[Tensor, " C"] | None, functions: int = 0
) -> Edges:
    r"""Lengths and directions of the offsets, side by side, and ``functions`` functions of each length.

    With a ``unit`` the geometry is smooth in the points: lengths are in that unit, directions are
    :math:`z/\sqrt{\|z\|^2 + \delta^2}`, which only multiplies the radial function of each J by a power of
    :math:`\|z\|/\sqrt{\|z\|^2 + \delta^2}`, and the envelope :math:`(1 - \|z\|^2/d^2)^2` falls to 0 at the
    distance d of the farthest neighbour, where points enter and leave. Without, all is as in the paper.
    """
    sides = around.offset.unflatten(0, (-1, 3))
    if unit is not None:
        sides = sides / around.clouds.spread(unit)[:, None]
    squares = sides.square().sum(1)
    lengths = _root(squares) if unit is None else (squares + SOFTNESS**2).sqrt()
    directions = sides / lengths[:, None]
    by_moments = len(sides) == 1 and not functions
    general = len(sides) == 2 or max_degree > 1 or torch.compiler.is_compiling()
    return Edges(
        around.index,
        around.valid,
        lengths,
        directions,
        None if unit is None else _envelope(around),
        chebyshev(lengths, functions) if functions else None,
        _angular(directions, max_degree) if general and not by_moments else None,
        _harmonics(directions[0], max_degree) if by_moments else None,
        max_degree,
    )


def _angular(directions: Float[Tensor, "sides 3 N k"], max_degree: int) -> Float[Tensor, "sides E r m"]:
    with full_precision(directions.device):
        harmonics = solid_harmonics(directions.flatten(2).mT, 2 * max_degree)
        table = angular_table(max_degree).to(directions)
        return torch.einsum("rmy,sey->serm", table, torch.cat(harmonics, dim=-1))


def _harmonics(direction: Float[Tensor, "3 N k"], max_degree: int) -> Float[Tensor, "N y k"]:
    with full_precision(direction.device):
        harmonics = solid_harmonics(direction.movedim(0, -1), 2 * max_degree)
        return torch.cat(harmonics, dim=-1).mT.contiguous()


def gather_neighbors(rows: Float[Tensor, "f N"], index: Int[Tensor, "N k"]) -> Float[Tensor, "f N k"]:
    """The values at each point's neighbours."""
    return rows.index_select(1, index.flatten()).unflatten(1, index.shape)


def _root(squares: Tensor) -> Tensor:
    """Square root whose gradient at 0 is of order 1: points may coincide."""
    return (squares + SHORTEST**2).sqrt()


def _envelope(around: Neighborhoods) -> Float[Tensor, "N k"]:
    farthest = around.farthest_square()[:, None] + SHORTEST**2
    envelope = (1 - around.offset.square().sum(0) / farthest).square()
    return envelope if around.valid is None else envelope.masked_fill(~around.valid, 0)
