"""``bitr bench``: the speed and memory tables of BENCHMARK.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator

from bitr.evaluation.speed import tables


def bench(quick: bool, as_json: bool) -> None:
    """Print the tables as Markdown, row by row as they are measured, or everything as one JSON object."""
    print("measuring; the machine should have nothing else to do", file=sys.stderr)
    if as_json:
        print(json.dumps(tables.report(quick)))
        return
    for line in _lines(quick):
        print(line, flush=True)


def _lines(quick: bool) -> Iterator[str]:
    for key, value in tables.machine(quick).items():
        yield f"- {key.replace('_', ' ')}: {f'{value:.1f}' if isinstance(value, float) else value}"
    for table in tables.TABLES:
        yield ""
        yield _line(table.columns)
        yield _line(["---"] * len(table.columns))
        for row in table.rows(quick):
            yield _line(row.cells())
    yield ""
    yield from tables.notes()


def _line(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
