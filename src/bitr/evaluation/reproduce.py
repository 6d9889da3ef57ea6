"""The paper's tables and figures again: one runner for all experiments, and the files of their results."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bitr.assembly.finish import METHODS
from bitr.assembly.sample import sample
from bitr.data import AssemblyPair, data_root, info, is_name
from bitr.data.bunny import bunny, stand_in
from bitr.data.piece import as_cloud
from bitr.data.poses import Pairs
from bitr.data.sim import success
from bitr.data.transforms import assembled, both, crop, jitter, move_randomly, two_samples
from bitr.errors import InputError, require
from bitr.evaluation import report as charts
from bitr.evaluation.baselines import baseline
from bitr.evaluation.evaluate import Evaluation, evaluate
from bitr.evaluation.experiment import (
    EXPERIMENTS,
    MEASURED,
    Case,
    Experiment,
    Plan,
    Weights,
    data_words,
    trained,
    training_words,
    weights,
)
from bitr.evaluation.learned_baselines import kind, learned_method
from bitr.evaluation.method import (
    FACTOR,
    Method,
    engine,
    median_u_bitr,
    model_alone,
    network_of,
    refined,
    u_bitr,
    under,
)
from bitr.evaluation.metrics import CHANCE_MEAN, chance_level
from bitr.evaluation.report import NOTES, Repeated, as_line, table, table_lines
from bitr.evaluation.tables import MANNER, SEES, SUCCESS, law_cells, run_table, write_result
from bitr.files import make_folder, write_text
from bitr.io import Geometry
from bitr.model import BITR, BITRConfig
from bitr.model.checkpoint import load
from bitr.show.picture import write_png
from bitr.show.stage import show_pair
from bitr.testing import PAPER_LAWS, Laws, law_errors, worst
from bitr.training import TrainConfig, TrainingError

ENGINE = "bitr assemble"  # the row of the default command with these weights
PAPER_ONLY = "not run here: the paper's figure alone"
OVERLAPPING = 0.5
"""Kept share of both clouds from which on they are sure to overlap, and refinement has something to fit."""
VARIANTS = {"": (True, True), "without swap": (False, True), "without scale": (True, False)}
"""Swap- and scale-equivariance of each variant of the model."""
LAW_PAIRS = 10
PAPER_DIFFERENCE = 1e-3  # degrees by which the four tests differ at most in the paper
SAME_BUDGET = (
    "Learned baselines were trained by the same loop, on the same split and with the same budget each. "
    "They are in the manner of the published methods, not their weights."
)
MATCHED_POINTS, MATCHED_PAIRS = 1024, 5
"""Complete matching: points of a cloud, and pairs of a sampling, each with random models of its own."""
FAR_SIGHTED = BITRConfig(num_neighbors=64, radial_functions=(1, 2), num_keypoints=32)
"""More neighbours, seen less closely, and more key points: random weights turn details into features that
another sample of the same shape does not have."""
UNTRAINED: dict[str, Callable[[str, int], Method]] = {
    "U-BITR": lambda name, seed: u_bitr(name, BITRConfig(), seed),
    "U-BITR as the paper builds it": lambda name, seed: u_bitr(name, BITRConfig.paper(), seed),
    "U-BITR, far-sighted": lambda name, seed: u_bitr(name, FAR_SIGHTED, seed),
    "median of 16 far-sighted U-BITR": lambda name, seed: median_u_bitr(name, FAR_SIGHTED, 16, seed),
}
"""Makers of the methods of complete matching, from a name and a seed."""
AGAINST_KEEP = {
    "rotation_error_deg": ("rotation error Δr (°)", CHANCE_MEAN),
    "translation_error": ("Δt", None),
}
"""Errors that are drawn against the share that is kept: label, and the level of guessing."""

log = logging.getLogger("bitr")


def run_all(plan: Plan) -> tuple[Every, list[Path]]:
    """Every experiment and table; one that lacks its data, or whose training fails, is noted and passed over.

    The files are those of all tables of BENCHMARK.md, and of the whole.
    """
    found: dict[str, Result | str] = {}
    for name, chosen in EXPERIMENTS.items():
        try:
            found[name] = run_one(chosen, plan)[0]
        except (InputError, TrainingError) as error:
            found[name] = str(error)
    for name in MEASURED:
        try:
            run_table(name, plan)
        except InputError as error:
            found[name] = str(error)
    every = Every(found)
    return every, [*write_texts(plan.out, every), *sorted((plan.out / "tables").glob("*.md"))]


def run_one(experiment: Experiment, plan: Plan) -> tuple[Result, list[Path]]:
    """The result and the files that it was written to, in the experiment's own folder below ``plan.out``."""
    own = replace(plan, out=plan.out / experiment.name)
    said = f'{own.out}: plots need matplotlib, which is not installed: pip install -e ".[viz]"'
    require(find_spec("matplotlib") is not None, said)
    make_folder(own.out)
    result = run(experiment, own)
    return result, write_files(own.out, result) + write_result(plan.out / "tables", result, plan)


