"""Edges in frames of their own, and the kernel there: the constants of the rotation (SO(2)) trick.

Turn each edge's direction to a fixed axis. There A_J couples only components m and ±m, so that the kernel of
an edge has one number for every (o, i, J) and pair of channels, and no angular matrix is left:

    A_J(u) = |u|^J ρ_o(R) A_J(axis) ρ_i(R)ᵀ   with   R axis = u/|u|.

The coefficients of (m, ±m) are a change of basis of those of J, the same for all edges.
Directions of our smooth geometry have |u| < 1: the factors |u|^J come in between, edge by edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bitr.groups import wigner
from bitr.groups.clebsch_gordan import clebsch_gordan

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
        """Where each component stands among the results, which come as (m, ±m, o)."""
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
    """Of directions (E, 3)."""
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
