"""The proof of concept of Sec. 6.2 and the law table of App. D.2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import torch

from bitr.assembly.sample import sample
from bitr.data import AssemblyPair
from bitr.data.piece import as_cloud
from bitr.evaluation.method import Method, model_alone
from bitr.evaluation.perturbations import FACTOR, PERTURBATIONS, under
from bitr.evaluation.report import Repeated
from bitr.evaluation.reproduce.experiment import Experiment
from bitr.evaluation.reproduce.plan import Plan
from bitr.evaluation.reproduce.result import Result, Table
from bitr.evaluation.reproduce.rows import Entry, measured, samplings
from bitr.evaluation.reproduce.weights import weights
from bitr.io import Geometry
from bitr.model import BITR
from bitr.testing import Laws, law_errors, worst

LAW_PAIRS = 10
PAPER = Laws(5e-6, 2e-7, 5e-7)
DIFFERENCE = 1e-3
"""Degrees by which the four tests differ at most in the paper."""


def toy(experiment: Experiment, plan: Plan) -> Result:
    """One model on the four tests, and its laws."""
    config = plan.config(*experiment.data)
    pairs = samplings(config.data.name, plan)
    found = weights(config, config.data.name, plan, 1)
    entries = four_tests("BITR", model_alone(found.model, config.data.points_used), found.made, plan.seed)
    rows = measured(entries, pairs, experiment.published, plan)
    some = [seen_by(found.model, pair, config.data.points_used) for pair in pairs[0][:LAW_PAIRS]]
    laws = _laws(found.model, some, plan.seed)
    return Result(
        experiment.name,
        experiment.title,
        experiment.section,
        plan.settings(),
        (Table(config.data.name, rows, pairs[0]),),
        (_differences(rows), _law_table(laws, len(some)), *experiment.notes),
        {"laws": {name: asdict(each) for name, each in laws.items()}, "paper_laws": asdict(PAPER)},
    )


def four_tests(name: str, method: Method, made: str, seed: int) -> list[Entry]:
    """The method on the original, swapped, scaled and moved pairs."""
    return [
        Entry(f"{name}, {test}", under(method, test, np.random.default_rng([seed, number])), made)
        for number, test in enumerate(PERTURBATIONS)
    ]


def difference(a: Repeated, b: Repeated) -> float:
    """The largest difference between the Δr of the same pair in two rows, in degrees."""
    first, second = (row.pooled.values("rotation_error_deg") for row in (a, b))
    return float(np.nanmax(np.abs(first - second)))


def _differences(rows: tuple[Repeated, ...]) -> str:
    original, *others = (row for row in rows if row.samplings)
    told = ", ".join(f"{row.name.partition(', ')[2]} {difference(original, row):.1e}°" for row in others)
    said = "Largest difference of a pair's Δr from the original test"
    return f"{said}: {told}; in the paper below {DIFFERENCE:g}°."


def seen_by(model: BITR, pair: AssemblyPair, points: int) -> tuple[Geometry, Geometry]:
    """What the model sees of both pieces."""
    return sample(pair.source, pair.reference, model.config, points, 1).seen[0]


def _laws(model: BITR, pairs: Sequence[tuple[Geometry, Geometry]], seed: int) -> dict[str, Laws]:
    """The largest errors over some pairs, with the weights in either precision."""
    found = {}
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        generator = torch.Generator().manual_seed(seed)
        found[name] = worst([_law_errors(model.to(dtype), pair, generator) for pair in pairs])
    return found


def _law_errors(model: BITR, pair: tuple[Geometry, Geometry], generator: torch.Generator) -> Laws:
    source, reference = (as_cloud(side, torch.device("cpu")) for side in pair)
    with torch.inference_mode():
        return law_errors(model, source, reference, generator, factor=FACTOR)


def _law_table(laws: dict[str, Laws], pairs: int) -> str:
    lines = ["| laws (App. D.2) | Δ_bi | Δ_swap | Δ_scale |", "| --- | --- | --- | --- |"]
    for name, each in (*laws.items(), ("paper", PAPER)):
        said = f"weights in {name}, largest of {pairs} pairs" if each is not PAPER else name
        lines.append(f"| {said} | {each.bi:.0e} | {each.swap:.0e} | {each.scale:.0e} |")
    return "\n".join(lines)
