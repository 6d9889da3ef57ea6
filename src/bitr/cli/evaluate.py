"""``bitr evaluate``: measure how right a model, or a file of predictions, is on a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitr import __version__
from bitr.cli import options
from bitr.cli.options import (
    PAGES,
    Counter,
    check_choice,
    check_file,
    check_suffix,
    log,
    need,
    one_line,
    print_report,
    say,
    session,
)
from bitr.errors import counted, require
from bitr.files import check_target, write_text

if TYPE_CHECKING:
    from bitr.assembly.assemble import Settings
    from bitr.assembly.network import Network
    from bitr.data import AssemblyPair
    from bitr.data.poses import Pairs
    from bitr.evaluation import method as methods
    from bitr.evaluation.evaluate import Evaluation
    from bitr.evaluation.report import Repeated, Report
    from bitr.show import Scene

EXAMPLE = "bitr evaluate default bunny --limit 20 --perturb -o results"
SAMPLINGS = 3
REFINEMENTS = "none|icp|ot"
FILES = ("evaluation.json", "table.md", "rotation_error.png", "recall.png", "median_pair.png")

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL DATASET",
        help="Name of weights that come with bitr, or path of a checkpoint (not with --predictions); then "
        "the data: a name of bitr data list, or a folder or manifest of your own pairs.",
        autocompletion=options.offer(lambda: sorted({*options.list_models(), *options.list_data()})),
    ),
]
Perturb = Annotated[
    bool, typer.Option("--perturb", help="Repeat on swapped, scaled and rigidly moved pairs (Sec. 6.2).")
]
Refine = Annotated[
    str, options.choose(REFINEMENTS, "Refine each pose afterwards, as the paper's BITR+ICP and BITR+OT.")
]
Output = Annotated[Path | None, options.write_to("Folder for the JSON, the table in Markdown, and plots.")]
Predictions = Annotated[
    Path | None,
    typer.Option(
        help="Score a .jsonl or .csv file with id and transformation (4×4, source to reference) on each row, "
        "as batches of bitr assemble write it."
    ),
]


def run(
    names: Names = None,
    split: options.Split = "test",
    seed: options.Seed = 0,
    samplings: options.Samplings = None,
    limit: options.Limit = None,
    perturb: Perturb = False,
    points: options.Points = None,
    method: options.Method = "auto",
    fast: options.Fast = False,
    refine: Refine = "none",
    json: options.Json = False,
    output: Output = None,
    html: options.Html = None,
    predictions: Predictions = None,
    data_root: options.Root = None,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure how right the answers are: errors of rotation and translation, recalls, beside chance.

    A data set is sampled 3 times, with the seeds --seed, --seed + 1 and so on; your own files stay as they
    are. With --predictions no model runs: the poses of the file are scored, whatever method they are from.
    """
    given = names or []
    of_a_model = samplings or limit or points or perturb or fast or method != "auto" or refine != "none"
    wanted = "DATASET with --predictions" if predictions else "MODEL and DATASET"
    is_right = len(given) == (1 if predictions else 2)
    require(is_right, f"got {counted(len(given), 'name')}, expected {wanted}")
    require(
        not (predictions and of_a_model),
        "--samplings, --limit, --points, --method, --fast, --refine, --perturb are for a model; a file "
        "of predictions is scored as it is",
    )
    with session(verbose, counted=True) as on_row:  # torch takes a second to import: something is shown
        from bitr.assembly.assemble import Settings

        _check_outputs(output, html, force=force)
        check_choice("--refine", refine, REFINEMENTS)
        settings = Settings(method, fast=fast, points=points)
        name, new, note = given[-1], None, None
        if not predictions:
            name, new, note = open_data(given[0], name, split, data_root)
        job = Job(name, split, seed, samplings, limit, settings, refine, perturb, data_root, new, note)
        report = job.score(predictions, on_row) if predictions else job.measure(given[0], on_row)
        written = write_folder(output, report, job, force=force) if output is not None else []
        if html is not None:
            _write_page(html, report, job, None if predictions else given[0], force=force)
            written.append(html)
    print_report(report.to_json() if json else report.to_markdown(), written, json)


def open_data(model: str, name: str, split: str, root: Path | None) -> tuple[str, Pairs | None, str | None]:
    """Find data by name: the data, the pairs if they are the user's own and new to the model, and a note.

    Where a data set is not here, the stand-in that the model was trained on takes its place.
    """
    from bitr.data import info, is_name
    from bitr.training.stream import new_pairs, seen_by

    seen, note, new = seen_by(model), None, None
    found = seen.find_data(name, root)
    if found != name:
        note = f"stand-in for {name}, which is not here; {model} was trained on it too"
        say(f"{found}: {note}; to get {name}: {info(name).source}")
    elif seen.stand_in is not None and seen.stand_in[1] == name:
        note = f"{model} was trained on {seen.stand_in[0]}, a stand-in for {name}"
        say(note)
    elif not is_name(name) and Path(name).exists() and split == "test":
        new, note = new_pairs(Path(name), seen)
        if note is not None:
            say(f"{name}: {note}")
    return found, new, note


def _check_outputs(folder: Path | None, html: Path | None, *, force: bool) -> None:
    """Raise when the files cannot be written, before any work is done for them."""
    if folder or html:
        need("matplotlib", f"{folder or html}: charts")
    for path in [folder / name for name in FILES] if folder and folder.is_dir() else [folder]:
        if path is not None:
            check_target(path, force=force and path != folder)
    if html is not None and html.parent == folder and not folder.exists():  # it will be there by then
        check_suffix("--html", html, PAGES)
    else:
        check_file("--html", html, PAGES, force=force)


