"""Our layers beside their peers: e3nn's, and the paper's equations taken literally.

The literal layer, one kernel matrix per edge, is the oracle of the tests (``tests/reference/literal.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from e3nn import o3
from tests.reference.literal import literal_layer
from torch import Tensor, nn

from bitr.evaluation.speed import Job, Patience, Times, example_clouds, no_grad, patience_for, take_turns
from bitr.groups import Field, Rep, components
from bitr.layers import Chebyshev, Edges, Neighborhoods, TransformerLayer, edges_of

DEGREES = (1, 2, 3)
CHANNELS, NEIGHBORS, LAYERS = 4, 24, 3
RADIAL_FUNCTIONS = 4
LITERAL_POINTS, LITERAL_NEIGHBORS = 16, 15
ONCE = Patience(rounds=1, seconds=0.0, least=1)
"""The literal layer takes up to seconds, and the noise is small beside them."""
OUR_TURNS = 8
"""Our turns in each turn of the literal layer: ours take milliseconds."""


# Layers and stacks of layers


def our_layer(max_degree: int) -> TransformerLayer:
    rep, radial = Rep.one_sided(max_degree, CHANNELS), Chebyshev(1, RADIAL_FUNCTIONS)
    return TransformerLayer(rep, rep, radial, radial, heads=2, head_channels=CHANNELS // 2, tied=False)


def e3nn_harmonics(edges: Edges, max_degree: int) -> Tensor:
    """e3nn's harmonics of every edge, up to twice ``max_degree``: computed once, as our geometry is."""
    direction = edges.directions[0].flatten(1).mT
    irreps = o3.Irreps.spherical_harmonics(2 * max_degree, p=1)
    return o3.spherical_harmonics(irreps, direction, normalize=False)


class E3nnLayer(nn.Module):
    """An SE(3)-transformer layer from e3nn's parts: keys and values by a tensor product on every edge.

    Its weights are linear in the same radial functions as ours, and attention runs over the same dense
    neighbours. Degrees 0 to ``max_degree``.
    """

    def __init__(self, max_degree: int, channels: int = CHANNELS, functions: int = RADIAL_FUNCTIONS) -> None:
        super().__init__()
        harmonics = o3.Irreps.spherical_harmonics(2 * max_degree, p=1)
        irreps = o3.Irreps([(channels, (degree, 1)) for degree in range(max_degree + 1)])
        self.degrees = range(max_degree + 1)
        self.radial = Chebyshev(1, functions)
        self.query, self.skip = o3.Linear(irreps, irreps), o3.Linear(irreps, irreps)
        self.keys = o3.FullyConnectedTensorProduct(irreps, harmonics, irreps, shared_weights=False)
        self.values = o3.FullyConnectedTensorProduct(irreps, harmonics, irreps, shared_weights=False)
        self.key_weights = nn.Linear(functions, self.keys.weight_numel, bias=False)
        self.value_weights = nn.Linear(functions, self.values.weight_numel, bias=False)

    def forward(self, field: Field, edges: Edges, harmonics: Tensor) -> Field:
        n, k = edges.index.shape
        f = torch.cat([field[degree, 0].mT.flatten(1) for degree in self.degrees], dim=1)
        h = self.radial(edges).mT.flatten(0, 1)
        at_neighbors = f[edges.index.flatten()]
        key = self.keys(at_neighbors, harmonics, self.key_weights(h)).unflatten(0, (n, k))
        value = self.values(at_neighbors, harmonics, self.value_weights(h)).unflatten(0, (n, k))
        # One head, which is the cheaper choice: one weight for all channels.
        logits = (self.query(f)[:, None] * key).sum(-1) / key.shape[-1] ** 0.5
        out = self.skip(f) + (logits.softmax(-1)[..., None] * value).sum(1)
        parts = out.split([field[degree, 0].flatten(1).shape[1] for degree in self.degrees], dim=1)
        return {
            (degree, 0): part.unflatten(1, (-1, 2 * degree + 1)).mT
            for degree, part in zip(self.degrees, parts, strict=True)
        }


class LiteralLayer(nn.Module):
    """The literal layer with the weights of one of ours."""

    def __init__(self, layer: TransformerLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, field: Field, edges: Edges, points: Tensor) -> Field:
        return literal_layer(self.layer, field, points, edges, 1.0)


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
        self.layers = nn.ModuleList(E3nnLayer(max_degree) for _ in range(LAYERS))

    def forward(self, field: Field, around: Neighborhoods) -> Field:
        edges = edges_of(around, 1, around.mean_reach(), RADIAL_FUNCTIONS)
        harmonics = e3nn_harmonics(edges, self.max_degree)
        for layer in self.layers:
            field = layer(field, edges, harmonics)
        return field


STACKS: dict[str, type[OurStack] | type[E3nnStack]] = {"ours": OurStack, "e3nn": E3nnStack}


# Inputs and jobs


def neighborhoods(n: int) -> Neighborhoods:
    return Neighborhoods.of(example_clouds(n, 1)[0], min(NEIGHBORS, n - 1))


def random_field(max_degree: int, n: int) -> Field:
    return {d: torch.randn(n, components(d), c) for d, c in Rep.one_sided(max_degree, CHANNELS).items()}


