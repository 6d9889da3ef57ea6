"""Layers by the rotation (SO(2)) trick of Passaro & Zitnick, with the result of ``TransformerLayer``.

Turn each edge's direction to a fixed axis. There A_J couples only components m and ±m, so that the kernel of
an edge has one number for every (o, i, J) and pair of channels, and no angular matrix is left:

    A_J(u) = |u|^J ρ_o(R) A_J(axis) ρ_i(R)ᵀ   with   R axis = u/|u|.

The coefficients of (m, ±m) are a change of basis of those of J, the same for all edges.
Directions of our smooth geometry have |u| < 1: the factors |u|^J come in between, edge by edge.
On the merged cloud the trick applies to each side; a single cloud has a second side of degree 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, partial
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bitr.groups import Degree, Field, clebsch_gordan, wigner
from bitr.layers import Edges, TransformerLayer
from bitr.layers.attention import attention_weights

FLOATS_AT_ONCE = 2**22
"""Numbers of the per-edge kernels that exist at a time."""
AXIS = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
"""e3nn's polar axis: there Y_J has its component m = 0 alone."""


@dataclass(frozen=True)
class Basis:
    """The constants of one side, for degrees 0 to ``max_degree``.

    A number in the basis of m belongs to (m, t, i, o): t = 0 takes the component m of i to m of o, and −m to
    −m; t = 1 takes −m to m, and m to −m with the opposite sign. For m = 0 there is no t = 1.
    """

    max_degree: int

    @cached_property
    def paths(self) -> list[tuple[int, int, int]]:
        """(o, i, J), the order of the numbers in the basis of J."""
        side = range(self.max_degree + 1)
        return [(o, i, j) for o in side for i in side for j in range(abs(o - i), o + i + 1)]

    @cached_property
    def shapes(self) -> list[torch.Size]:
        """For m = 0, 1, … how many t, i, o."""
        least = range(self.max_degree + 1)
        return [torch.Size([len(signs(m)), len(self.above(m)), len(self.above(m))]) for m in least]

    @cached_property
    def change(self) -> Tensor:
        """The matrix from the basis of J to that of m: orthogonal rows, of length 1 or, for m > 0, √½."""
        rows = []
        for m in range(self.max_degree + 1):
            for sign in signs(m):
                rows += [self._row(m, sign, i, o) for i in self.above(m) for o in self.above(m)]
        return torch.tensor(rows, dtype=torch.float64)

    @cached_property
    def features(self) -> list[tuple[Tensor, Tensor]]:
        """For m = 0, 1, … the components (±m of the output, t, i) that meet the numbers: places and signs."""
        result = []
        for m in range(self.max_degree + 1):
            mid = torch.tensor([i * i + i for i in self.above(m)])
            if m == 0:
                result.append((mid[None, None], torch.ones(1, 1, len(mid))))
                continue
            place = torch.stack([torch.stack([mid + m, mid - m]), torch.stack([mid - m, mid + m])])
            sign = torch.tensor([[1.0, 1.0], [1.0, -1.0]])[..., None].expand(place.shape)
            result.append((place, sign))
        return result

    @cached_property
    def outputs(self) -> Tensor:
        """Places of the components among the results, which come as (m, ±m, o)."""
        every = range(self.max_degree + 1)
        order = [o * o + o + sign * m for m in every for sign in signs(m) for o in self.above(m)]
        return torch.tensor(order).argsort()

    def above(self, m: int) -> range:
        """The degrees that have a component m."""
        return range(m, self.max_degree + 1)

    def _row(self, m: int, sign: int, i: int, o: int) -> list[float]:
        column = o + m, i + sign * m
        return [float(at_axis(o, i, j)[column]) if pair == [o, i] else 0.0 for *pair, j in self.paths]


def signs(m: int) -> tuple[int, ...]:
    return (1,) if m == 0 else (1, -1)


def at_axis(o: int, i: int, j: int) -> Tensor:
    """A_J(axis): one number in every row, in the column of m or −m."""
    return clebsch_gordan(o, i, j)[:, :, j]


@dataclass(frozen=True)
class Frames:
    """One side of every edge: the matrices that turn its axis, of all degrees at once, and powers of |u|."""

    basis: Basis
    turns: Tensor
    """(E, M, M), block diagonal."""
    fades: Tensor | None
    """(E, J)."""

    def change(self) -> Tensor:
        """From the basis of J to that of m, with the factors |u|^J: (1 or E, m, J)."""
        if self.fades is None:
            return self.basis.change.to(self.turns)[None]
        by_path = self.fades[:, [j for _, _, j in self.basis.paths]]
        return self.basis.change.to(self.turns) * by_path[:, None]

    def __getitem__(self, edges: slice) -> Frames:
        return Frames(self.basis, self.turns[edges], None if self.fades is None else self.fades[edges])


def frames_of(direction: Tensor, max_degree: int, faded: bool) -> Frames:
    """Frames of directions (E, 3)."""
    length = direction.norm(dim=-1, keepdim=True)
    rotation = _turn_axis_to(direction / length)
    size = (max_degree + 1) ** 2
    turns = direction.new_zeros(len(direction), size, size)
    for degree in range(max_degree + 1):
        block = slice(degree**2, (degree + 1) ** 2)
        turns[:, block, block] = wigner(rotation, degree)
    powers = length ** torch.arange(2 * max_degree + 1) if faded else None
    return Frames(Basis(max_degree), turns, powers)


def _turn_axis_to(unit: Tensor) -> Tensor:
    """A rotation that takes the axis to each direction: the shortest from the axis or its opposite."""
    axis = AXIS.to(unit)
    up = unit @ axis >= 0
    start = torch.where(up[:, None], axis, -axis)
    v, c = torch.linalg.cross(start, unit), (start * unit).sum(-1)
    skew = unit.new_zeros(len(unit), 3, 3)
    skew[:, 0, 1], skew[:, 0, 2], skew[:, 1, 2] = -v[:, 2], v[:, 1], -v[:, 0]
    skew = skew - skew.mT
    shortest = torch.eye(3).to(unit) + skew + skew @ skew / (1 + c)[:, None, None]
    flip = torch.diag(torch.tensor([1.0, -1.0, -1.0])).to(unit)
    return torch.where(up[:, None, None], shortest, shortest @ flip)


class SO2Layer(torch.nn.Module):
    """``TransformerLayer`` with its weights, by rotation."""

    def __init__(self, layer: TransformerLayer, sides: int) -> None:
        super().__init__()
        self.layer, (channels,) = layer, set(layer.rep_out.values())
        self.channels, self.sides = channels, sides
        degree = max(max(own) for own in layer.rep_out)
        self.bases = [Basis(degree), Basis(degree if sides == 2 else 0)]
        self.places = [self._places(kernel) for kernel in (layer.keys, layer.values)]

    def _places(self, kernel: torch.nn.Module) -> Tensor:
        """Places of (z, path₁, path₂, c, d) among the free weights."""
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
        turned_back = frames.turns[:, block, block] @ own.flatten(2)
        rows.append(turned_back.flatten(1).unflatten(0, edges.index.shape).mT)
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
