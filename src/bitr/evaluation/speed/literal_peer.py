"""A peer to compare with: the paper's equations taken literally, one kernel matrix per edge.

It is the oracle of the tests (``tests/reference/literal.py``), and there in a checkout only.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from bitr.evaluation.speed.passes import no_grad, pair
from bitr.evaluation.speed.stacks import RADIAL_FUNCTIONS, our_layer, random_field, trained
from bitr.evaluation.speed.timing import Job, Patience, take_turns
from bitr.groups import Field
from bitr.layers import Edges, Neighborhoods, TransformerLayer, edges_of

LITERAL = Path(__file__).parents[4] / "tests" / "reference" / "literal.py"
POINTS = 16
NEIGHBORS = 15
ONCE = Patience(rounds=1, seconds=0.0, least=1)
"""It takes up to seconds, and the noise is small beside them."""
OUR_TURNS = 8
"""In each of its turns: ours take milliseconds."""


class LiteralLayer(torch.nn.Module):
    """The literal layer with the weights of one of ours."""

    def __init__(self, layer: TransformerLayer) -> None:
        super().__init__()
        self.layer, self.function = layer, _literal_function()

    def forward(self, field: Field, edges: Edges, points: Tensor) -> Field:
        return self.function(self.layer, field, points, edges, 1.0)


def literal_ratios(max_degree: int) -> tuple[float, float] | tuple[None, None]:
    """How many times faster we are, forward and with backward, in float64: it knows nothing else.

    It computes its geometry itself, edge by edge, as written; ours is known. None without a checkout.
    """
    if not LITERAL.exists():
        return None, None
    ours = our_layer(max_degree).double()
    theirs = LiteralLayer(ours)
    points = pair(POINTS, 1)[0].double()
    edges = edges_of(Neighborhoods.of(points, NEIGHBORS), max_degree, points.new_ones(1), RADIAL_FUNCTIONS)
    field = {degree: value.double() for degree, value in random_field(max_degree, POINTS).items()}
    forward = [no_grad(partial(ours, field, edges)), no_grad(partial(theirs, field, edges, points[0]))]
    training = [trained(ours, field, edges), trained(theirs, field, edges, points[0])]
    return _ratio(*forward), _ratio(*training)


def _ratio(ours: Job, theirs: Job) -> float:
    *many, one = take_turns([ours] * OUR_TURNS + [theirs], ONCE)
    return one.fastest / min(times.fastest for times in many)


def _literal_function() -> Callable[..., Field]:
    spec = importlib.util.spec_from_file_location("bitr_literal_layer", LITERAL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.literal_layer
