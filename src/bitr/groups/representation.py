"""Representations of SO(3)×SO(3): which degrees a feature has, how often, and how they turn.

A degree is a pair (p, q). A feature of degree (p, q) is a (2p+1)×(2q+1) matrix that turns as
ρ_p(r₁) F ρ_q(r₂)ᵀ; its components are stored in row-major order. Features of a single cloud, which know
only one rotation, have degrees (p, 0).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from bitr.groups.harmonics import wigner

Degree = tuple[int, int]
Field = dict[Degree, Tensor]
"""Features on points, one (N, m, c) tensor per degree: m components, c channels."""


def swapped(degree: Degree) -> Degree:
    return degree[1], degree[0]


def components(degree: Degree) -> int:
    return (2 * degree[0] + 1) * (2 * degree[1] + 1)


class Rep(Mapping[Degree, int]):
    """Degrees with their multiplicities (numbers of channels), in a fixed order."""

    def __init__(self, channels: Mapping[Degree, int]) -> None:
        self._channels = {degree: channels[degree] for degree in sorted(channels) if channels[degree] > 0}

    @classmethod
    def one_sided(cls, max_degree: int, channels: int) -> Rep:
        return cls({(p, 0): channels for p in range(max_degree + 1)})

    @classmethod
    def two_sided(cls, max_degree: int, channels: int) -> Rep:
        side = range(max_degree + 1)
        return cls({(p, q): channels for p in side for q in side})

    def __getitem__(self, degree: Degree) -> int:
        return self._channels[degree]

    def __iter__(self) -> Iterator[Degree]:
        return iter(self._channels)

    def __len__(self) -> int:
        return len(self._channels)

    def __repr__(self) -> str:
        return f"Rep({self._channels})"

    @property
    def max_degree(self) -> int:
        return max(max(degree) for degree in self)


def turn(field: Field, r1: Float[Tensor, "3 3"], r2: Float[Tensor, "3 3"]) -> Field:
    """The action of (r₁, r₂) on the features (not on the points that carry them)."""
    turned = {}
    for (p, q), value in field.items():
        matrix = value.unflatten(-2, (2 * p + 1, 2 * q + 1))
        moved = torch.einsum("ax,...xyc,by->...abc", wigner(r1, p), matrix, wigner(r2, q))
        turned[p, q] = moved.flatten(-3, -2)
    return turned


def swap(field: Field) -> Field:
    """The action of the swap on the features (Sec. 5.1): degree (p, q) becomes (q, p), transposed."""
    return {
        (q, p): value.unflatten(-2, (2 * p + 1, 2 * q + 1)).transpose(-3, -2).flatten(-3, -2)
        for (p, q), value in field.items()
    }
