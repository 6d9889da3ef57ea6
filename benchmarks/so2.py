"""A study, run by hand: is the rotation (SO(2)) trick faster than our layers, and from which degree on?

    python -m benchmarks.so2 [--quick]

Prints Markdown tables. Before anything is timed, all ways are checked to give the same in float64. The
fastest of interleaved turns counts; geometry, computed once for all layers of a cloud, is timed apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.peers import trained
from benchmarks.so2_layer import Frames, SO2Layer, frames_of, rows_by_rotation
from bitr.evaluation.speed import Patience, no_grad, take_turns
from bitr.groups import Field, Rep, components
from bitr.layers import Chebyshev, Edges, Neighborhoods, TransformerLayer, attention, edges_of, kernel
from bitr.layers.edges import angular_matrices

PATIENCE = Patience(rounds=5, seconds=3.0, least=1)
HEADS, FUNCTIONS = 2, (4, 3)
LAYERS = 3
"""That share a cloud's geometry, in the key-point network and on the merged cloud."""


@dataclass(frozen=True)
class Case:
    """A layer of the default's kind on a cloud, or on the merged cloud, of random points."""

    sides: int
    max_degree: int
    channels: int
    points: int
    neighbors: int
    dtype: torch.dtype = torch.float32
    faded: bool = True
    """Smooth geometry, whose directions fade where points are close; else directions of length 1."""

    def layer(self) -> TransformerLayer:
        rep = (Rep.one_sided if self.sides == 1 else Rep.two_sided)(self.max_degree, self.channels)
        radial = Chebyshev(self.sides, FUNCTIONS[self.sides - 1])
        made = TransformerLayer(
            rep, rep, radial, radial, heads=HEADS, head_channels=self.channels // HEADS, tied=self.sides == 2
        )
        return made.to(self.dtype)

    def field(self) -> Field:
        rep = self.layer().rep_out
        return {d: torch.randn(self.points, components(d), c, dtype=self.dtype) for d, c in rep.items()}

    def edges(self) -> Edges:
        points = torch.randn(1, self.points, 3 * self.sides, dtype=self.dtype)
        around = Neighborhoods.of(points, self.neighbors)
        functions = FUNCTIONS[self.sides - 1]
        unit = around.mean_reach() if self.sides == 1 else points.new_ones(1)
        edges = edges_of(around, max(2, self.max_degree), unit, functions)
        directions = edges.directions
        if not self.faded:
            directions = directions / directions.norm(dim=1, keepdim=True)
        general = self.sides == 2 or self.max_degree > 1
        angular = angular_matrices(directions, self.max_degree) if general else None
        return replace(edges, valid=None, directions=directions, angular=angular, max_degree=self.max_degree)

    def frames(self, edges: Edges) -> list[Frames]:
        sides = list(edges.directions.flatten(2).mT)
        degrees = [self.max_degree, self.max_degree if self.sides == 2 else 0]
        if self.sides == 1:
            sides = sides * 2
        return [frames_of(side, d, self.faded) for side, d in zip(sides, degrees, strict=True)]


def largest_difference(case: Case) -> float:
    """Between our layer and the rotated ones, in features and in gradients."""
    layer, field, edges = case.layer(), case.field(), case.edges()
    frames = case.frames(edges)
    jobs: list[Callable[[Field], Field]] = [
        lambda leaves: layer(leaves, edges),
        lambda leaves: SO2Layer(layer, case.sides)(leaves, edges, frames),
    ]
    if case.sides == 1 and edges.angular is not None:
        jobs.append(lambda leaves: _with_rotated_rows(layer, leaves, edges, frames[0]))
    ours, *others = (_values_and_gradients(layer, job, field) for job in jobs)
    return max(float((a - b).abs().max()) for other in others for a, b in zip(ours, other, strict=True))


def _values_and_gradients(
    layer: TransformerLayer, job: Callable[[Field], Field], field: Field
) -> list[Tensor]:
    leaves = {degree: value.clone().requires_grad_() for degree, value in field.items()}
    out = job(leaves)
    wanted = [*leaves.values(), *layer.parameters()]
    total = torch.stack([value.sin().sum() for value in out.values()]).sum()
    return [value.detach() for value in [*out.values(), *torch.autograd.grad(total, wanted)]]


def _with_rotated_rows(layer: torch.nn.Module, field: Field, edges: Edges, frames: Frames) -> Field:
    """The patches end before the backward pass, so that it must not make rows again."""
    rows = patch.object(kernel, "rows_of_any_degree", partial(rows_by_rotation, frames))
    kept = patch.object(attention, "checkpoint", lambda job, **_: job())
    whole = patch.object(attention, "EDGES_AT_ONCE", edges.index.numel())  # the frames are of all edges
    with rows, kept, whole:
        return layer(field, edges)


