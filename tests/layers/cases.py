"""Layers with random weights on random points, one-sided (3-D) and two-sided (6-D)."""

from __future__ import annotations

import torch

from bitr.groups import Rep
from bitr.layers import Chebyshev, Edges, Homogeneous, Neighborhoods, TransformerLayer, edges_of


def rep_of(sides: int, max_degree: int, channels: int) -> Rep:
    return (Rep.one_sided if sides == 1 else Rep.two_sided)(max_degree, channels)


def make_layer(
    sides: int, max_degree: int, kind: str = "default", channels: int = 2, **options
) -> TransformerLayer:
    rep = rep_of(sides, max_degree, channels)
    if kind == "default":
        radial_k, radial_v = Chebyshev(sides, 3), Chebyshev(sides, 3)
    else:
        radial_k, radial_v = Homogeneous(sides, 4, degree=0), Homogeneous(sides, 4, degree=1)
    options = {"heads": 2, "head_channels": 1, "tied": sides == 2} | options
    return TransformerLayer(rep, rep, radial_k, radial_v, **options).double()


def make_edges(
    points: torch.Tensor, max_degree: int, kind: str = "default", k: int = 4, mask=None, functions: int = 3
) -> Edges:
    unit = torch.full((len(points),), 1.5, dtype=points.dtype) if kind == "default" else None
    return edges_of(
        Neighborhoods.of(points, k, mask), max_degree, unit, functions if kind == "default" else 0
    )
