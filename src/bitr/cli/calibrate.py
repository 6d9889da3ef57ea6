"""``bitr calibrate``: fit the verifier of a model, which chooses among poses and says how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitr.cli import options
from bitr.cli.evaluate import open_data
from bitr.cli.options import Counter, print_report, session
from bitr.errors import InputError
from bitr.files import check_target

if TYPE_CHECKING:
    from bitr.data import AssemblyPair
    from bitr.evaluation.calibrate import Check, Origin

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
    if not test and chosen == "test":
        raise InputError("--split test: the test split is not fitted on; measure on it with --test")
    if test and output is not None:
        raise InputError("--output is for a calibration, and with --test none is fitted")
    for path in (output, diagram):
        if path is not None:
            check_target(path, force=force)
    with session(verbose, counted=True) as on_pair:  # torch takes a second to import: something is shown
        from bitr.evaluation.calibrate import Origin
        from bitr.evaluation.report import reliability_diagram

        name, new, _ = open_data(model, data, chosen, data_root)
        asked = Origin(name, chosen, seed, pairs)
        report = _calibrate(model, asked, test, output, data_root, on_pair, new)
        if diagram is not None:
            reliability_diagram({model: report.check.reliability}).write(diagram, force=force)
    print_report(report.to_json() if json else report.to_text(), (report.written, diagram), json)


@dataclass(frozen=True, eq=False)
class Report:
    """The figures of a verifier, and the pairs on which they were measured."""

    model: str
    origin: Origin
    check: Check
    joints: tuple[str, ...]
    written: Path | None

    def to_json(self) -> str:
        import json

        told = {"model": self.model, **asdict(self.origin), "joints": list(self.joints)}
        return json.dumps(told | self.check.to_dict(), allow_nan=False)

    def to_text(self) -> str:
        """A table in Markdown."""
        figures = self.check.to_dict()

        def write(name: str, form: str = ".3f") -> str:
            return "-" if figures[name] is None else format(figures[name], form)

        table = {
            "share right": write("share_right"),
            "right candidate found": write("share_possible"),
            "mean confidence": write("mean_confidence"),
            "calibration error (10 bins)": write("expected_calibration_error"),
            "AUROC": write("auroc"),
            "wrong above 0.9": write("wrong_above_0.9", ".1%"),
            "joints": ", ".join(self.joints),
        }
        how = "" if self.written is None else ", each by a fit that did not see it"
        title = f"{self.model} on {self.origin.pairs} pairs of {self.origin.data}, {self.origin.split}{how}"
        rows = (table, ["---"] * len(table), table.values())
        return "\n".join([title, "", *(f"| {' | '.join(row)} |" for row in rows)])


def _calibrate(
    model: str,
    asked: Origin,
    test: bool,
    output: Path | None,
    root: Path | None,
    on_pair: Counter,
    new: Sequence[AssemblyPair] | None,
) -> Report:
    """Fit the verifier and write the checkpoint with it, or measure the one that the checkpoint has."""
    from bitr.assembly.network import Network, with_verifier
    from bitr.assembly.orbit import with_symmetry
    from bitr.evaluation.calibrate import calibrate, check, collect, joints_of, pairs_of, require_enough
    from bitr.model.checkpoint import find

    target = output or find(model)
    if not test and output is None and not Path(model).exists():
        raise InputError(f"{model}: these weights come with bitr; name a file for a copy with --output")
    network = Network.of(model)
    known = network.verifier.origin
    if test and (known.get("data"), known.get("split")) == (asked.data, asked.split):
        raise InputError(f"{model}: was calibrated on the {asked.split} split of {asked.data}")
    samplings = pairs_of(asked, root) if new is None else [new[: asked.pairs]]
    origin = replace(asked, pairs=sum(map(len, samplings)))
    if not test:
        require_enough(origin, origin.pairs)
    rows = collect(network, samplings, on_pair, with_symmetry)
    if test:
        return Report(model, origin, check(network.verifier, rows), network.joints, None)
    verifier, found = calibrate(origin, rows)
    joints = tuple(name for name in joints_of(verifier, rows) if name in network.joints)
    with_verifier(model, target, verifier, joints)
    return Report(model, origin, found, joints, target)
