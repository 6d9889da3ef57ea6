"""``bitr calibrate``: fit the verifier of a model, which chooses among poses and says how sure it is."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitr.cli import options
from bitr.cli.evaluate import open_data
from bitr.cli.options import print_report, session
from bitr.errors import require
from bitr.files import check_target

if TYPE_CHECKING:
    from bitr.evaluation.calibrate import Check

EXAMPLE = "bitr calibrate runs/bunny bunny --pairs 300"

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Path of a checkpoint; with --test also the name of weights that come with bitr.",
        autocompletion=options.offer(options.list_models),
    ),
]
Test = Annotated[bool, typer.Option("--test", help="Fit nothing; measure the confidence on the test split.")]
Split = Annotated[
    str | None,
    options.choose(options.SPLITS, "By default val, and test with --test; test is never fitted on."),
]
Pairs = Annotated[int, typer.Option(help="Number of pairs; beyond the split's own, sample it anew.", min=1)]
Output = Annotated[Path | None, options.write_to("Write a copy, and leave the checkpoint as it is.")]
Diagram = Annotated[
    Path | None, typer.Option(help="Draw the share of right poses by confidence (.png, .pdf or .svg).")
]


def run(
    model: Model,
    data: options.Data,
    test: Test = False,
    split: Split = None,
    pairs: Pairs = 300,
    seed: options.Seed = 0,
    output: Output = None,
    diagram: Diagram = None,
    data_root: options.Root = None,
    json: options.Json = False,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> None:
    """Fit the verifier of a model on pairs whose pose is known, and keep it in the checkpoint.

    The verifier chooses among the poses that are found and says how sure it is. A confidence of 0.8 then
    means: of such answers, 8 in 10 are right, which is within 15° and 0.1 of the size. With --test nothing is
    fitted: the confidence that the checkpoint has is measured on the test split.
    """
    chosen = split or ("test" if test else "val")
    can_fit = test or chosen != "test"
    require(can_fit, "--split test: the test split is not fitted on; measure on it with --test")
    require(not test or output is None, "--output is for a calibration, and with --test none is fitted")
    for path in (output, diagram):
        if path is not None:
            check_target(path, force=force)
    with session(verbose, counted=True) as on_pair:  # torch takes a second to import: something is shown
        from bitr.assembly.network import Network, with_verifier
        from bitr.assembly.orbit import with_symmetry
        from bitr.evaluation import calibrate as work
        from bitr.evaluation.report import reliability_diagram
        from bitr.model.checkpoint import find

        name, new, _ = open_data(model, data, chosen, data_root)
        is_own = test or output is not None or Path(model).exists()
        require(is_own, f"{model}: these weights come with bitr; name a file for a copy with --output")
        target = None if test else output or find(model)
        network = Network.of(model)
        known = network.verifier.origin
        is_new = not test or (known.get("data"), known.get("split")) != (name, chosen)
        require(is_new, f"{model}: was calibrated on the {chosen} split of {name}")
        origin = work.Origin(name, chosen, seed, pairs)
        samplings = work.pairs_of(origin, data_root) if new is None else [new[:pairs]]
        origin = replace(origin, pairs=sum(map(len, samplings)))
        if not test:
            work.require_enough(origin, origin.pairs)
        rows = work.collect(network, samplings, on_pair, with_symmetry)
        if target is None:
            joints, found = network.joints, work.check(network.verifier, rows)
        else:
            verifier, found = work.calibrate(origin, rows)
            joints = tuple(each for each in work.joints_of(verifier, rows) if each in network.joints)
            with_verifier(model, target, verifier, joints)
        if diagram is not None:
            reliability_diagram({model: found.reliability}).write(diagram, force=force)
    if json:
        told = {"model": model, **asdict(origin), "joints": list(joints), **found.to_dict()}
        print(json_format.dumps(told, allow_nan=False))
        return
    how = "" if test else ", each by a fit that did not see it"
    title = f"{model} on {origin.pairs} pairs of {origin.data}, {origin.split}{how}"
    print_report(f"{title}\n\n{_table(found, joints)}", (target, diagram), as_json=False)


def _table(found: Check, joints: Sequence[str]) -> str:
    """The figures as a table in Markdown."""
    from bitr.evaluation.report import table_lines

    figures = found.to_dict()
    names = {
        "share right": "share_right",
        "right candidate found": "share_possible",
        "mean confidence": "mean_confidence",
        "calibration error (10 bins)": "expected_calibration_error",
        "AUROC": "auroc",
        "wrong above 0.9": "wrong_above_0.9",
    }
    forms = {head: ".1%" if head.startswith("wrong") else ".3f" for head in names}
    cells = ["-" if figures[key] is None else f"{figures[key]:{forms[head]}}" for head, key in names.items()]
    return "\n".join(table_lines([*names, "joints"], [[*cells, ", ".join(joints)]]))
