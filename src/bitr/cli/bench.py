"""``bitr bench``: the speed of the model on this machine, as in BENCHMARK.md."""

from __future__ import annotations

from typing import Annotated

import typer

from bitr.cli import options
from bitr.cli.options import say

EXAMPLE = "bitr bench --quick --json"

Quick = Annotated[bool, typer.Option("--quick", help="Measure fewer sizes, in under a minute.")]


def run(quick: Quick = False, json: options.Json = False) -> None:
    """Measure the speed of the model on this machine, in units of a matrix product."""
    import json as json_format
    from dataclasses import asdict

    from bitr.evaluation import speed
    from bitr.evaluation.report import table_lines

    say("measuring; the machine should have nothing else to do")
    if json:
        models = [asdict(row) for row in speed.model_rows(quick)]
        print(json_format.dumps({"machine": speed.machine(quick), "models": models}))
        return
    for line in speed.machine_lines(speed.machine(quick)):
        print(line, flush=True)
    print()
    for line in table_lines(speed.ModelRow.COLUMNS, (row.cells() for row in speed.model_rows(quick))):
        print(line, flush=True)