def trained(layers: nn.Module, field: Field, *others: object) -> Job:
    """Forward and backward, to the features and the weights."""
    leaves = {degree: value.clone().requires_grad_() for degree, value in field.items()}

    def run() -> None:
        layers.zero_grad()
        sum(value.sum() for value in layers(leaves, *others).values()).backward()

    return run


# Tables


@dataclass(frozen=True)
class LayerRow:
    """One layer whose geometry is known beside e3nn's, and beside the literal one, which computes its own."""

    max_degree: int
    points: int
    forward_times_faster: float
    forward_times_faster_median: float
    training_times_faster: float
    training_times_faster_median: float
    literal_forward_times_faster: float
    literal_training_times_faster: float

    COLUMNS: ClassVar = (
        "one layer, degrees to",
        "points",
        "times faster than e3nn, forward",
        "with backward",
        f"than the literal layer at {LITERAL_POINTS} points, forward",
        "with backward",
    )

    def cells(self) -> tuple[object, ...]:
        literal = f"{self.literal_forward_times_faster:.0f}", f"{self.literal_training_times_faster:.0f}"
        e3nn = f"{self.forward_times_faster:.1f}", f"{self.training_times_faster:.1f}"
        return self.max_degree, self.points, *e3nn, *literal


@dataclass(frozen=True)
class StackRow:
    """Three layers on one geometry, which is part of the measurement; memory is the peak above the start."""

    max_degree: int
    points: int
    forward_times_faster: float
    forward_times_faster_median: float
    training_times_faster: float
    training_times_faster_median: float
    training_mb: float | None = None
    e3nn_training_mb: float | None = None

    COLUMNS: ClassVar = (
        "three layers, degrees to",
        "points",
        "times faster than e3nn, forward",
        "with backward",
        "memory with backward, MB",
        "e3nn's, MB",
    )

    def cells(self) -> tuple[object, ...]:
        ratios = f"{self.forward_times_faster:.1f}", f"{self.training_times_faster:.1f}"
        memory = ("" if mb is None else f"{mb:.0f}" for mb in (self.training_mb, self.e3nn_training_mb))
        return self.max_degree, self.points, *ratios, *memory


def layer_rows(quick: bool) -> Iterator[LayerRow]:
    patience = patience_for(quick)
    for max_degree in DEGREES[:1] if quick else DEGREES:
        n = points_for(max_degree, quick)
        field, around = random_field(max_degree, n), neighborhoods(n)
        edges = edges_of(around, max_degree, around.mean_reach(), RADIAL_FUNCTIONS)
        harmonics = e3nn_harmonics(edges, max_degree)
        ours, theirs = our_layer(max_degree), E3nnLayer(max_degree)
        forward = [no_grad(partial(ours, field, edges)), no_grad(partial(theirs, field, edges, harmonics))]
        training = [trained(ours, field, edges), trained(theirs, field, edges, harmonics)]
        ratios = [times_faster(*take_turns(jobs, patience)) for jobs in (forward, training)]
        yield LayerRow(max_degree, n, *ratios[0], *ratios[1], *literal_ratios(max_degree))


def stack_rows(quick: bool) -> Iterator[StackRow]:
    patience = patience_for(quick)
    for max_degree in DEGREES[:2] if quick else DEGREES:
        n = points_for(max_degree, quick)
        field, around = random_field(max_degree, n), neighborhoods(n)
        stacks = [make(max_degree) for make in STACKS.values()]
        forward = [no_grad(partial(stack, field, around)) for stack in stacks]
        training = [trained(stack, field, around) for stack in stacks]
        ratios = [times_faster(*take_turns(jobs, patience)) for jobs in (forward, training)]
        yield StackRow(max_degree, n, *ratios[0], *ratios[1])


def points_for(max_degree: int, quick: bool) -> int:
    """As many points as e3nn takes in a few seconds."""
    return 1024 if max_degree < (2 if quick else 3) else 256


def times_faster(ours: Times, theirs: Times) -> tuple[float, float]:
    """Ratios of the fastest turns and of the medians."""
    return theirs.fastest / ours.fastest, theirs.median / ours.median


def literal_ratios(max_degree: int) -> tuple[float, float]:
    """Ratios to the literal layer, forward and with backward, in float64: it knows nothing else.

    It computes its geometry itself, edge by edge, as written; ours is known.
    """
    ours = our_layer(max_degree).double()
    theirs = LiteralLayer(ours)
    points = example_clouds(LITERAL_POINTS, 1)[0].double()
    around = Neighborhoods.of(points, LITERAL_NEIGHBORS)
    edges = edges_of(around, max_degree, points.new_ones(1), RADIAL_FUNCTIONS)
    field = {degree: value.double() for degree, value in random_field(max_degree, LITERAL_POINTS).items()}
    forward = [no_grad(partial(ours, field, edges)), no_grad(partial(theirs, field, edges, points[0]))]
    training = [trained(ours, field, edges), trained(theirs, field, edges, points[0])]
    return _ratio(*forward), _ratio(*training)


def _ratio(ours: Job, theirs: Job) -> float:
    *many, one = take_turns([ours] * OUR_TURNS + [theirs], ONCE)
    return one.fastest / min(times.fastest for times in many)
