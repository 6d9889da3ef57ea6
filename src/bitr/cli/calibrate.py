"""``bitr calibrate``: how sure a model may be of its poses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitr.errors import InputError
from bitr.files import check_target

HELP = (
    "Fit the verifier of a model on pairs whose pose is known, and keep it in the checkpoint: it chooses "
    "among the poses that are found, and says how sure it is.\n\n"
    "A confidence of 0.8 then means: of such answers, 8 in 10 are off by less than 15° and by less than 0.1 "
    "of the assembled shape's radius. With --test nothing is fitted: the confidence that the checkpoint has "
    "is measured on the test split."
)
EXAMPLE = "example: bitr calibrate runs/bunny bunny --pairs 300"

Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="Path of a checkpoint; with --test also a name of shipped weights."),
]
Data = Annotated[str, typer.Argument(metavar="DATASET", help="A name of bitr data list, or your own pairs.")]
Test = Annotated[
    bool, typer.Option("--test", help="Fit nothing, and measure the confidence on the test split.")
]
Split = Annotated[
    str | None, typer.Option(help="By default val, and test with --test; test is never fitted on.")
]
Count = Annotated[
    int, typer.Option("--pairs", help="How many; beyond the split's own, it is sampled anew.", min=1)
]
Seed = Annotated[int, typer.Option(help="Of the first sampling; the others count up from it.", min=0)]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write a copy with the confidence there instead.")
]
Diagram = Annotated[
    Path | None, typer.Option(help="A .png, .pdf or .svg: share of right poses by confidence.")
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--data-root", help="The folder of data sets; by default what the variable BITR_DATA names."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else there.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output and the diagram.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log each step, and where an error came from.")
]


def run(
    model: Model,
    data: Data,
    test: Test = False,
    split: Split = None,
    pairs: Count = 300,
    seed: Seed = 0,
    output: Output = None,
    diagram: Diagram = None,
    data_root: Root = None,
    json: Json = False,
    force: Force = False,
    verbose: Verbose = False,
) -> None:
    """Fit or check, print and write."""
    from bitr.cli.console import session

    chosen = split or ("test" if test else "val")
    _check_usage(chosen, test, output)
    for path in (output, diagram):
        if path is not None:
            check_target(path, force=force)
    with session(verbose, counted=True) as on_pair:  # torch takes a second to import: something is shown
        from bitr.cli.calibrate_job import Job, draw
        from bitr.evaluation.calibrate import Origin

        job = Job(model, Origin(data, chosen, seed, pairs), data_root)
        report = job.checked(on_pair) if test else job.fitted(output, on_pair)
        if diagram is not None:
            draw(diagram, report, force=force)
    print(report.to_json() if json else report.to_text())
    for path in () if json else (report.written, diagram):
        if path is not None:
            print(f"wrote {path}")


def _check_usage(split: str, test: bool, output: Path | None) -> None:
    """Raise when options do not go together."""
    if not test and split == "test":
        raise InputError("--split test: the test split is not fitted on; measure on it with --test")
    if test and output is not None:
        raise InputError("--output is for a calibration, and with --test none is fitted")
