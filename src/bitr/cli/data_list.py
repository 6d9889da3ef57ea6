"""The work of ``bitr data list``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bitr.cli.text import one_line
from bitr.data import DatasetInfo, data_root, datasets
from bitr.data.fetch import size_on_disk
from bitr.data.stats import SplitStats, split_stats

HEAD = "| data set | split | pairs | the paper's count | points: source, reference | overlap (quartiles) | |"


def list_data(root: Path | None, stats: bool, as_json: bool) -> None:
    """Print a table for people, Markdown with ``stats``, or one JSON object."""
    folder, infos = data_root(root), datasets()
    if as_json:
        rows = [_row(info, folder) for info in infos]
        for row, info in zip(rows, infos, strict=True):
            if stats:
                row["stats"] = [asdict(split) for split in _stats(info, folder)]
        print(json.dumps({"root": None if folder is None else str(folder), "data": rows}))
    elif stats:
        print(HEAD, "| --- | --- | --- | --- | --- | --- | --- |", sep="\n")
        for info in infos:
            for split in _stats(info, folder):
                print(_markdown(split), flush=True)
    else:
        _print_table([_row(info, folder) for info in infos], folder)


def _row(info: DatasetInfo, root: Path | None) -> dict[str, Any]:
    return {
        "name": info.name,
        "title": info.title,
        "section": info.section,
        "licence": info.licence,
        "here": info.present(root),
        "bytes": size_on_disk(info.name, root),
        "source": info.source,
        "splits": list(info.splits),
    }


def _stats(info: DatasetInfo, root: Path | None) -> Iterator[SplitStats]:
    if info.present(root):
        for split in info.splits:
            pairs = info.open(split, root, 0)
            if len(pairs):
                yield split_stats(info.name, split, pairs)


def _markdown(row: SplitStats) -> str:
    paper = "" if row.paper_pairs is None else f"{row.paper_pairs}"
    low, high = row.overlap_quartiles
    return (
        f"| {row.name} | {row.split} | {row.pairs} | {paper} | {row.source_points}, {row.reference_points} "
        f"| {row.overlap:.2f} ({low:.2f} to {high:.2f}) | {row.note} |"
    )


def _print_table(rows: list[dict[str, Any]], root: Path | None) -> None:
    table = Table("name", "what", "in the paper", "here", "MB", "terms", box=None, pad_edge=False)
    for row in rows:
        size = f"{row['bytes'] / 1e6:.1f}" if row["bytes"] else ""
        cells = (
            row["name"],
            row["title"],
            row["section"],
            "yes" if row["here"] else "no",
            size,
            row["licence"],
        )
        table.add_row(*(one_line(cell) for cell in cells))
    console = Console(highlight=False, markup=False)
    console.print(table)
    missing = [row for row in rows if not row["here"]]
    if missing:
        console.print(
            f"\nTo get those that are not here (looked below {root or 'no folder: BITR_DATA is not set'}):"
        )
    for row in missing:
        console.print(one_line(f"  {row['name']}: {row['source']}"), soft_wrap=True)
