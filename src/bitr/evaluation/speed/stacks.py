"""Layers as the key-point network stacks them, ours and e3nn's: one geometry for all of them."""

from __future__ import annotations

import torch
from torch import nn

from bitr.evaluation.speed.e3nn_layer import E3nnLayer, e3nn_harmonics
from bitr.evaluation.speed.passes import pair
from bitr.evaluation.speed.timing import Job
from bitr.groups import Field, Rep, components
from bitr.layers import Chebyshev, Neighborhoods, TransformerLayer, edges_of

CHANNELS, NEIGHBORS, LAYERS = 4, 24, 3
RADIAL_FUNCTIONS = 4


def our_layer(max_degree: int) -> TransformerLayer:
    rep, radial = Rep.one_sided(max_degree, CHANNELS), Chebyshev(1, RADIAL_FUNCTIONS)
    return TransformerLayer(rep, rep, radial, radial, heads=2, head_channels=CHANNELS // 2, tied=False)


def e3nn_layer(max_degree: int) -> E3nnLayer:
    return E3nnLayer(max_degree, CHANNELS, RADIAL_FUNCTIONS)


def neighborhoods(n: int) -> Neighborhoods:
    return Neighborhoods.of(pair(n, 1)[0], min(NEIGHBORS, n - 1))


def random_field(max_degree: int, n: int) -> Field:
    return {d: torch.randn(n, components(d), c) for d, c in Rep.one_sided(max_degree, CHANNELS).items()}


class OurStack(nn.Module):
    """From neighbours to features: the geometry once, then three layers."""

    def __init__(self, max_degree: int) -> None:
        super().__init__()
        self.max_degree = max_degree
        self.layers = nn.ModuleList(our_layer(max_degree) for _ in range(LAYERS))

    def forward(self, field: Field, around: Neighborhoods) -> Field:
        edges = edges_of(around, self.max_degree, around.mean_reach(), RADIAL_FUNCTIONS)
        for layer in self.layers:
            field = layer(field, edges)
        return field


class E3nnStack(nn.Module):
    """The same with e3nn's layers, and its harmonics in place of our geometry of higher degrees."""

    def __init__(self, max_degree: int) -> None:
        super().__init__()
        self.max_degree = max_degree
        self.layers = nn.ModuleList(e3nn_layer(max_degree) for _ in range(LAYERS))

    def forward(self, field: Field, around: Neighborhoods) -> Field:
        edges = edges_of(around, 1, around.mean_reach(), RADIAL_FUNCTIONS)
        harmonics = e3nn_harmonics(edges, self.max_degree)
        for layer in self.layers:
            field = layer(field, edges, harmonics)
        return field


STACKS: dict[str, type[OurStack] | type[E3nnStack]] = {"ours": OurStack, "e3nn": E3nnStack}


def trained(layers: nn.Module, field: Field, *others: object) -> Job:
    """Forward and backward, to the features and the weights."""
    leaves = {degree: value.clone().requires_grad_() for degree, value in field.items()}

    def run() -> None:
        layers.zero_grad()
        sum(value.sum() for value in layers(leaves, *others).values()).backward()

    return run
