"""``bitr data``: what data sets there are, getting them, making them, looking at them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Data sets: what there is, getting it, generating it.",
    epilog="example: bitr data list --stats",
    no_args_is_help=True,
)
Root = Annotated[
    Path | None,
    typer.Option(
        "--data-root", help="The folder of data sets; by default what the variable BITR_DATA names."
    ),
]
Split = Annotated[str, typer.Option(help="train, val or test.")]
Seed = Annotated[int, typer.Option(help="Another seed samples and moves the pairs anew.", min=0)]


@app.command("list", epilog="example: bitr data list --stats")
def list_all(
    stats: Annotated[bool, typer.Option("--stats", help="Also open those that are here and count.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
    data_root: Root = None,
) -> None:
    """What data sets there are, their terms, and whether they are here."""
    from bitr.cli.data_list import list_data

    list_data(data_root, stats, json)


@app.command("fetch", epilog="example: bitr data fetch bunny --data-root data")
def fetch_one(
    name: Annotated[str, typer.Argument(help="The name of a data set, as bitr data list shows it.")],
    source: Annotated[
        str | None, typer.Option("--from", help="Another address, or an archive that is here already.")
    ] = None,
    sha256: Annotated[str | None, typer.Option(help="What the archive at that address must have.")] = None,
    data_root: Root = None,
) -> None:
    """Download a data set, check it and unpack it; what was interrupted goes on where it stopped."""
    from bitr.cli.data_files import fetch_data

    fetch_data(name, source, sha256, data_root)


@app.command("make", epilog="example: bitr data make shapes --n 100 --out pairs")
def make_some(
    name: Annotated[str, typer.Argument(help="shapes, mug-hanging or bowl-placing; any other is copied.")],
    n: Annotated[int, typer.Option(help="How many pairs.", min=1)],
    out: Annotated[Path, typer.Option(help="The folder to write; it must not have files yet.")],
    split: Split = "train",
    seed: Seed = 0,
    data_root: Root = None,
) -> None:
    """Write generated pairs to files: clouds as npz, poses as text, and a manifest of all."""
    from bitr.cli.data_files import make_data

    make_data(name, n, out, split, seed, data_root)


@app.command("show", epilog="example: bitr data show indoor -o indoor.png")
def show_some(
    name: Annotated[str, typer.Argument(help="A data set, or a folder or manifest of pairs.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture to write, a png file.")],
    split: Split = "test",
    n: Annotated[int, typer.Option(help="How many pairs.", min=1, max=100)] = 9,
    seed: Seed = 0,
    data_root: Root = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the picture if it exists.")] = False,
) -> None:
    """A contact sheet: pairs apart (source red, reference blue) and assembled (source yellow)."""
    from bitr.cli.data_files import show_data

    show_data(name, output, split, n, seed, data_root, force)
