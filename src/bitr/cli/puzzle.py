"""``bitr puzzle``: many pieces, the groups that belong together, and the pose of each piece."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitr.cli import options
from bitr.cli.options import PAGES, check_file, log, one_line, session
from bitr.errors import InputError

if TYPE_CHECKING:
    from bitr.assembly.puzzle import Puzzle

EXAMPLE = "bitr puzzle sherd-*.ply -o poses.json --scene pot.glb --html report.html"

Pieces = Annotated[list[Path], typer.Argument(metavar="PIECES...", help="Clouds or meshes, 2 to 50 files.")]
Output = Annotated[
    Path | None,
    options.write_to(
        "Write the whole answer (.json): poses, groups, what is left over, confidences and joints. "
        "A run that was stopped continues where it stopped when the same command is given again."
    ),
]
Scene = Annotated[
    Path | None, typer.Option(help="Write all pieces in place to one file (.glb, .obj, .ply and others).")
]
Picture = Annotated[Path | None, typer.Option(help="Write a picture (.png).")]
Seed = Annotated[int, typer.Option(help="Seed of the samples of meshes and of very large clouds.")]
Ray = Annotated[bool, typer.Option("--ray", help="Compare the pairs on Ray: at RAY_ADDRESS, or here.")]
Workers = Annotated[
    int | None,
    typer.Option(help="Pairs that are compared at a time on this machine; by default one per CPU."),
]


def run(
    pieces: Pieces,
    output: Output = None,
    scene: Scene = None,
    html: options.Html = None,
    picture: Picture = None,
    model: options.Model = "default",
    points: options.Points = None,
    seed: Seed = 0,
    ray: Ray = False,
    workers: Workers = None,
    json: options.Json = False,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> None:
    """Put many pieces together: find which belong together and the pose of each.

    Poses are in the frame of the largest piece of each group. Pieces that do not belong are left over, and
    named. While it works, the pairs that were compared are kept beside --output.
    """
    outputs = [("--output", output, (".json",)), ("--html", html, PAGES), ("--picture", picture, (".png",))]
    _check(pieces, outputs, scene, workers, force=force)
    with session(verbose, counted=True) as on_row:  # torch takes a second to import: something is shown
        from bitr.assembly.puzzle import Workshop, solve_puzzle
        from bitr.files import whole_file
        from bitr.io import read, write_scene
        from bitr.show.puzzle import set_apart, write_puzzle_page, write_puzzle_png

        geometries = [read(path) for path in pieces]
        with _workshop_folder(output, force=force) as folder:
            count = workers if workers is not None else os.cpu_count() or 1
            found = solve_puzzle(geometries, Workshop(folder, model, points, seed, count, ray, on_row))
            log.info("writing")
            if output is not None:
                with whole_file(output, force=force) as temporary:
                    temporary.write_text(found.to_json() + "\n", encoding="ascii")
        if scene is not None:
            moves = set_apart(geometries, found)
            parts = {
                f"{k + 1}-{path.stem}": piece.moved(move)
                for k, (path, piece, move) in enumerate(zip(pieces, geometries, moves, strict=True))
            }
            write_scene(scene, parts, force=force)
        if html is not None:
            write_puzzle_page(html, geometries, found, force=force)
        if picture is not None:
            write_puzzle_png(picture, geometries, found, force=force)
    if json:
        print(found.to_json())
    else:
        _show(found, [path for path in (output, scene, html, picture) if path is not None])


def _check(
    pieces: list[Path],
    outputs: list[tuple[str, Path | None, tuple[str, ...]]],
    scene: Path | None,
    workers: int | None,
    *,
    force: bool,
) -> None:
    """Raise when the files cannot be written, or would overwrite a piece or each other."""
    if len(pieces) < 2:
        raise InputError(f"got {len(pieces)} piece, expected 2 to 50 files")
    if workers is not None and workers < 1:
        raise InputError(f"workers = {workers}: expected at least 1")
    from bitr.io import SUFFIXES

    taken = [path.absolute() for path in pieces]
    if len(set(taken)) < len(taken):
        twice = next(path for path in pieces if taken.count(path.absolute()) > 1)
        raise InputError(f"{twice}: is named twice among the pieces")
    for name, target, suffixes in [*outputs, ("--scene", scene, SUFFIXES.write)]:
        if target is None:
            continue
        if target.absolute() in taken:
            raise InputError(f"{target}: is named twice, as {name} and as another file; choose another name")
        check_file(name, target, suffixes, force=force)
        taken.append(target.absolute())
        if name == "--picture" and find_spec("matplotlib") is None:
            raise InputError('--picture needs matplotlib: pip install -e ".[viz]" in the clone')


@contextmanager
def _workshop_folder(output: Path | None, *, force: bool) -> Iterator[Path]:
    """The folder where pairs are kept while the puzzle is solved: beside the output, else a temporary one.

    It is removed when all is done, and stays when the work is stopped.
    """
    if output is None:
        with tempfile.TemporaryDirectory(prefix="bitr-puzzle-") as temporary:
            yield Path(temporary)
        return
    folder = output.with_name(output.name + ".pairs")
    if force and folder.is_dir():
        shutil.rmtree(folder)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); choose another --output") from error
    yield folder
    shutil.rmtree(folder)


def _show(found: Puzzle, written: list[Path]) -> None:
    """Print the answer for people."""
    from rich.console import Console
    from rich.table import Table

    group = {k: number for number, members in enumerate(found.groups, 1) for k in members}
    table = Table(box=None, pad_edge=False)
    for name, side in (("piece", "left"), ("place", "left"), ("confidence", "right"), ("joined to", "left")):
        table.add_column(name, justify="right" if side == "right" else "left", overflow="fold")
    for k, name in enumerate(found.names):
        beside = [j.second if j.first == k else j.first for j in found.joints if k in (j.first, j.second)]
        place = f"group {group[k]}" if k in group else "left over"
        place += ", its frame" if any(k == members[0] for members in found.groups) else ""
        joined = ", ".join(Path(found.names[n]).name for n in beside)
        table.add_row(one_line(Path(name).name), place, f"{found.confidence[k]:.0%}", one_line(joined))
    console = Console(markup=False, highlight=False)
    console.print(table)
    for warning in found.warnings:
        console.print(f"warning: {one_line(warning)}")
    for path in written:
        print(f"wrote {path}")