@dataclass(frozen=True)
class Job:
    """The pairs to evaluate on, how often, and the method."""

    dataset: str
    split: str
    seed: int
    samplings: int | None
    limit: int | None
    settings: Settings
    refine: str
    perturb: bool
    root: Path | None
    new: Pairs | None = None  # the user's own pairs that the model was not trained on; None for a data set
    note: str | None = None

    def pairs(self, sampling: int) -> Sequence[AssemblyPair]:
        from bitr.data import dataset

        if self.new is not None:
            return self.new[: self.limit]
        return dataset(self.dataset, self.split, self.root, self.seed + sampling)[: self.limit]

    def method(self, network: Network, sampling: int) -> methods.Method:
        """The path of ``bitr assemble``, and the refinement."""
        from bitr.evaluation.method import engine, refined

        method = engine(network, replace(self.settings, seed=self.seed + sampling))
        return method if self.refine == "none" else refined(method, self.refine)

    def measure(self, model: str, on_row: Counter) -> Report:
        """Evaluate a model on every sampling, and on every perturbation of it."""
        import numpy as np

        from bitr.assembly.network import Network
        from bitr.data import is_name
        from bitr.evaluation.evaluate import evaluate
        from bitr.evaluation.method import PERTURBATIONS, under
        from bitr.evaluation.report import Repeated

        log.info("loading the model %s", model)
        network = Network.of(model)
        times = self.samplings or (SAMPLINGS if is_name(self.dataset) else 1)
        tests = tuple(PERTURBATIONS) if self.perturb else ("original",)
        found: dict[str, list[Evaluation]] = {test: [] for test in tests}
        for sampling in range(times):
            pairs, method = self.pairs(sampling), self.method(network, sampling)
            for number, test in enumerate(tests):
                log.info("%s, sampling %d of %d, %s", self.dataset, sampling + 1, times, test)
                done, total = (sampling * len(tests) + number) * len(pairs), times * len(tests) * len(pairs)
                rng = np.random.default_rng([self.seed + sampling, number])

                def on_pair(here: int, _: int, done: int = done, total: int = total) -> None:
                    on_row(done + here, total)

                found[test].append(evaluate(under(method, test, rng), pairs, on_pair))
        names = [f"{network.name}, {test}" for test in tests] if self.perturb else [network.name]
        rows = [Repeated(name, tuple(each)) for name, each in zip(names, found.values(), strict=True)]
        return self._report(
            rows,
            checkpoint=network.name,
            samplings=times,
            limit=self.limit,
            method="model" if self.settings.fast else self.settings.method,
            points=self.settings.points or network.points,
            refine=self.refine,
        )

    def score(self, predictions: Path, on_row: Counter) -> Report:
        """Score a file of poses, on the pairs of the seed."""
        from bitr.evaluation.evaluate import evaluate_predictions
        from bitr.evaluation.report import Repeated

        log.info("scoring %s", predictions)
        found = evaluate_predictions(predictions, self.pairs(0), on_row)
        return self._report([Repeated(found.method, (found,))], predictions=str(predictions))

    def _report(self, rows: Sequence[Repeated], **settings: Any) -> Report:
        from bitr.evaluation.report import Report

        scores = rows[0].pooled.scores
        said = f"{self.dataset}: none of the {len(scores)} pairs was answered; {scores[0].failure}"
        require(rows[0].pooled.failed < len(scores), said)
        own = {"bitr": __version__, "dataset": self.dataset, "split": self.split, "seed": self.seed}
        own |= {} if self.note is None else {"note": self.note}
        return Report(own | settings, tuple(rows))


def write_folder(folder: Path, report: Report, job: Job, *, force: bool) -> list[Path]:
    """Write the JSON, the table, Δr as a histogram and as a recall curve, and the median pair."""
    from bitr.evaluation.report import recall_curve, rotation_histogram
    from bitr.show import write_png

    folder.mkdir(exist_ok=True)
    paths = [folder / name for name in FILES]
    json, markdown, histogram, recall, median = paths
    write_text(json, report.to_json() + "\n", force=force)
    write_text(markdown, report.to_markdown(), force=force)
    errors = {row.name: row.pooled.values("rotation_error_deg") for row in report.rows}
    rotation_histogram(errors).write(histogram, force=force)
    recall_curve(errors).write(recall, force=force)
    write_png(median, find_median(report.rows[0], job), force=force)
    return paths


def find_median(row: Repeated, job: Job) -> Scene:
    """Find the pair whose Δr is in the middle, as neither the best nor the worst is typical."""
    from bitr.evaluation.report import ranked
    from bitr.show.stage import show_pair

    answered = [each for each in ranked(row) if each.score.transformation is not None]
    median = answered[len(answered) // 2]
    pair, pose = job.pairs(median.sampling)[median.number], median.score.transformation
    assert pose is not None
    return show_pair(pair, pose)


def _write_page(path: Path, report: Report, job: Job, model: str | None, *, force: bool) -> None:
    """Write the page; without a model it has no law errors."""
    from bitr.assembly.network import Network
    from bitr.show.report import write_evaluation

    network = None if model is None else Network.of(model)
    method_of = None if network is None else lambda sampling: job.method(network, sampling)
    title = one_line(f"{model or report.rows[0].name} on {job.dataset}, {job.split}")
    write_evaluation(path, report, title, job.pairs, method_of, job.seed, force=force)
