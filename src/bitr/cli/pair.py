"""One pair, from two files to the files that were asked for."""

from __future__ import annotations

import logging
from pathlib import Path

from bitr.assembly.assemble import Assembly, Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.cli.outputs import Outputs
from bitr.cli.show import show
from bitr.data.poses import read_pose
from bitr.io import read
from bitr.show.report import best_of, report_rows, report_settings

log = logging.getLogger("bitr")


def run_pair(outputs: Outputs, model: str, settings: Settings, init: Path | None = None) -> Assembly:
    """The assembly of the two inputs; outputs are checked before any work is done, and written."""
    outputs.check()
    start = None if init is None else read_pose(init)
    log.info("loading the model %s", model)
    network = Network.of(model)
    log.info("reading %s", outputs.source)
    source = read(outputs.source)
    log.info("reading %s", outputs.reference)
    reference = read(outputs.reference)
    if outputs.html is None:
        assembly = assemble_geometries(source, reference, network, settings, start)
        outputs.write(assembly, source, reference)
        return assembly
    shown = assemble_geometries(source, reference, network, report_settings(settings), start)
    assembly = best_of(shown, settings.hypotheses)
    rows = report_rows(assembly, source, reference, network, settings, given=start is not None)
    log.info("writing")
    outputs.write(assembly, source, reference, rows, shown)
    return assembly


def show_pair(assembly: Assembly, outputs: Outputs, as_json: bool) -> None:
    """On standard output: for people, or one JSON object and nothing else."""
    if as_json:
        print(assembly.to_json())
    else:
        show(assembly, outputs.files())
