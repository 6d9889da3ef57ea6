"""The common kind of experiment: BITR, its refinements and other methods on each data set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bitr.assembly.finish import METHODS
from bitr.data import info, is_name
from bitr.errors import InputError
from bitr.evaluation.baselines import baseline
from bitr.evaluation.baselines.learned import kind, learned_method
from bitr.evaluation.method import engine, model_alone, network_of
from bitr.evaluation.refined import refined
from bitr.evaluation.reproduce.experiment import Case, Experiment
from bitr.evaluation.reproduce.plan import Plan
from bitr.evaluation.reproduce.result import Result, Table
from bitr.evaluation.reproduce.rows import Entry, measured, samplings
from bitr.evaluation.reproduce.weights import Weights, data_words, trained, training_words, weights
from bitr.training import TrainConfig

ENGINE = "bitr assemble"
"""The row of the default command with these weights."""
OVERLAPPING = 0.5
"""Kept share of both clouds from which on they are sure to overlap, and refinement has something to fit."""


def compare(experiment: Experiment, plan: Plan) -> Result:
    """A table for each data set."""
    plan = replace(plan, model=plan.model or experiment.weights, limit=plan.limit or experiment.most)
    for case in experiment.cases:
        plan.pairs(plan.config(case.data).data.name, 0)  # raises before hours are spent on the others
    tables, before = [], None
    for case in experiment.cases:
        table, before = _table(experiment, case, plan, before)
        tables.append(table)
    return Result(
        experiment.name,
        experiment.title,
        experiment.section,
        plan.settings(),
        tuple(tables),
        (*experiment.notes, *_budget_note(experiment, plan)),
    )


def _table(experiment: Experiment, case: Case, plan: Plan, before: Path | None) -> tuple[Table, Path | None]:
    """The table of a data set, and the run that trained for it.

    Where what is kept varies, each model goes on from the one that had more to see: the easier comes first.
    """
    config, parts = plan.config(case.data), len(experiment.cases)
    if case.keep is not None and before is not None:
        config = replace(config, run=replace(config.run, init_from=str(before)))
    pairs = samplings(config.data.name, plan)
    found = weights(config, config.data.name, plan, parts)
    entries = [
        *_own(experiment, case, config, found),
        *(_classical(experiment) if plan.classical else ()),
        *(_learned(experiment, config, plan, parts) if plan.learned else ()),
    ]
    rows = measured(entries, pairs, experiment.published, plan)
    return Table(case.title, rows, pairs[0], case.keep), found.run


def _own(experiment: Experiment, case: Case, config: TrainConfig, found: Weights) -> Iterator[Entry]:
    """BITR, and BITR with each refinement."""
    method = model_alone(found.model, config.data.points_used)
    yield Entry(method.name, method, found.made)
    joints = info(config.data.name).joints if is_name(config.data.name) else METHODS
    network = network_of(found.model, config.data.points_used, joints)
    yield Entry(ENGINE, engine(network, name=ENGINE), found.made)
    if case.keep is None or case.keep >= OVERLAPPING:
        for name in experiment.refinements:
            better = refined(method, name)
            yield Entry(better.name, better, found.made)


def _classical(experiment: Experiment) -> Iterator[Entry]:
    for name in experiment.baselines:
        try:
            method = baseline(name)
        except InputError as error:  # an extra is missing
            yield Entry(name, None, f"not installed: {error}")
        else:
            yield Entry(method.name, method, "nothing to train" if name != "bound" else "looks at the answer")


def _learned(experiment: Experiment, config: TrainConfig, plan: Plan, parts: int) -> Iterator[Entry]:
    for name in experiment.learned:
        try:
            own = replace(config, run=replace(config.run, init_from=""))
            folder, result = trained(own, f"{config.data.name}-{name}", plan, parts, kind(name))
        except InputError as error:  # told in the row: the others are worth their hours
            yield Entry(f"in the manner of {name.upper()}", None, str(error))
        else:
            method = learned_method(folder)
            made = f"{data_words(config, plan)}; {training_words(result, config)}"
            yield Entry(method.name, method, made)


def _budget_note(experiment: Experiment, plan: Plan) -> tuple[str, ...]:
    if not (experiment.learned and plan.learned):
        return ()
    return (
        "Learned baselines were trained by the same loop, on the same split and with the same budget each. "
        "They are in the manner of the published methods, not their weights.",
    )
