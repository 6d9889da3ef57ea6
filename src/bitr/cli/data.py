"""``bitr data``: list the data sets, fetch them, make them, look at them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitr.cli import options
from bitr.cli.options import check_file, one_line, say, session
from bitr.errors import InputError, counted, require

if TYPE_CHECKING:
    from bitr.data.registry import SplitStats

HEAD = (
    "data set",
    "split",
    "pairs",
    "the paper's count",
    "points: source, reference",
    "overlap (quartiles)",
    "",
)

app = typer.Typer(
    help="List, fetch, make and show data sets.",
    epilog="example: bitr data list --stats",
    no_args_is_help=True,
)


@app.command("list", epilog="example: bitr data list --stats")
def list_all(
    stats: Annotated[bool, typer.Option("--stats", help="Open those that are here, and count.")] = False,
    json: options.Json = False,
    data_root: options.Root = None,
) -> None:
    """List the data sets, their terms, and whether they are here."""
    import json as json_format
    from dataclasses import asdict

    from bitr.data.fetch import TABLE
    from bitr.data.storage import data_root as find_root

    folder = find_root(data_root)
    if json:
        rows = [_describe(name, folder) for name in TABLE]
        for row in rows if stats else ():
            row["stats"] = [asdict(split) for split in _count(row["name"], folder)]
        print(json_format.dumps({"root": None if folder is None else str(folder), "data": rows}))
    elif stats:
        from bitr.evaluation.report import table_lines

        for line in table_lines(HEAD, (_cells(split) for name in TABLE for split in _count(name, folder))):
            print(line, flush=True)
    else:
        _print_table([_describe(name, folder) for name in TABLE], folder)


@app.command("fetch", epilog="example: bitr data fetch bunny --data-root data")
def fetch_one(
    name: options.Data,
    source: Annotated[
        str | None, typer.Option("--from", help="Another address, or an archive that is here already.")
    ] = None,
    sha256: Annotated[str | None, typer.Option(help="Checksum of the archive at that address.")] = None,
    data_root: options.Root = None,
) -> None:
    """Download a data set, check it and unpack it; an interrupted download continues where it stopped."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    from bitr.data.fetch import SOURCES, fetch
    from bitr.data.storage import VARIABLE
    from bitr.data.storage import data_root as find_root

    folder = find_root(data_root)
    if name not in SOURCES:
        from bitr.data import info  # raises for an unknown name, with the names there are

        raise InputError(f"{name}: nothing to fetch: {info(name).source}")
    if folder is None:
        raise InputError(f"{name}: where to? give --data-root FOLDER, or set the variable {VARIABLE}")
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(name, total=None)
        files = fetch(
            name, folder, source, sha256, lambda done, all: progress.update(task, completed=done, total=all)
        )
    size = sum(file.stat().st_size for file in files)
    say(f"{name}: {counted(len(files), 'file')}, {size / 1e6:.1f} MB, below {folder}")


@app.command("make", epilog="example: bitr data make shapes --pairs 100 -o pairs")
def make_some(
    name: options.Data,
    pairs: Annotated[int, typer.Option(help="Number of pairs.", min=1)],
    output: Annotated[Path, options.write_to("Folder to write; it must not have files yet.")],
    split: options.Split = "train",
    seed: options.Seed = 0,
    data_root: options.Root = None,
    verbose: options.Verbose = False,
) -> None:
    """Write pairs of a data set to files: clouds as npz, poses as text, and a manifest of all."""
    with session(verbose, counted=True) as on_row:
        from bitr.data import dataset
        from bitr.data.own import write_pairs

        found = dataset(name, split, data_root, seed)
        has = f"{name}: has {counted(len(found), 'pair')} for {split}"
        require(pairs <= len(found), f"{has}, expected --pairs of at most that")
        some = (found[i] for i in range(pairs))
        manifest = write_pairs(output, some, split, lambda done: on_row(done, pairs))
    say(f"wrote {counted(pairs, 'pair')}; listed in {manifest}")


@app.command("show", epilog="example: bitr data show indoor -o indoor.png")
def show_some(
    name: options.Data,
    output: Annotated[Path, options.write_to("Picture to write (.png).")],
    split: options.Split = "test",
    pairs: Annotated[int, typer.Option(help="Number of pairs.", min=1, max=100)] = 9,
    seed: options.Seed = 0,
    data_root: options.Root = None,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> None:
    """Draw pairs on one sheet: apart (source red, reference blue) and assembled (source yellow)."""
    check_file("--output", output, (".png",), force=force)
    with session(verbose):
        import numpy as np

        from bitr.data import dataset
        from bitr.show import write_sheet

        found = dataset(name, split, data_root, seed)
        rows = np.unique(np.linspace(0, len(found) - 1, pairs).round().astype(int))  # spread over the split
        title = f"{name}, {split}: {len(rows)} of {len(found)} pairs, apart and assembled"
        write_sheet(output, [found[int(i)] for i in rows], title, force=force)
    say(f"wrote {output}")


def _describe(name: str, root: Path | None) -> dict[str, Any]:
    from bitr.data.fetch import TABLE, is_here, size_on_disk
    from bitr.data.storage import SPLITS

    entry = TABLE[name]
    return {
        "name": name,
        "title": entry["title"],
        "section": entry.get("section", ""),
        "licence": entry["licence"],
        "here": is_here(name, root),
        "bytes": size_on_disk(name, root),
        "source": entry["source"],
        "splits": list(entry.get("splits", SPLITS)),
    }


def _count(name: str, root: Path | None) -> Iterator[SplitStats]:
    from bitr.data.registry import info, split_stats

    found = info(name)
    for split in found.splits if found.present(root) else ():
        pairs = found.open(split, root, 0)
        if len(pairs):
            yield split_stats(name, split, pairs)


def _cells(row: SplitStats) -> tuple[object, ...]:
    low, high = row.overlap_quartiles
    points, overlap = f"{row.source_points}, {row.reference_points}", f"{row.overlap:.2f}"
    paper = "" if row.paper_pairs is None else row.paper_pairs
    return row.name, row.split, row.pairs, paper, points, f"{overlap} ({low:.2f} to {high:.2f})", row.note


def _print_table(rows: list[dict[str, Any]], root: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "what", "in the paper", "here", "MB", "terms", box=None, pad_edge=False)
    for row in rows:
        size, here = f"{row['bytes'] / 1e6:.1f}" if row["bytes"] else "", "yes" if row["here"] else "no"
        cells = row["name"], row["title"], row["section"], here, size, row["licence"]
        table.add_row(*map(one_line, cells))
    console = Console(highlight=False, markup=False)
    console.print(table)
    missing = [row for row in rows if not row["here"]]
    if missing:
        where = root or "no folder: BITR_DATA is not set"
        console.print(f"\nTo get those that are not here (looked below {where}):")
    for row in missing:
        console.print(one_line(f"  {row['name']}: {row['source']}"), soft_wrap=True)
