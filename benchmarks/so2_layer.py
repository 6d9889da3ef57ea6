"""Layers by the rotation (SO(2)) trick of Passaro & Zitnick, with the result of ``TransformerLayer``.

On the merged cloud the trick applies to each side; a single cloud has a second side of degree 0.
"""

from __future__ import annotations

from functools import cache, partial
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from benchmarks.so2_frames import Basis, Frames, at_axis
from bitr.groups import Degree, Field
from bitr.layers import Edges, TransformerLayer
from bitr.layers.message import attention_weights

FLOATS_AT_ONCE = 2**22
"""Numbers of the per-edge kernels that exist at a time."""


class SO2Layer(torch.nn.Module):
    """``TransformerLayer`` with its weights, by rotation."""

    def __init__(self, layer: TransformerLayer, sides: int) -> None:
        super().__init__()
        self.layer, (channels,) = layer, set(layer.rep_out.values())
        self.channels, self.sides = channels, sides
        degree = layer.rep_out.max_degree
        self.bases = [Basis(degree), Basis(degree if sides == 2 else 0)]
        self.places = [self._places(kernel) for kernel in (layer.keys, layer.values)]

    def _places(self, kernel: torch.nn.Module) -> Tensor:
        """Where among the free weights that of (z, path₁, path₂, c, d) stands."""
        numbers = torch.arange(len(kernel.free)).to(kernel.free)
        with patch.dict(kernel._parameters, {"free": torch.nn.Parameter(numbers)}):
            found: dict[tuple[int, int, int, int], Tensor] = {}
            rows = []
            for o1, i1, j1 in self.bases[0].paths:
                row = []
                for o2, i2, j2 in self.bases[1].paths:
                    key = (o1, o2, i1, i2)
                    if key not in found:
                        found[key] = kernel.of_degrees((o1, o2), (i1, i2)).round().long()
                    row.append(found[key][:, j1 - abs(o1 - i1), j2 - abs(o2 - i2)])
                rows.append(torch.stack(row, dim=1))
        return torch.stack(rows, dim=1)

    def forward(self, field: Field, edges: Edges, frames: list[Frames]) -> Field:
        side = [self.bases[0].max_degree + 1, self.bases[1].max_degree + 1]
        square = _square(field, side)
        query = _square(self.layer.query(field), side) * self.layer.logit_scale
        weights = torch.cat([k.free[p] for k, p in zip(self._kernels(), self.places, strict=True)], dim=-1)
        n, k = edges.index.shape
        at_once = max(1, FLOATS_AT_ONCE // (k * weights[0].numel()))
        parts = []
        for start in range(0, n, at_once):
            nodes = slice(start, start + at_once)
            job = partial(self._messages, square, query, weights, edges, frames, nodes)
            one_chunk = at_once >= n or not torch.is_grad_enabled()
            parts.append(job() if one_chunk else checkpoint(job, use_reentrant=False))
        out = _degrees(torch.cat(parts), side, list(self.layer.rep_out))
        return {degree: out[degree] + value for degree, value in self.layer.skip(field).items()}

    def _kernels(self) -> list[torch.nn.Module]:
        return [self.layer.keys, self.layer.values]

    def _messages(
        self, square: Tensor, query: Tensor, weights: Tensor, edges: Edges, frames: list[Frames], nodes: slice
    ) -> Tensor:
        k, heads = edges.index.shape[1], self.layer.heads
        first, second = (side[nodes.start * k : nodes.stop * k] for side in frames)
        at_neighbors = square.index_select(0, edges.index[nodes].flatten())
        turned = _sandwich(first.turns.mT, at_neighbors, second.turns.mT)
        h = self.layer.radial_k(edges)[nodes].mT.flatten(0, 1)
        both = _sandwich(first.turns, self._kernel(turned, h, weights, first, second), second.turns)
        key, value = both.unflatten(0, (-1, k)).split(self.channels, dim=-1)  # (n, k, M₁, M₂, c)
        products = (query[nodes, None] * key).sum((2, 3)).unflatten(-1, (heads, -1)).sum(-1).mT
        valid = None if edges.valid is None else edges.valid[nodes]
        envelope = None if edges.envelope is None else edges.envelope[nodes]
        alpha = attention_weights(products, envelope, valid)
        split = value.unflatten(-1, (heads, -1))
        return torch.einsum("nhk,nkabhc->nabhc", alpha, split).flatten(-2)

    def _kernel(self, turned: Tensor, h: Tensor, weights: Tensor, first: Frames, second: Frames) -> Tensor:
        """The kernel in the frames of the edges, (E, M₁, M₂, c) to (E, M₁, M₂, d), by groups of (m₁, m₂)."""
        faded = first.fades is not None
        numbers = (h @ weights.flatten(1)).unflatten(1, weights.shape[1:]) if faded else weights
        numbers = _to_m(numbers, first.change(), second.change())
        lines = []
        sizes = [[shape.numel() for shape in basis.shapes] for basis in self.bases]
        for m1, line in enumerate(numbers.split(sizes[0], dim=1)):
            results = []
            for m2, part in enumerate(line.split(sizes[1], dim=2)):
                shape1, shape2 = self.bases[0].shapes[m1], self.bases[1].shapes[m2]
                w = part.unflatten(2, shape2).unflatten(1, shape1)  # (·, t₁, i₁, o₁, t₂, i₂, o₂, c, d)
                w = w.permute(0, 1, 2, 4, 5, 7, 3, 6, 8).flatten(1, 5).flatten(2)
                if not faded:
                    w = (h @ w.flatten(1)).unflatten(1, w.shape[1:])
                features = _features(turned, self.bases[0].features[m1], self.bases[1].features[m2])
                results.append(features @ w)  # (E, s₁ s₂, o₁ o₂ d)
            lines.append(self._side_by_side(results, *shape1[::2]))
        return torch.cat(lines, dim=1)[:, self.bases[0].outputs][:, :, self.bases[1].outputs]

    def _side_by_side(self, line: list[Tensor], signs: int, degrees: int) -> Tensor:
        """Results of one m₁ and all m₂ as (E, s₁ o₁, (m₂ s₂ o₂), d)."""
        parts = [
            part.unflatten(1, (signs, -1)).unflatten(3, (degrees, -1, 2 * self.channels)).transpose(2, 3)
            for part in line
        ]  # (E, s₁, o₁, s₂, o₂, d)
        return torch.cat([part.flatten(3, 4) for part in parts], dim=3).flatten(1, 2)


def _sandwich(a: Tensor, square: Tensor, b: Tensor) -> Tensor:
    """a F bᵀ for every edge and channel, F (E, M₁, M₂, c)."""
    m2, c = square.shape[2:]
    turned = (a @ square.flatten(2)).unflatten(2, (m2, c))
    if m2 == 1:
        return turned
    flat = b @ turned.transpose(1, 2).flatten(2)
    return flat.unflatten(2, (-1, c)).transpose(1, 2)


def _features(turned: Tensor, feature1: tuple[Tensor, Tensor], feature2: tuple[Tensor, Tensor]) -> Tensor:
    """(E, s₁ s₂, t₁ i₁ t₂ i₂ c): what the numbers of the kernel meet."""
    (place1, sign1), (place2, sign2) = feature1, feature2
    found = turned[:, place1.flatten()][:, :, place2.flatten()]
    found = found * (sign1.flatten()[:, None] * sign2.flatten()).to(turned)[..., None]
    found = found.unflatten(2, place2.shape).unflatten(1, place1.shape)  # (E, s₁, t₁, i₁, s₂, t₂, i₂, c)
    return found.permute(0, 1, 4, 2, 3, 5, 6, 7).flatten(3).flatten(1, 2)


def _to_m(numbers: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """From the basis of J to that of m on both sides, (·, P₁, P₂, c, d)."""
    moved = (first @ numbers.flatten(2)).unflatten(2, numbers.shape[2:])
    return (second[:, None] @ moved.flatten(3)).unflatten(3, numbers.shape[3:])


def _square(field: Field, side: list[int]) -> Tensor:
    """(N, M₁, M₂, c)."""
    rows = [
        torch.cat([field[p, q].unflatten(1, (2 * p + 1, 2 * q + 1)) for q in range(side[1])], dim=2)
        for p in range(side[0])
    ]
    return torch.cat(rows, dim=1)


def _degrees(square: Tensor, side: list[int], degrees: list[tuple[int, int]]) -> Field:
    return {(p, q): square[:, p * p : (p + 1) ** 2, q * q : (q + 1) ** 2].flatten(1, 2) for p, q in degrees}


def rows_by_rotation(frames: Frames, field: Field, edges: Edges, degrees: list[Degree]) -> list[Tensor]:
    """Our angular rows of one cloud, in place of ``rows_of_any_degree``: the weights stay at the nodes."""
    side = frames.basis.max_degree + 1
    square = _square(field, [side, 1])[:, :, 0].index_select(0, edges.index.flatten())
    turned = frames.turns.mT @ square
    rows = []
    for o, _ in degrees:
        columns, factors, fades = _sparse_rows(o, side)
        own = turned[:, columns.flatten()].unflatten(1, columns.shape) * factors.to(turned)[..., None]
        if frames.fades is not None:
            own = own * frames.fades[:, fades][:, None, :, None]
        block = slice(o * o, (o + 1) ** 2)
        rows.append(frames.turns[:, block, block] @ own.flatten(2))
    return rows


@cache
def _sparse_rows(o: int, side: int) -> tuple[Tensor, Tensor, Tensor]:
    """For rows (m_o, (i, J)): the only column of A_J(axis) that is not 0, its number there, and J."""
    columns, factors, fades = [], [], []
    for i in range(side):
        for j in range(abs(o - i), o + i + 1):
            a = at_axis(o, i, j)
            place = a.abs().argmax(1)
            columns.append(place + i * i)
            factors.append(a.gather(1, place[:, None])[:, 0])
            fades.append(j)
    return torch.stack(columns, dim=1), torch.stack(factors, dim=1), torch.tensor(fades)
