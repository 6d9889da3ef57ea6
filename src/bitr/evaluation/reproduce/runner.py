"""The one runner of all experiments: for each table the pairs, the weights, and the rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from bitr.assembly.finish import METHODS
from bitr.assembly.sample import sample
from bitr.data import AssemblyPair, data_root, info, is_name
from bitr.data.bunny import bunny, stand_in
from bitr.data.piece import as_cloud
from bitr.data.sim import success
from bitr.errors import InputError
from bitr.evaluation.baselines import baseline
from bitr.evaluation.evaluate import Evaluation, evaluate
from bitr.evaluation.learned_baselines import kind, learned_method
from bitr.evaluation.method import FACTOR, Method, engine, model_alone, network_of, refined, under
from bitr.evaluation.report import Published, Repeated
from bitr.evaluation.reproduce import complete_matching
from bitr.evaluation.reproduce.plan import (
    EXPERIMENTS,
    Case,
    Experiment,
    Plan,
    Weights,
    data_words,
    trained,
    training_words,
    weights,
)
from bitr.evaluation.reproduce.result import Every, Result, Table, check_folder, write_files, write_texts
from bitr.model import BITR
from bitr.model.checkpoint import load
from bitr.testing import Laws, law_errors, worst
from bitr.training import TrainConfig, TrainingError

ENGINE = "bitr assemble"
"""The row of the default command with these weights."""
NEAR = 15.0
"""Degrees within which a rotation counts as found; pairs without an answer do not."""
SUCCESS = "success in simulation"
PAPER_ONLY = "not run here: the paper's figure alone"
OVERLAPPING = 0.5
"""Kept share of both clouds from which on they are sure to overlap, and refinement has something to fit."""
VARIANTS = {"": (True, True), "without swap": (False, True), "without scale": (True, False)}
"""Swap- and scale-equivariance of each variant of the model."""
LAW_PAIRS, PAPER_LAWS = 10, Laws(5e-6, 2e-7, 5e-7)
PAPER_DIFFERENCE = 1e-3
"""Degrees by which the four tests differ at most in the paper."""
SAME_BUDGET = (
    "Learned baselines were trained by the same loop, on the same split and with the same budget each. "
    "They are in the manner of the published methods, not their weights."
)

log = logging.getLogger("bitr")


def run_all(plan: Plan) -> tuple[Every, list[Path]]:
    """Every experiment; one that lacks its data, or whose training fails, is noted and passed over."""
    found: dict[str, Result | str] = {}
    for name, chosen in EXPERIMENTS.items():
        try:
            found[name] = run_one(chosen, plan)[0]
        except (InputError, TrainingError) as error:
            found[name] = str(error)
    every = Every(found)
    return every, write_texts(plan.out, every)


def run_one(experiment: Experiment, plan: Plan) -> tuple[Result, list[Path]]:
    """The result and the files that it was written to, in the experiment's own folder below ``plan.out``."""
    own = replace(plan, out=plan.out / experiment.name)
    check_folder(own.out)
    result = run(experiment, own)
    return result, write_files(own.out, result)


def run(experiment: Experiment, plan: Plan) -> Result:
    """A table for each case; where the kept share varies, each model goes on from the one that saw more."""
    if experiment.disturbed and plan.model is not None:
        raise InputError(f"{experiment.name} is about untrained models: leave out --model")
    plan = replace(plan, model=plan.model or experiment.weights, limit=plan.limit or experiment.most)
    for case in experiment.cases:
        if case.disturbed is None:
            plan.pairs(plan.config(case.data).data.name, 0)  # raises before hours are spent on the others
    tables, found = [], None
    for case in experiment.cases:
        table, found = _run_case(experiment, case, plan, None if found is None else found.run)
        tables.append(table)
    notes, more = list(experiment.notes), {}
    if experiment.laws and found is not None:
        pairs = tables[0].pairs[:LAW_PAIRS]
        laws = _measure_laws(found.model, pairs, plan.config(experiment.data[0]), plan.seed)
        notes[:0] = [_differences(tables[0].rows), _law_table(laws, len(pairs))]
        more = {"laws": {name: asdict(each) for name, each in laws.items()}, "paper_laws": asdict(PAPER_LAWS)}
    if experiment.learned and plan.learned:
        notes.append(SAME_BUDGET)
    return Result(experiment, plan.settings(), tuple(tables), tuple(notes), more)


