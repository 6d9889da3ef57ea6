"""The ablation of App. D.3: what a model does where it lacks a law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bitr.evaluation.method import model_alone
from bitr.evaluation.perturbations import PERTURBATIONS
from bitr.evaluation.reproduce.experiment import Experiment
from bitr.evaluation.reproduce.plan import Plan
from bitr.evaluation.reproduce.result import Result, Table
from bitr.evaluation.reproduce.rows import Entry, measured, samplings
from bitr.evaluation.reproduce.toy import four_tests
from bitr.evaluation.reproduce.weights import weights
from bitr.model.checkpoint import load

VARIANTS = {"": (True, True), " without swap": (False, True), " without scale": (True, False)}
"""By the end of its name, whether each has swap- and scale-equivariance."""


def ablation(experiment: Experiment, plan: Plan) -> Result:
    """Three models on the four tests."""
    config = plan.config(*experiment.data)
    pairs = samplings(config.data.name, plan)
    entries = [entry for variant in VARIANTS for entry in _entries(variant, experiment, plan)]
    rows = measured(entries, pairs, experiment.published, plan)
    return Result(
        experiment.name,
        experiment.title,
        experiment.section,
        plan.settings(),
        (Table(config.data.name, rows, pairs[0]),),
        experiment.notes,
    )


def _entries(variant: str, experiment: Experiment, plan: Plan) -> Iterator[Entry]:
    """The four tests of one variant; weights that are given stand for the variant that they are of."""
    config = plan.config(*experiment.data)
    swap, scale = VARIANTS[variant]
    if plan.model is not None:
        given = load(plan.model).config
        if (given.swap, given.scale) != (swap, scale):
            why = f"not trained: with --model nothing is, and {plan.model} is of another variant"
            yield from (Entry(f"BITR{variant}, {test}", None, why) for test in PERTURBATIONS)
            return
    lacking = replace(config, model=replace(config.model, swap=swap, scale=scale))
    found = weights(lacking, config.data.name + variant.replace(" ", "-"), plan, len(VARIANTS))
    yield from four_tests(
        f"BITR{variant}", model_alone(found.model, config.data.points_used), found.made, plan.seed
    )