def run(experiment: Experiment, plan: Plan) -> Result:
    """A table for each case; where the kept share varies, each model goes on from the one that saw more."""
    needs_none = not experiment.disturbed or plan.model is None
    require(needs_none, f"{experiment.name} is about untrained models: leave out --model")
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
    entries: Iterable[Entry]
    if case.disturbed is not None:
        made = f"{data_words(config, plan)}; not trained"
        entries = [(name, make(name, plan.seed), made) for name, make in UNTRAINED.items()]
    elif experiment.variants:
        entries = chain(*[_variant(variant, experiment, config, plan) for variant in experiment.variants])
    else:
        found = weights(config, config.data.name, plan, len(experiment.cases))
        if experiment.tests:
            entries = _tests("BITR", experiment, config, plan, found)
        else:
            entries = _comparison(experiment, case, config, plan, found)
    rows = _measure(list(entries), pairs, experiment, case, plan)
    title = config.data.name if case == Case(case.data) else case.title
    return Table(title, rows, pairs[0], case.keep, None if found is None else found.minutes), found


def _samplings(case: Case, config: TrainConfig, plan: Plan) -> Samplings:
    """The test pairs of every sampling, made once for all methods."""
    name, numbers = config.data.name, range(plan.samplings)
    log.info("making the test pairs of %s", name)
    if case.disturbed is None:
        return [list(plan.pairs(name, number)) for number in numbers]
    shape = stand_in() if name == "bunny-stand-in" else bunny(data_root(plan.root))
    return [list(disturbed(shape, case.disturbed, plan.seed + i)[: plan.limit]) for i in numbers]


def disturbed(shape: Geometry, how: str, seed: int) -> Pairs:
    """The shape and the shape again, both at random places: "X = Y", "resampled", "noisy 0.01" (standard
    deviation) or "cropped 0.9" (share that is kept)."""
    kind, _, amount = how.partition(" ")

    def make(i: int, rng: np.random.Generator) -> AssemblyPair:
        x, other = two_samples(shape, MATCHED_POINTS, rng)
        pair = assembled(x, other if kind == "resampled" else x, f"{how}/{i}")
        if kind == "noisy":
            pair = both(pair, lambda side: jitter(side, float(amount), rng))
        if kind == "cropped":
            pair = both(pair, lambda side: crop(side, float(amount), rng))
        return move_randomly(pair, rng)

    return Pairs("complete-matching", how, seed, make, range(MATCHED_PAIRS))


# Rows


Samplings = Sequence[Sequence[AssemblyPair]]
Entry = tuple[str, Method | None, str]
"""The name of a row and its method, with the data and training behind it; without one, why there is none."""


def _comparison(
    experiment: Experiment, case: Case, config: TrainConfig, plan: Plan, found: Weights
) -> Iterator[Entry]:
    """The model, the default command, refinements and other methods."""
    method = model_alone(found.model, config.data.points_used)
    yield method.name, method, found.made
    joints = info(config.data.name).joints if is_name(config.data.name) else METHODS
    network = network_of(found.model, config.data.points_used, joints)
    yield ENGINE, engine(network, name=ENGINE), found.made
    overlaps = case.keep is None or case.keep >= OVERLAPPING
    for better in (refined(method, name) for name in experiment.refinements if overlaps):
        yield better.name, better, found.made
    if plan.classical:
        yield from map(_classical, experiment.baselines)
    if plan.learned:
        yield from (_learned(name, experiment, config, plan) for name in experiment.learned)
    if experiment.simulated:
        yield "true pose", Method("true pose", lambda pair: pair.ref_from_src), SEES


