"""From methods to rows: each on the same pairs, in every sampling."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.data.transforms import thin
from bitr.evaluation.evaluate import Evaluation, evaluate
from bitr.evaluation.method import Method
from bitr.evaluation.model_method import model_method
from bitr.evaluation.perturbations import swapped
from bitr.evaluation.report import Published, Repeated
from bitr.evaluation.reproduce.plan import Plan
from bitr.io import Geometry
from bitr.model import BITR
from bitr.refine import REFINEMENTS

PAPER_ONLY = "not run here: the paper's figure alone"

log = logging.getLogger("bitr")


@dataclass(frozen=True)
class Entry:
    """A row to be measured; without a method, ``made`` says why it cannot be."""

    name: str
    method: Method | None
    made: str


def measured(
    entries: Sequence[Entry],
    samplings: Sequence[Sequence[AssemblyPair]],
    published: Mapping[str, Published],
    plan: Plan,
) -> tuple[Repeated, ...]:
    """A row for each entry, and below them those that only the paper has."""
    rows = [Repeated(e.name, _evaluated(e, samplings, plan), e.made, published.get(e.name)) for e in entries]
    names = {entry.name for entry in entries}
    alone = [Repeated(name, (), PAPER_ONLY, each) for name, each in published.items() if name not in names]
    return *rows, *alone


def _evaluated(
    entry: Entry, samplings: Sequence[Sequence[AssemblyPair]], plan: Plan
) -> tuple[Evaluation, ...]:
    if entry.method is None:
        return ()
    log.info("evaluating %s", entry.name)
    return tuple(evaluate(entry.method, pairs, plan.progress) for pairs in samplings)


def samplings(data: str, plan: Plan) -> list[list[AssemblyPair]]:
    """The test pairs of every sampling, made once for all methods."""
    log.info("making the test pairs of %s", data)
    return [list(plan.pairs(data, number)) for number in range(plan.samplings)]


def as_trained(model: BITR, points: int) -> Method:
    """The model on pairs that are thinned as in training; what it sees is decided so that its laws hold."""
    method = model_method(model)
    return Method(method.name, lambda pair: method.solve(thinned(pair, points)))


def thinned(pair: AssemblyPair, points: int) -> AssemblyPair:
    """Both sides thinned alike, to at most ``points`` points; swapping or moving the sides changes nothing.

    What is drawn of a cloud follows from its number of points alone.
    """
    other = swapped(pair, np.random.default_rng()).pair
    return replace(pair, source=_thinned_source(pair, points), reference=_thinned_source(other, points))


def _thinned_source(pair: AssemblyPair, points: int) -> Geometry:
    return thin(pair, points, np.random.default_rng(len(pair.source.points))).source


def refined(method: Method, name: str) -> Method:
    """The method, and then a refinement on all points."""
    refine = REFINEMENTS[name]

    def solve(pair: AssemblyPair) -> Float64[np.ndarray, "4 4"]:
        return refine(pair.source.points, pair.reference.points, method.solve(pair)).pose

    return Method(f"{method.name} + {name.upper()}", solve)
