"""From methods to rows: each on the same pairs, in every sampling."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bitr.data import AssemblyPair
from bitr.evaluation.evaluate import Evaluation, evaluate
from bitr.evaluation.method import Method
from bitr.evaluation.report import Published, Repeated
from bitr.evaluation.reproduce.plan import Plan

NEAR = 15.0
"""Degrees within which a turn counts as found; pairs without an answer do not."""
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
    rows = [_row(entry, samplings, published.get(entry.name), plan) for entry in entries]
    names = {entry.name for entry in entries}
    alone = [Repeated(name, (), PAPER_ONLY, each) for name, each in published.items() if name not in names]
    return *rows, *alone


def _row(
    entry: Entry, samplings: Sequence[Sequence[AssemblyPair]], published: Published | None, plan: Plan
) -> Repeated:
    row = Repeated(entry.name, _evaluated(entry, samplings, plan), entry.made, published)
    found = row.pooled
    if not found.scores:
        return row
    near = sum(degrees <= NEAR for degrees in found.values("rotation_error_deg"))
    return replace(row, shares={f"within {NEAR:g}°": float(near) / len(found.scores)})


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
