"""The angular rows of the merged cloud, A_{J₁} f_v A_{J₂}ᵀ, with a backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bitr.groups import Degree
from bitr.layers.rows import num_j


@dataclass(frozen=True)
class PairRows:
    """T^o of each degree as (N, m, k q), from all features of a point as one matrix and the angular matrices.

    Each is a part of one product: rows (o₂, m₂, i₂, J₂) by rows (o₁, m₁, i₁, J₁) by channels at every edge.
    """

    index: Int[Tensor, "N k"]
    max_degree: int
    degrees: list[Degree]
    kept: list[slice | Int[Tensor, " _"]]
    """Which (i₂, J₂, i₁, J₁, channel) of a degree exist, where degrees have different numbers of channels."""

    def forward(
        self, square: Float[Tensor, "N m1 m2 c"], angular: Float[Tensor, "2 E r m"]
    ) -> tuple[list[Float[Tensor, "N _ _"]], tuple[Tensor, Tensor]]:
        """The rows, and what the backward pass wants to know."""
        c = square.shape[3]
        at_neighbors = square.index_select(0, self.index.flatten()).flatten(2)
        half = (angular[0] @ at_neighbors).unflatten(2, (-1, c)).transpose(1, 2).flatten(2)
        whole = (angular[1] @ half).unflatten(2, (-1, c))
        rows = [
            part.flatten(4).flatten(1, 2)[..., kept].flatten(2)
            for part, kept in zip(self._parts(whole), self.kept, strict=True)
        ]
        return rows, (at_neighbors, half)

    def backward(
        self, d_rows: Sequence[Tensor], known: Sequence[Tensor], square: Tensor, angular: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Gradients in the features and in the angular matrices."""
        at_neighbors, half = known
        c, r = square.shape[3], angular.shape[2]
        d_whole = square.new_zeros(len(half), r, r, c)
        for d, part, kept in zip(d_rows, self._parts(d_whole), self.kept, strict=True):
            d = d.unflatten(2, (self.index.shape[1], -1))
            if not isinstance(kept, slice):
                d = d.new_zeros(*d.shape[:3], part[0, 0, 0, 0].numel()).index_copy_(3, kept, d)
            part.copy_(d.view(part.shape))
        d_whole, d_angular = d_whole.flatten(2), torch.empty_like(angular)
        torch.bmm(d_whole, half.mT, out=d_angular[1])
        d_half = (angular[1].mT @ d_whole).unflatten(2, (r, c)).transpose(1, 2).flatten(2)
        torch.bmm(d_half, at_neighbors.mT, out=d_angular[0])
        d_at_neighbors = (angular[0].mT @ d_half).view(-1, *square.shape[1:])
        return torch.zeros_like(square).index_add_(0, self.index.flatten(), d_at_neighbors), d_angular

    def _parts(self, whole: Float[Tensor, "E r2 r1 c"]) -> list[Float[Tensor, "N m1 m2 k j2 j1 c"]]:
        """Views of the rows of each degree."""
        side = range(self.max_degree + 1)
        js = [sum(num_j(o, i) for i in side) for o in side]
        starts = [sum((2 * i + 1) * js[i] for i in range(o)) for o in side]
        whole, parts = whole.unflatten(0, self.index.shape), []
        for o1, o2 in self.degrees:
            m1, m2 = 2 * o1 + 1, 2 * o2 + 1
            part = whole.narrow(2, starts[o2], m2 * js[o2]).narrow(3, starts[o1], m1 * js[o1])
            part = part.unflatten(3, (m1, js[o1])).unflatten(2, (m2, js[o2]))
            parts.append(part.permute(0, 4, 2, 1, 3, 5, 6))
        return parts
