"""One pair, from two files to the files that were asked for."""

from __future__ import annotations

import logging

from bitr.assembly.assemble import assemble_geometries
from bitr.assembly.assemble import Assembly
from bitr.assembly.network import Network
from bitr.app.report_rows import report_rows
from bitr.assembly.assemble import Settings
from bitr.cli.outputs import Outputs
from bitr.cli.show import show
from bitr.io import read

log = logging.getLogger("bitr")


def run_pair(outputs: Outputs, model: str, settings: Settings) -> Assembly:
    """The assembly of the two inputs; outputs are checked before any work is done, and written."""
    outputs.check()
    log.info("loading the model %s", model)
    network = Network.of(model)
    log.info("reading %s", outputs.source)
    source = read(outputs.source)
    log.info("reading %s", outputs.reference)
    reference = read(outputs.reference)
    assembly = assemble_geometries(source, reference, network, settings)
    rows = report_rows(assembly, source, reference, network, settings) if outputs.html is not None else []
    log.info("writing")
    outputs.write(assembly, source, reference, rows)
    return assembly


def show_pair(assembly: Assembly, outputs: Outputs, as_json: bool) -> None:
    """On standard output: for people, or one JSON object and nothing else."""
    if as_json:
        print(assembly.to_json())
    else:
        show(assembly, outputs.files())
