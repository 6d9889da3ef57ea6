"""The work of ``bitr data fetch``, ``make`` and ``show``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

from bitr.cli.console import session
from bitr.cli.text import one_line
from bitr.data import data_root, dataset, info
from bitr.data.fetch import SOURCES, fetch
from bitr.data.own import write_pairs
from bitr.data.storage import VARIABLE
from bitr.errors import InputError
from bitr.files import check_target
from bitr.show import write_sheet


def fetch_data(name: str, url: str | None, sha256: str | None, root: Path | None) -> None:
    """Download and unpack, with a bar on a terminal; says what arrived."""
    folder = data_root(root)
    if info(name).name not in SOURCES:
        raise InputError(f"{name}: nothing to fetch: {info(name).source}")
    if folder is None:
        raise InputError(f"{name}: where to? give --data-root FOLDER, or set the variable {VARIABLE}")
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(name, total=None)
        files = fetch(
            name, folder, url, sha256, lambda done, total: progress.update(task, completed=done, total=total)
        )
    size = sum(file.stat().st_size for file in files)
    print(one_line(f"bitr: {name}: {len(files)} files, {size / 1e6:.1f} MB, below {folder}"), file=sys.stderr)


def make_data(name: str, n: int, out: Path, split: str, seed: int, root: Path | None) -> None:
    """Write the first n pairs of a data set as files."""
    pairs = dataset(name, split, root, seed)
    if n > len(pairs):
        raise InputError(f"{name}: has {len(pairs)} pairs for {split}, expected --n of at most that")
    with session(verbose=False, counted=True) as on_row:
        manifest = write_pairs(out, (pairs[i] for i in range(n)), split, lambda done: on_row(done, n))
    print(one_line(f"bitr: wrote {n} pairs; {manifest} lists them"), file=sys.stderr)


def show_data(name: str, output: Path, split: str, n: int, seed: int, root: Path | None, force: bool) -> None:
    """Draw n pairs, evenly spread over the split."""
    if output.suffix.lower() != ".png":
        raise InputError(f"{output}: writes no {output.suffix or 'file without a suffix'}, expected .png")
    check_target(output, force=force)
    pairs = dataset(name, split, root, seed)
    rows = np.unique(np.linspace(0, len(pairs) - 1, n).round().astype(int))
    title = f"{name}, {split}: {len(rows)} of {len(pairs)} pairs, apart and assembled"
    write_sheet(output, [pairs[int(i)] for i in rows], title, force=force)
    print(one_line(f"bitr: wrote {output}"), file=sys.stderr)