def _run_case(
    experiment: Experiment, case: Case, plan: Plan, before: Path | None
) -> tuple[Table, Weights | None]:
    """The table of one case, and the weights that its first row has; ``before`` is the run to go on from."""
    config = plan.config(case.data)
    if case.keep is not None and before is not None:
        config = replace(config, run=replace(config.run, init_from=str(before)))
    pairs = _samplings(case, config, plan)
    found: Weights | None = None
    if case.disturbed is not None:
        entries = list(_untrained(config, plan))
    elif experiment.variants:
        entries = [e for variant in experiment.variants for e in _variant(variant, experiment, config, plan)]
    else:
        found = weights(config, config.data.name, plan, len(experiment.cases))
        entries = list(_rows_of(experiment, case, config, plan, found))
    rows = _measure(entries, pairs, experiment.published_in(case.title), plan)
    if experiment.simulated:
        rows = tuple(_count_successes(row, plan) for row in rows)
    title = config.data.name if case == Case(case.data) else case.title
    return Table(title, rows, pairs[0], case.keep), found


def _samplings(case: Case, config: TrainConfig, plan: Plan) -> list[list[AssemblyPair]]:
    """The test pairs of every sampling, made once for all methods."""
    name = config.data.name
    log.info("making the test pairs of %s", name)
    if case.disturbed is None:
        return [list(plan.pairs(name, number)) for number in range(plan.samplings)]
    shape = stand_in() if name == "bunny-stand-in" else bunny(data_root(plan.root))
    seeds = (plan.seed + number for number in range(plan.samplings))
    return [list(complete_matching.disturbed(shape, case.disturbed, seed)[: plan.limit]) for seed in seeds]


# Rows


@dataclass(frozen=True)
class Entry:
    """A row to be measured; without a method, ``made`` says why it cannot be."""

    name: str
    method: Method | None
    made: str


def _rows_of(
    experiment: Experiment, case: Case, config: TrainConfig, plan: Plan, found: Weights
) -> Iterator[Entry]:
    """The model under the tests; or the model, its refinements and other methods."""
    if experiment.tests:
        yield from _tests("BITR", experiment, config, plan, found)
        return
    yield from _own(experiment, case, config, found)
    if plan.classical:
        yield from _classical(experiment)
    if plan.learned:
        yield from _learned(experiment, config, plan)
    if experiment.simulated:
        yield Entry("true pose", Method("true pose", lambda pair: pair.ref_from_src), "looks at the answer")


def _tests(
    name: str, experiment: Experiment, config: TrainConfig, plan: Plan, found: Weights
) -> Iterator[Entry]:
    """The model on the original, swapped, scaled and moved pairs."""
    method = model_alone(found.model, config.data.points_used)
    for number, test in enumerate(experiment.tests):
        rng = np.random.default_rng([plan.seed, number])
        yield Entry(f"{name}, {test}", under(method, test, rng), found.made)


def _variant(variant: str, experiment: Experiment, config: TrainConfig, plan: Plan) -> Iterator[Entry]:
    """The tests of one variant; given weights stand for the variant that they are of."""
    name, (swap, scale) = f"BITR {variant}".strip(), VARIANTS[variant]
    if plan.model is not None:
        given = load(plan.model).config
        if (given.swap, given.scale) != (swap, scale):
            why = f"not trained: with --model nothing is, and {plan.model} is of another variant"
            yield from (Entry(f"{name}, {test}", None, why) for test in experiment.tests)
            return
    lacking = replace(config, model=replace(config.model, swap=swap, scale=scale))
    run = "-".join([config.data.name, *variant.split()])
    found = weights(lacking, run, plan, len(experiment.variants))
    yield from _tests(name, experiment, config, plan, found)


def _own(experiment: Experiment, case: Case, config: TrainConfig, found: Weights) -> Iterator[Entry]:
    """BITR, the default command with its weights, and BITR with each refinement."""
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