def _tests(
    name: str, experiment: Experiment, config: TrainConfig, plan: Plan, found: Weights
) -> Iterator[Entry]:
    """The model on the original, swapped, scaled and moved pairs."""
    method = model_alone(found.model, config.data.points_used)
    for number, test in enumerate(experiment.tests):
        rng = np.random.default_rng([plan.seed, number])
        yield f"{name}, {test}", under(method, test, rng), found.made


def _variant(variant: str, experiment: Experiment, config: TrainConfig, plan: Plan) -> Iterator[Entry]:
    """The tests of one variant; given weights stand for the variant that they are of."""
    name, (swap, scale) = f"BITR {variant}".strip(), VARIANTS[variant]
    if plan.model is not None:
        given = load(plan.model).config
        if (given.swap, given.scale) != (swap, scale):
            why = f"not trained: with --model nothing is, and {plan.model} is of another variant"
            return ((f"{name}, {test}", None, why) for test in experiment.tests)
    lacking = replace(config, model=replace(config.model, swap=swap, scale=scale))
    run = "-".join([config.data.name, *variant.split()])
    found = weights(lacking, run, plan, len(experiment.variants))
    return _tests(name, experiment, config, plan, found)


def _classical(name: str) -> Entry:
    try:
        method = baseline(name)
    except InputError as error:  # an extra is missing
        return name, None, f"not installed: {error}"
    return method.name, method, "nothing to train" if name != "bound" else SEES


def _learned(name: str, experiment: Experiment, config: TrainConfig, plan: Plan) -> Entry:
    own = replace(config, run=replace(config.run, init_from=""))
    try:
        run = f"{config.data.name}-{name}"
        folder, result = trained(own, run, plan, len(experiment.cases), kind(name))
    except InputError as error:  # noted in the row: the others are worth their hours
        return f"{MANNER}{name.upper()}", None, str(error)
    method = learned_method(folder)
    return method.name, method, f"{data_words(config, plan)}; {training_words(result, config)}"


def _measure(
    entries: Sequence[Entry], samplings: Samplings, experiment: Experiment, case: Case, plan: Plan
) -> tuple[Repeated, ...]:
    """A row for each entry on every sampling, and below them those that only the paper has."""
    rows, published = [], experiment.published_in(case.title)
    for name, method, made in entries:
        row = Repeated(name, (), made, published.get(name))
        if method is not None:
            log.info("evaluating %s", name)
            row = replace(row, samplings=tuple(evaluate(method, p, plan.progress) for p in samplings))
            row = replace(row, shares=success_share(row.pooled, plan)) if experiment.simulated else row
        rows.append(row)
    alone = {name: each for name, each in published.items() if name not in {row.name for row in rows}}
    return *rows, *(Repeated(name, (), PAPER_ONLY, each) for name, each in alone.items())


def success_share(evaluation: Evaluation, plan: Plan) -> dict[str, float]:
    """The share of all pairs whose answer works; a pair without an answer does not.

    The errors are against the one pose that was demonstrated, or the nearest turn of a bowl; another one may
    work as well, so the paper reports none.
    """
    log.info("simulating the answers of %s", evaluation.method)
    poses = [(score.id, score.transformation) for score in evaluation.scores]
    worked = [pose is not None and success(id, pose, plan.root).succeeded for id, pose in poses]
    return {SUCCESS: sum(worked) / len(worked)}


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
    names = {f"weights in {name}, largest of {pairs} pairs": each for name, each in laws.items()}
    rows = [(name, *law_cells(each)) for name, each in (names | {"paper": PAPER_LAWS}).items()]
    return "\n".join(table_lines(("laws (App. D.2)", "Δ_bi", "Δ_swap", "Δ_scale"), rows))


# Results


@dataclass(frozen=True, eq=False)
class Table:
    """Methods on one data set."""

    title: str
    rows: tuple[Repeated, ...]
    pairs: Sequence[AssemblyPair]  # the first sampling, for pictures and law errors
    keep: float | None = None
    minutes: float | None = None  # training time of the first row, if it is known


