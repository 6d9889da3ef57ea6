"""Many pairs, from a list to the table of results."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bitr.app.batch import Summary, in_turn, run_batch
from bitr.app.manifest import Pair
from bitr.app.ray_batch import on_ray
from bitr.app.results import check_table
from bitr.assembly.assemble import Settings
from bitr.assembly.network import Network
from bitr.cli.console import Counter
from bitr.cli.outputs import same_file
from bitr.cli.text import one_line
from bitr.errors import InputError

log = logging.getLogger("bitr")


def run_many(
    pairs: Sequence[Pair],
    table: Path,
    model: str,
    settings: Settings,
    ray: bool,
    workers: int | None,
    force: bool,
    on_row: Counter,
) -> Summary:
    """Give every pair its row; the table is checked before any work is done."""
    check_table(table, force=force)
    if any(same_file(table, Path(name)) for pair in pairs for name in (pair.source, pair.reference)):
        raise InputError(f"{table}: is also an input; choose another name for the results")
    log.info("loading the model %s", model)
    network = Network.of(model)
    solver = on_ray(model, settings, workers) if ray else in_turn(network, settings)
    return run_batch(pairs, network, settings, table, solver=solver, force=force, on_row=on_row)


def show_summary(summary: Summary, as_json: bool) -> None:
    """A line on standard error; with ``as_json`` also an object on standard output."""
    bad = f", {summary.errors} could not be (their rows say why)" if summary.errors else ""
    earlier = f", {summary.resumed} of them earlier" if summary.resumed else ""
    print(
        one_line(
            f"bitr: {summary.ok} of {summary.pairs} pairs assembled{bad}{earlier}; wrote {summary.results}"
        ),
        file=sys.stderr,
    )
    if as_json:
        print(json.dumps(asdict(summary)))
