"""Brings measured tables into benchmarks/tables and BENCHMARK.md.

From the root of the repository:

    bitr reproduce engine -o reproduced                    # or laws, speed, toy, all and others
    python -m benchmarks.tables reproduced/tables/*.md
    python -m benchmarks.tables results/evaluation.json    # a row of the engine, by bitr evaluate -o results
    python -m benchmarks.tables                            # after a change of benchmarks/tables by hand

A row takes the place of the one with the same first cell; the others stay.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from bitr.evaluation.tables import HEADS, cells_of, engine_row, write_table

ROOT = Path(__file__).parents[1]
KEPT, DOCUMENT = ROOT / "benchmarks" / "tables", ROOT / "BENCHMARK.md"
SHOWN = re.compile(r"(?P<mark><!-- benchmarks/tables/(?P<name>[\w-]+)\.md -->\n\n)(?P<table>(?:\|.*\|\n)+)")
"""A table in BENCHMARK.md, below the name of its file."""


def take(path: Path, kept: Path = KEPT) -> None:
    """Take the rows of a table, or of an evaluation, over into the table that is kept."""
    if path.suffix == ".json":
        found = json.loads(path.read_text(encoding="utf-8"))
        write_table(kept, "engine", HEADS["engine"], [engine_row(found)])
    else:
        head, *rows = cells_of(path.read_text(encoding="utf-8"))
        write_table(kept, path.stem, head, rows)


def shown(document: str) -> dict[str, str]:
    """The tables of the document by the names of their files."""
    return {found["name"]: found["table"] for found in SHOWN.finditer(document)}


def body(name: str, kept: Path = KEPT) -> str:
    """A table that is kept, without the line of its command."""
    return (kept / f"{name}.md").read_text(encoding="utf-8").partition("\n")[2]


def insert(document: str, kept: Path = KEPT) -> str:
    """The document with its tables as they are kept."""
    return SHOWN.sub(lambda found: found["mark"] + body(found["name"], kept), document)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="*")
    for path in parser.parse_args().files:
        take(path)
    DOCUMENT.write_text(insert(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
