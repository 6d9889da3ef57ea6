"""``bitr puzzle``: many pieces, the groups that belong together, and the pose of each piece."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitr.cli import options
from bitr.cli.options import PAGES, check_files, log, one_line, session
from bitr.errors import InputError, require
from bitr.files import write_text

if TYPE_CHECKING:
    from bitr.assembly.puzzle import Puzzle
    from bitr.io import Geometry

EXAMPLE = "bitr puzzle sherd-*.ply -o poses.json --scene pot.glb --html report.html"

Pieces = Annotated[list[Path], typer.Argument(metavar="PIECES...", help="Clouds or meshes, 2 to 50 files.")]
Output = Annotated[
    Path | None,
    options.write_to(
        "Write the whole answer (.json): poses, groups, what is left over, confidences and joints."
    ),
]
Scene = Annotated[
    Path | None, typer.Option(help="Write all pieces in place to one file (.glb, .obj, .ply and others).")
]
Ray = Annotated[bool, typer.Option("--ray", help="Compare the pairs on Ray: at RAY_ADDRESS, or here.")]
Workers = Annotated[
    int | None,
    typer.Option(
        help="Pairs that are compared at a time on this machine; by default one per CPU. Not with --ray."
    ),
]
HERE = ("", "local", "auto", "localhost", "127.0.0.1")  # hosts of RAY_ADDRESS that are this machine


def run(
    pieces: Pieces,
    output: Output = None,
    scene: Scene = None,
    html: options.Html = None,
    picture: options.Picture = None,
    model: options.Model = "default",
    points: options.Points = None,
    seed: options.SampleSeed = 0,
    ray: Ray = False,
    workers: Workers = None,
    json: options.Json = False,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> None:
    """Put many pieces together: find which belong together and the pose of each.

    Poses are in the frame of the largest piece of the first group. Pieces that do not belong are left over,
    and named. While it works, the pairs that were compared are kept beside the first file that it is to
    write: the same command continues a run that was stopped, and --force starts again.
    """
    require(len(pieces) > 1, f"got {len(pieces)} piece, expected 2 to 50 files")
    from bitr.io import SUFFIXES

    places = [path.absolute() for path in pieces]
    twice = [path for path in pieces if places.count(path.absolute()) > 1]
    require(not twice, f"{(twice or pieces)[0]}: is named twice among the pieces")
    outputs = {
        "--output": (output, (".json",)),
        "--scene": (scene, SUFFIXES.write),
        "--html": (html, PAGES),
        "--picture": (picture, (".png",)),
    }
    files = check_files(pieces, outputs, force=force)
    _check_processes(ray, workers, kept=bool(files))
    with session(verbose, counted=True) as on_row:  # torch takes a second to import: something is shown
        from bitr.assembly.puzzle import Workshop, solve_puzzle
        from bitr.io import read
        from bitr.show.puzzle import write_puzzle_page, write_puzzle_png

        geometries = [read(path) for path in pieces]
        with _workshop_folder(files[0] if files else None, force=force) as folder:
            count = workers if workers is not None else os.cpu_count() or 1
            found = solve_puzzle(geometries, Workshop(folder, model, points, seed, count, ray, on_row))
            log.info("writing")
            writers = (_write_answer, _write_scene, write_puzzle_page, write_puzzle_png)
            with ExitStack() as undo:  # all files or none: the same command continues after a failure
                for path, write in zip((output, scene, html, picture), writers, strict=True):
                    if path is not None:
                        write(path, geometries, found, force=force)
                        undo.callback(path.unlink, missing_ok=True)
                undo.pop_all()
    if json:
        print(found.to_json())
    else:
        _show(found, files)


def _check_processes(ray: bool, workers: int | None, *, kept: bool) -> None:
    """Raise when the pairs cannot be compared that way; pieces are ``kept`` where a file is to be written."""
    require(workers is None or workers > 0, f"workers = {workers}: expected at least 1")
    is_one = not ray or workers is None
    require(is_one, "--workers is for this machine and --ray uses all CPUs of the cluster: give one")
    address = os.environ.get("RAY_ADDRESS", "")
    is_here = address.removeprefix("ray://").partition(":")[0] in HERE
    require(
        kept or is_here or not ray,
        f"--ray at {address}: its machines read the pieces from a folder beside the output; give -o in a "
        "folder that they share",
    )


@contextmanager
def _workshop_folder(file: Path | None, *, force: bool) -> Iterator[Path]:
    """The folder where pairs are kept while the puzzle is solved: beside a file, else a temporary one.

    It is removed when all is done and written, and stays when the work is stopped.
    """
    if file is None:
        with tempfile.TemporaryDirectory(prefix="bitr-puzzle-") as temporary:
            yield Path(temporary)
        return
    folder = file.with_name(file.name + ".pairs")
    if force and folder.is_dir():
        shutil.rmtree(folder)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); choose another name") from error
    yield folder
    shutil.rmtree(folder)


def _write_answer(path: Path, pieces: Sequence[Geometry], found: Puzzle, *, force: bool) -> None:
    write_text(path, found.to_json() + "\n", force=force)


def _write_scene(path: Path, pieces: Sequence[Geometry], found: Puzzle, *, force: bool) -> None:
    from bitr.io import write_scene
    from bitr.show.puzzle import set_apart

    placed = zip(pieces, set_apart(pieces, found), strict=True)
    parts = {f"{k}-{Path(p.name).stem}": p.moved(move) for k, (p, move) in enumerate(placed, 1)}
    write_scene(path, parts, force=force)


def _show(found: Puzzle, written: list[Path]) -> None:
    """Print the answer for people."""
    from rich.console import Console
    from rich.table import Table

    from bitr.show.puzzle import tell_puzzle

    group = {k: number for number, members in enumerate(found.groups, 1) for k in members}
    table = Table(box=None, pad_edge=False)
    for name in ("piece", "place", "confidence", "joined to"):
        table.add_column(name, justify="right" if name == "confidence" else "left", overflow="fold")
    for k, name in enumerate(found.names):
        beside = [j.second if j.first == k else j.first for j in found.joints if k in (j.first, j.second)]
        place = f"group {group[k]}" if k in group else "left over"
        place += ", its frame" if found.groups and k == found.largest else ""
        joined = ", ".join(Path(found.names[n]).name for n in beside)
        table.add_row(one_line(Path(name).name), place, f"{found.confidence[k]:.0%}", one_line(joined))
    console = Console(markup=False, highlight=False)
    console.print(table)
    for sentence in tell_puzzle(found):
        console.print(one_line(sentence), soft_wrap=True)
    for warning in found.warnings:
        console.print(f"warning: {one_line(warning)}")
    for path in written:
        print(f"wrote {path}")