def _learned(experiment: Experiment, config: TrainConfig, plan: Plan) -> Iterator[Entry]:
    for name in experiment.learned:
        try:
            own = replace(config, run=replace(config.run, init_from=""))
            run = f"{config.data.name}-{name}"
            folder, result = trained(own, run, plan, len(experiment.cases), kind(name))
        except InputError as error:  # noted in the row: the others are worth their hours
            yield Entry(f"in the manner of {name.upper()}", None, str(error))
        else:
            method = learned_method(folder)
            made = f"{data_words(config, plan)}; {training_words(result, config)}"
            yield Entry(method.name, method, made)


def _untrained(config: TrainConfig, plan: Plan) -> Iterator[Entry]:
    for name, make in complete_matching.METHODS.items():
        yield Entry(name, make(name, plan.seed), f"{data_words(config, plan)}; not trained")


def _measure(
    entries: Sequence[Entry],
    samplings: Sequence[Sequence[AssemblyPair]],
    published: Mapping[str, Published],
    plan: Plan,
) -> tuple[Repeated, ...]:
    """A row for each entry on every sampling, and below them those that only the paper has."""
    rows = []
    for entry in entries:
        found: tuple[Evaluation, ...] = ()
        if entry.method is not None:
            log.info("evaluating %s", entry.name)
            found = tuple(evaluate(entry.method, pairs, plan.progress) for pairs in samplings)
        row = Repeated(entry.name, found, entry.made, published.get(entry.name))
        if errors := row.pooled.values("rotation_error_deg").tolist():
            near = sum(degrees <= NEAR for degrees in errors) / len(errors)
            row = replace(row, shares={f"within {NEAR:g}°": near})
        rows.append(row)
    names = {entry.name for entry in entries}
    alone = [Repeated(name, (), PAPER_ONLY, each) for name, each in published.items() if name not in names]
    return *rows, *alone


def _count_successes(row: Repeated, plan: Plan) -> Repeated:
    """The row with the share of successes beside its errors.

    The errors are against the one pose that was demonstrated, or the nearest turn of a bowl; another one may
    work as well, so the paper reports none.
    """
    if not row.samplings:
        return row
    log.info("simulating the answers of %s", row.name)
    return replace(row, shares={SUCCESS: success_rate(row.pooled, plan)})


def success_rate(evaluation: Evaluation, plan: Plan) -> float:
    """The share of all pairs whose answer works; a pair without an answer does not."""
    poses = [(score.id, score.transformation) for score in evaluation.scores]
    worked = [pose is not None and success(id, pose, plan.root).succeeded for id, pose in poses]
    return sum(worked) / len(worked)


# The law table of App. D.2


def _measure_laws(
    model: BITR, pairs: Sequence[AssemblyPair], config: TrainConfig, seed: int
) -> dict[str, Laws]:
    """The largest errors over the pairs, with the weights in either precision."""
    points, cpu = config.data.points_used, torch.device("cpu")
    seen = [sample(pair.source, pair.reference, model.config, points, 1).seen[0] for pair in pairs]
    clouds = [(as_cloud(x, cpu), as_cloud(y, cpu)) for x, y in seen]
    found = {}
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        generator, own = torch.Generator().manual_seed(seed), model.to(dtype)
        with torch.inference_mode():
            found[name] = worst([law_errors(own, x, y, generator, factor=FACTOR) for x, y in clouds])
    return found


def difference(a: Repeated, b: Repeated) -> float:
    """The largest difference between the Δr of the same pair in two rows, in degrees."""
    first, second = (row.pooled.values("rotation_error_deg") for row in (a, b))
    return float(np.nanmax(np.abs(first - second)))


def _differences(rows: tuple[Repeated, ...]) -> str:
    original, *others = (row for row in rows if row.samplings)
    found = ", ".join(f"{row.name.partition(', ')[2]} {difference(original, row):.1e}°" for row in others)
    words = "Largest difference of a pair's Δr from the original test"
    return f"{words}: {found}; in the paper below {PAPER_DIFFERENCE:g}°."


def _law_table(laws: dict[str, Laws], pairs: int) -> str:
    lines = ["| laws (App. D.2) | Δ_bi | Δ_swap | Δ_scale |", "| --- | --- | --- | --- |"]
    names = {f"weights in {name}, largest of {pairs} pairs": each for name, each in laws.items()}
    for name, each in (names | {"paper": PAPER_LAWS}).items():
        lines.append(f"| {name} | {each.bi:.0e} | {each.swap:.0e} | {each.scale:.0e} |")
    return "\n".join(lines)
