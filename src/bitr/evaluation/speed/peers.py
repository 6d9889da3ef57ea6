"""Our layers beside their peers: e3nn's, and the paper's equations taken literally."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from bitr.evaluation.speed.e3nn_layer import e3nn_harmonics
from bitr.evaluation.speed.literal_peer import POINTS as LITERAL_POINTS
from bitr.evaluation.speed.literal_peer import literal_ratios
from bitr.evaluation.speed.memory import stack_peak
from bitr.evaluation.speed.passes import no_grad
from bitr.evaluation.speed.stacks import (
    RADIAL_FUNCTIONS,
    STACKS,
    e3nn_layer,
    neighborhoods,
    our_layer,
    random_field,
    trained,
)
from bitr.evaluation.speed.timing import patience_for, take_turns, times_faster
from bitr.layers import edges_of

DEGREES = (1, 2, 3)


@dataclass(frozen=True)
class LayerRow:
    """One layer whose geometry is known beside e3nn's, and beside the literal one, which computes its own."""

    max_degree: int
    points: int
    forward_times_faster: float
    forward_times_faster_median: float
    training_times_faster: float
    training_times_faster_median: float
    literal_points: int
    literal_forward_times_faster: float | None
    literal_training_times_faster: float | None

    COLUMNS: ClassVar = (
        "one layer, degrees to",
        "points",
        "times faster than e3nn, forward",
        "with backward",
        f"than the literal layer at {LITERAL_POINTS} points, forward",
        "with backward",
    )

    def cells(self) -> tuple[object, ...]:
        literal = (self.literal_forward_times_faster, self.literal_training_times_faster)
        e3nn = f"{self.forward_times_faster:.1f}", f"{self.training_times_faster:.1f}"
        return self.max_degree, self.points, *e3nn, *("" if x is None else f"{x:.0f}" for x in literal)


@dataclass(frozen=True)
class StackRow:
    """Three layers on one geometry, which is part of what is measured; memory is the peak above the start."""

    max_degree: int
    points: int
    forward_times_faster: float
    forward_times_faster_median: float
    training_times_faster: float
    training_times_faster_median: float
    training_mb: float | None
    e3nn_training_mb: float | None

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
    for max_degree in DEGREES[:1] if quick else DEGREES:
        n = _points(max_degree, quick)
        ratios = _layer_ratios(max_degree, n, quick)
        yield LayerRow(max_degree, n, *ratios, LITERAL_POINTS, *literal_ratios(max_degree))


def stack_rows(quick: bool) -> Iterator[StackRow]:
    for max_degree in DEGREES[:2] if quick else DEGREES:
        n = _points(max_degree, quick)
        field, around = random_field(max_degree, n), neighborhoods(n)
        ours, theirs = (make(max_degree) for make in STACKS.values())
        forward = [no_grad(partial(stack, field, around)) for stack in (ours, theirs)]
        training = [trained(stack, field, around) for stack in (ours, theirs)]
        patience = patience_for(quick)
        ratios = (
            *times_faster(*take_turns(forward, patience)),
            *times_faster(*take_turns(training, patience)),
        )
        memory = [None, None] if quick else [stack_peak(name, max_degree, n) for name in STACKS]
        yield StackRow(max_degree, n, *ratios, *memory)


def _points(max_degree: int, quick: bool) -> int:
    """As many as e3nn takes in a few seconds."""
    return 1024 if max_degree < (2 if quick else 3) else 256


def _layer_ratios(max_degree: int, n: int, quick: bool) -> tuple[float, float, float, float]:
    patience, field = patience_for(quick), random_field(max_degree, n)
    around = neighborhoods(n)
    edges = edges_of(around, max_degree, around.mean_reach(), RADIAL_FUNCTIONS)
    harmonics = e3nn_harmonics(edges, max_degree)
    ours, theirs = our_layer(max_degree), e3nn_layer(max_degree)
    forward = [no_grad(partial(ours, field, edges)), no_grad(partial(theirs, field, edges, harmonics))]
    training = [trained(ours, field, edges), trained(theirs, field, edges, harmonics)]
    return *times_faster(*take_turns(forward, patience)), *times_faster(*take_turns(training, patience))