@dataclass(frozen=True, eq=False)
class Result:
    """All tables of an experiment."""

    experiment: Experiment
    settings: Mapping[str, Any]
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()  # markdown below the tables
    more: Mapping[str, Any] = field(default_factory=dict)  # further figures for the JSON

    def to_dict(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment.name,
            "section": self.experiment.section,
            **self.settings,
            "chance": chance_level(),
            "tables": [
                {"title": each.title, "keep": each.keep, "rows": [row.to_dict() for row in each.rows]}
                for each in self.tables
            ],
            **self.more,
        }

    def to_json(self) -> str:
        """One JSON object in one line, plain ASCII; unknown values are null."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_markdown(self) -> str:
        """The title, the settings, the tables, and notes on how to read them."""
        parts = [f"# {self.experiment.title} ({self.experiment.section})", as_line(self.settings)]
        for each in self.tables:
            parts += [f"## {each.title}"] if len(self.tables) > 1 else []
            parts.append(table(each.rows))
        return "\n\n".join([*parts, *self.notes, NOTES]) + "\n"


@dataclass(frozen=True, eq=False)
class Every:
    """The results by the names of the experiments; where there is none, the reason."""

    found: dict[str, Result | str]

    def to_json(self) -> str:
        """One JSON object in one line, plain ASCII."""
        parts = self.found.items()
        told = {k: {"not measured": v} if isinstance(v, str) else v.to_dict() for k, v in parts}
        return json.dumps(told, allow_nan=False)

    def to_markdown(self) -> str:
        """The first row of each table of each experiment; then the tables themselves."""
        rows, whole = [], []
        for name, found in self.found.items():
            if isinstance(found, str):
                rows.append(Repeated(name, (), f"not measured: {found}"))
                continue
            whole.append(found.to_markdown())
            for each in found.tables:
                where = name if len(found.tables) == 1 else f"{name}, {each.title}"
                rows.append(replace(each.rows[0], name=f"{where}: {each.rows[0].name}"))
        return "\n\n".join(["# All experiments", table(rows), *whole])


# The files of a result


def write_files(folder: Path, result: Result) -> list[Path]:
    """Write all files of a result; those of an earlier call are replaced."""
    written = write_texts(folder, result)
    for each in result.tables:
        prefix = re.sub(r"[^\w.]+", "-", each.title) + "-" if len(result.tables) > 1 else ""
        rows = [row for row in each.rows if row.samplings]
        errors = {row.name: row.pooled.values("rotation_error_deg") for row in rows}
        for name, draw in (("rotation_error", charts.rotation_histogram), ("recall", charts.recall_curve)):
            written.append(folder / f"{prefix}{name}.png")
            draw(errors).write(written[-1], force=True)
        written += _write_pictures(folder, each.pairs, rows[0].samplings[0], prefix)
    return written + _write_curves(folder, result.tables)


def write_texts(folder: Path, result: Result | Every) -> list[Path]:
    """Write the table and the JSON."""
    write_text(folder / "table.md", result.to_markdown(), force=True)
    write_text(folder / "result.json", result.to_json() + "\n", force=True)
    return [folder / "table.md", folder / "result.json"]


def _write_pictures(
    folder: Path, pairs: Sequence[AssemblyPair], found: Evaluation, prefix: str
) -> list[Path]:
    """The best, median and worst pair by Δr; one without an answer cannot be shown."""
    degrees = found.values("rotation_error_deg")
    order = np.argsort(degrees)[: np.count_nonzero(~np.isnan(degrees))].tolist()  # NaN comes last
    written = []
    for name, place in (("best", 0), ("median", len(order) // 2), ("worst", -1)) if order else ():
        pose = found.scores[order[place]].transformation
        assert pose is not None
        written.append(folder / f"{prefix}{name}_pair.png")
        write_png(written[-1], show_pair(pairs[order[place]], pose), force=True)
    return written


def _write_curves(folder: Path, tables: tuple[Table, ...]) -> list[Path]:
    """The errors against the share that is kept, where the tables differ in it.

    Bars are the standard deviation between samplings, as in the paper; pairs differ by much more.
    """
    written = []
    for error, (label, level) in AGAINST_KEEP.items() if all(each.keep for each in tables) else ():
        found: dict[str, list[tuple[float | None, float, float]]] = {}
        for keep, row in ((each.keep, row) for each in tables for row in each.rows):
            if (summary := row.pooled.summary(error)) is not None:
                point = keep, summary.mean, row.between(error) or 0.0
                found.setdefault(row.name, []).append(point)
        curves = {name: charts.Curve(*np.array(points, dtype=np.float64).T) for name, points in found.items()}
        written.append(folder / f"{error}_against_keep.png")
        charts.error_against_keep(curves, label, level).write(written[-1], force=True)
    return written
