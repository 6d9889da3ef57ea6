"""``bitr evaluate``: measure how right a model, or a file of predictions, is on a data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    from bitr.data import AssemblyPair
    from bitr.data.poses import Pairs
    from bitr.evaluation import method as methods
    from bitr.evaluation.evaluate import Evaluation
    from bitr.evaluation.report import Repeated, Report
    from bitr.show import Scene

    PairsOf = Callable[[int], Sequence[AssemblyPair]]  # the pairs of a sampling

EXAMPLE = "bitr evaluate default bunny --limit 20 --perturb -o results"
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
        from bitr.assembly.network import Network
        from bitr.data import dataset, is_name
        from bitr.evaluation.evaluate import evaluate_predictions
        from bitr.evaluation.method import PERTURBATIONS, engine, refined
        from bitr.evaluation.report import Repeated, Report
        from bitr.show.report import write_evaluation

        _check_outputs(output, html, force=force)
        check_choice("--refine", refine, REFINEMENTS)
        settings = Settings(method, fast=fast, points=points)
        name, new, note = given[-1], None, None
        if not predictions:
            name, new, note = open_data(given[0], name, split, data_root)

        def pairs_of(sampling: int) -> Sequence[AssemblyPair]:
            found = dataset(name, split, data_root, seed + sampling) if new is None else new
            return found[:limit]

        def method_of(sampling: int) -> methods.Method:
            """The path of ``bitr assemble``, and the refinement."""
            way = engine(network, replace(settings, seed=seed + sampling))
            return way if refine == "none" else refined(way, refine)

        told = {"bitr": __version__, "dataset": name, "split": split, "seed": seed}
        told |= {} if note is None else {"note": note}
        if predictions:
            log.info("scoring %s", predictions)
            scored = evaluate_predictions(predictions, pairs_of(0), on_row)
            rows = [Repeated(scored.method, (scored,))]
            told["predictions"] = str(predictions)
        else:
            log.info("loading the model %s", given[0])
            network = Network.of(given[0])
            tests = tuple(PERTURBATIONS) if perturb else ("original",)
            times = samplings or (3 if is_name(name) else 1)
            found = _measure(name, times, tests, pairs_of, method_of, seed, on_row)
            titles = [f"{network.name}, {test}" if perturb else network.name for test in tests]
            rows = [Repeated(title, tuple(each)) for title, each in zip(titles, found, strict=True)]
            told |= {"checkpoint": network.name, "samplings": times, "limit": limit}
            told |= {"method": "model" if fast else method, "points": points or network.points}
            told["refine"] = refine
        scores = rows[0].pooled.scores
        said = f"{name}: none of the {len(scores)} pairs was answered; {scores[0].failure}"
        require(rows[0].pooled.failed < len(scores), said)
        report = Report(told, tuple(rows))
        written = write_folder(output, report, pairs_of, force=force) if output is not None else []
        if html is not None:
            title = one_line(f"{rows[0].name if predictions else given[0]} on {name}, {split}")
            laws_of = None if predictions else method_of  # without a model there are no law errors
            write_evaluation(html, report, title, pairs_of, laws_of, seed, force=force)
            written.append(html)
    print_report(report.to_json() if json else report.to_markdown(), written, json)


def _measure(
    name: str,
    times: int,
    tests: Sequence[str],
    pairs_of: PairsOf,
    method_of: Callable[[int], methods.Method],
    seed: int,
    on_row: Counter,
) -> list[list[Evaluation]]:
    """Evaluate a model on every sampling, and on every perturbation of it: for each test, its samplings."""
    import numpy as np

    from bitr.evaluation.evaluate import evaluate
    from bitr.evaluation.method import under

    found: list[list[Evaluation]] = [[] for _ in tests]
    for sampling in range(times):
        pairs, method = pairs_of(sampling), method_of(sampling)
        for number, test in enumerate(tests):
            log.info("%s, sampling %d of %d, %s", name, sampling + 1, times, test)
            done, total = (sampling * len(tests) + number) * len(pairs), times * len(tests) * len(pairs)
            rng = np.random.default_rng([seed + sampling, number])

            def on_pair(here: int, _: int, done: int = done, total: int = total) -> None:
                on_row(done + here, total)

            found[number].append(evaluate(under(method, test, rng), pairs, on_pair))
    return found


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


def write_folder(folder: Path, report: Report, pairs_of: PairsOf, *, force: bool) -> list[Path]:
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
    write_png(median, find_median(report.rows[0], pairs_of), force=force)
    return paths


def find_median(row: Repeated, pairs_of: PairsOf) -> Scene:
    """Find the pair whose Δr is in the middle, as neither the best nor the worst is typical."""
    from bitr.evaluation.report import ranked
    from bitr.show.stage import show_pair

    answered = [each for each in ranked(row) if each.score.transformation is not None]
    median = answered[len(answered) // 2]
    pair, pose = pairs_of(median.sampling)[median.number], median.score.transformation
    assert pose is not None
    return show_pair(pair, pose)
