"""``bitr bench``: the speed of the model on this machine, as in BENCHMARK.md."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from bitr.evaluation import speed


def bench(quick: bool, as_json: bool) -> None:
    """Print a table as Markdown, row by row as it is measured, or everything as one JSON object."""
    print("measuring; the machine should have nothing else to do", file=sys.stderr)
    if as_json:
        models = [asdict(row) for row in speed.model_rows(quick)]
        print(json.dumps({"machine": speed.machine(quick), "models": models}))
        return
    for line in speed.machine_lines(speed.machine(quick)):
        print(line, flush=True)
    print()
    for line in speed.table_lines(speed.ModelRow.COLUMNS, (row.cells() for row in speed.model_rows(quick))):
        print(line, flush=True)
