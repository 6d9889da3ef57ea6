"""``bitr evaluate``: how right a checkpoint, or a file of predictions, is on a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitr.errors import InputError

HELP = (
    "How right the answers are: rotation and translation errors, displacement, recalls, beside the chance "
    "level.\n\n"
    "DATASET is a name that bitr data list shows, or a folder or manifest of your own pairs. With "
    "--predictions no model runs: the poses of the file are scored, whatever method they are from."
)
EXAMPLE = "example: bitr evaluate default bunny --limit 20 --perturb -o results"

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CHECKPOINT DATASET",
        help="Name of weights that come with bitr, or path of a checkpoint (not with --predictions); then "
        "the data.",
    ),
]
Split = Annotated[str, typer.Option(help="train, val or test.")]
Seed = Annotated[int, typer.Option(help="Of the first sampling; the others count up from it.", min=0)]
Samplings = Annotated[
    int | None,
    typer.Option(
        help="How often the pairs are sampled anew; by default 3, and 1 for your own files, which stay as "
        "they are.",
        min=1,
    ),
]
Limit = Annotated[int | None, typer.Option(help="Only the first so many pairs.", min=1)]
Perturb = Annotated[
    bool, typer.Option("--perturb", help="Also on swapped, scaled and rigidly moved pairs (Sec. 6.2).")
]
Points = Annotated[
    int | None,
    typer.Option(
        help="Points of each cloud that the model sees; by default as many as the weights are for, or 1000.",
        min=4,
    ),
]
Method = Annotated[
    str, typer.Option(metavar="auto|overlap|seam|touch|model", help="As of bitr assemble; auto by default.")
]
Fast = Annotated[bool, typer.Option("--fast", help="The model alone: one forward pass for each pair.")]
Refine = Annotated[
    str,
    typer.Option(
        metavar="none|icp|ot", help="Refinement of each pose afterwards, as the paper's BITR+ICP and BITR+OT."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else there.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="A folder for the JSON, the table in Markdown, and plots."),
]
Html = Annotated[
    Path | None,
    typer.Option(help="Write a report that opens in any browser, with pairs to look at in 3-D."),
]
Predictions = Annotated[
    Path | None,
    typer.Option(
        help="A .jsonl or .csv file with id and transformation (4×4, source to reference) on each row, as "
        "batches of bitr assemble write it."
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--data-root", help="The folder of data sets; by default what the variable BITR_DATA names."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the files of an earlier evaluation.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log each step, and where an error came from.")
]


def run(
    names: Names = None,
    split: Split = "test",
    seed: Seed = 0,
    samplings: Samplings = None,
    limit: Limit = None,
    perturb: Perturb = False,
    points: Points = None,
    method: Method = "auto",
    fast: Fast = False,
    refine: Refine = "none",
    json: Json = False,
    output: Output = None,
    html: Html = None,
    predictions: Predictions = None,
    data_root: Root = None,
    force: Force = False,
    verbose: Verbose = False,
) -> None:
    """Evaluate, print and write."""
    from bitr.cli.console import session

    given = names or []
    words = [value for value in (method, refine) if value not in ("auto", "none")]
    _check_usage(given, predictions, (samplings, limit, points, perturb or None, fast or None, *words))
    with session(
        verbose, counted=True
    ) as on_row:  # torch takes a second to import: inside, something is shown
        from bitr.assembly.assemble import Settings
        from bitr.cli.evaluate_job import Job, check_folder, check_refinement, write_folder
        from bitr.cli.evaluate_page import check_page, write_page

        check_folder(output, force=force)
        check_page(html, output, force=force)
        check_refinement(refine)
        settings = Settings(method, fast=fast, points=points)
        job = Job(given[-1], split, seed, samplings, limit, settings, refine, perturb, data_root)
        report = job.scored(predictions, on_row) if predictions else job.measured(given[0], on_row)
        written = write_folder(output, report, job, force=force) if output is not None else []
        if html is not None:
            write_page(html, report, job, None if predictions else given[0], force=force)
            written.append(html)
    print(report.to_json() if json else report.to_markdown(), end="\n" if json else "")
    for path in () if json else written:
        print(f"wrote {path}")


def _check_usage(given: list[str], predictions: Path | None, of_a_model: tuple[object, ...]) -> None:
    """Raise when arguments and options do not go together."""
    wanted = "DATASET with --predictions" if predictions else "CHECKPOINT and DATASET"
    if len(given) != (1 if predictions else 2):
        raise InputError(f"got {len(given)} names, expected {wanted}")
    if predictions and any(value is not None for value in of_a_model):
        raise InputError(
            "--samplings, --limit, --points, --method, --fast, --refine, --perturb are for a checkpoint; a "
            "file of predictions is scored as it is"
        )