class _Rotated(torch.nn.Module):
    """Our layer with rows by rotation, as a module."""

    def __init__(self, layer: TransformerLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, field: Field, edges: Edges, frames: list[Frames]) -> Field:
        return _with_rotated_rows(self.layer, field, edges, frames[0])


def times(case: Case) -> Iterator[tuple[str, list[float]]]:
    """Name of each job, and the seconds of ours, of the SO(2) layer and of our layer with rotated rows."""
    layer, field, edges = case.layer(), case.field(), case.edges()
    frames = case.frames(edges)
    with_rows = [_Rotated(layer)] if case.sides == 1 and edges.angular is not None else []
    rotated = [SO2Layer(layer, case.sides), *with_rows]
    geometry: list[Callable[[], object]] = [lambda: case.frames(edges)]
    if edges.angular is not None:
        geometry.insert(0, lambda: angular_matrices(edges.directions, case.max_degree))
    spent = [t.fastest for t in take_turns([no_grad(job) for job in geometry], PATIENCE)]
    yield "geometry", [0.0] * (2 - len(spent)) + spent
    forward = [partial(layer, field, edges), *(partial(other, field, edges, frames) for other in rotated)]
    yield "forward", [t.fastest for t in take_turns([no_grad(job) for job in forward], PATIENCE)]
    training = [trained(layer, field, edges), *(trained(other, field, edges, frames) for other in rotated)]
    yield "with backward", [t.fastest for t in take_turns(training, PATIENCE)]


Spent = dict[str, list[float]]


def gains(spent: Spent, job: str) -> list[float]:
    """Speed of the other ways as multiples of ours, for layers that share their geometry."""
    ours, *others = (spent["geometry"][min(1, way)] + LAYERS * s for way, s in enumerate(spent[job]))
    return [ours / other for other in others]


def _row(case: Case, spent: Spent) -> str:
    cells: list[object] = [case.max_degree, case.channels, _directions(case)]
    for job in ("geometry", "forward", "with backward"):
        cells.append(" / ".join(f"{1e3 * seconds:.1f}" for seconds in spent[job]))
    for job in ("forward", "with backward"):
        cells.append(" / ".join(f"{gain:.2f}" for gain in gains(spent, job)))
    return "| " + " | ".join(map(str, cells)) + " |"


def _directions(case: Case) -> str:
    return "fading" if case.faded else "unit"


def _crossovers(results: list[tuple[Case, Spent]]) -> Iterator[str]:
    """The degree from which on the SO(2) layers are faster, for each kind of case."""
    for channels, directions in dict.fromkeys((case.channels, _directions(case)) for case, _ in results):
        own = [(c, s) for c, s in results if (c.channels, _directions(c)) == (channels, directions)]
        for job in ("forward", "with backward"):
            slower = [case.max_degree for case, spent in own if gains(spent, job)[0] <= 1]
            faster = [case.max_degree for case, _ in own if case.max_degree > max(slower, default=0)]
            found = (
                f"faster from degree {faster[0]} on" if faster else f"not faster up to degree {max(slower)}"
            )
            yield f"- {channels} channels, {directions} directions, {job}: SO(2) is {found}"


HEAD = (
    "| degrees to | channels | directions | geometry, ms: ours / SO(2) | forward, ms: ours / SO(2) / our "
    "layer with rotated rows | with backward, ms | three layers and their geometry, times faster than ours | "
    "with backward |"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer points and degrees")
    quick = parser.parse_args().quick
    torch.manual_seed(0)
    for sides in (1, 2):
        for faded in (True, False):
            worst = max(largest_difference(Case(sides, d, 2, 12, 5, torch.float64, faded)) for d in (1, 2, 3))
            kind = "fading" if faded else "unit"
            print(f"{sides} side(s), {kind} directions: same features and gradients to {worst:.0e}")
            assert worst < 1e-10
    n, degrees = (128, (1, 2)) if quick else (1024, (1, 2, 3, 4))
    tables = {
        f"One cloud, {n} points, 24 neighbours": [
            Case(1, d, c, n, 24, faded=faded) for c in (4, 16) for d in degrees for faded in (True, False)
        ],
        "The merged cloud, 32 key points, 16 neighbours": [
            Case(2, d, 4, 32, 16, faded=faded) for d in degrees[:3] for faded in (True, False)
        ],
    }
    for title, cases in tables.items():
        print(f"\n{title}:\n\n{HEAD}\n{'| --- ' * 8}|")
        results = []
        for case in cases:
            results.append((case, dict(times(case))))
            print(_row(*results[-1]), flush=True)
        print("", *_crossovers(results), sep="\n")


if __name__ == "__main__":
    main()
