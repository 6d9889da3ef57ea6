"""``bitr puzzle``: many pieces, the groups that belong together, and the pose of each piece."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitr.cli import options
from bitr.cli.options import PAGES, check_file, log, one_line, session
from bitr.errors import InputError

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
Picture = Annotated[Path | None, typer.Option(help="Write a picture (.png).")]
Seed = Annotated[int, typer.Option(help="Seed of the samples of meshes and of very large clouds.")]
Ray = Annotated[bool, typer.Option("--ray", help="Compare the pairs on Ray: at RAY_ADDRESS, or here.")]
Workers = Annotated[
    int | None,
    typer.Option(
        help="Pairs that are compared at a time on this machine; by default one per CPU. Not with --ray."
    ),
]
HERE = ("", "local", "auto", "localhost", "127.0.0.1")
"""Hosts of RAY_ADDRESS that are this machine."""


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
    named. While it works, the pairs that were compared are kept beside the first file that it is to write:
    the same command continues a run that was stopped, and --force starts again.
    """
    files = [path for path in (output, scene, html, picture) if path is not None]
    outputs = [("--output", output, (".json",)), ("--html", html, PAGES), ("--picture", picture, (".png",))]
    _check(pieces, outputs, scene, force=force)
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
            wanted = zip((output, scene, html, picture), writers, strict=True)
            named = {path: write for path, write in wanted if path is not None}
            _write_all(named, geometries, found, force=force)
    if json:
        print(found.to_json())
    else:
        _show(found, files)


def _check(
    pieces: list[Path],
    outputs: list[tuple[str, Path | None, tuple[str, ...]]],
    scene: Path | None,
    *,
    force: bool,
) -> None:
    """Raise when the files cannot be written, or would overwrite a piece or each other."""
    if len(pieces) < 2:
        raise InputError(f"got {len(pieces)} piece, expected 2 to 50 files")
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


def _check_processes(ray: bool, workers: int | None, *, kept: bool) -> None:
    """Raise when the pairs cannot be compared that way; pieces are ``kept`` where a file is to be written."""
    if workers is not None and workers < 1:
        raise InputError(f"workers = {workers}: expected at least 1")
    if ray and workers is not None:
        raise InputError("--workers is for this machine and --ray uses all CPUs of the cluster: give one")
    address = os.environ.get("RAY_ADDRESS", "")
    if ray and not kept and address.removeprefix("ray://").partition(":")[0] not in HERE:
        raise InputError(
            f"--ray at {address}: its machines read the pieces from a folder beside the output; give -o in a "
            "folder that they share"
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


def _write_all(
    writers: Mapping[Path, Callable[..., None]], pieces: Sequence[Geometry], found: Puzzle, *, force: bool
) -> None:
    """Write all files, or none: the same command continues after a failure, and refuses files that exist."""
    with ExitStack() as undo:
        for path, write in writers.items():
            write(path, pieces, found, force=force)
            undo.callback(path.unlink, missing_ok=True)
        undo.pop_all()


def _write_answer(path: Path, pieces: Sequence[Geometry], found: Puzzle, *, force: bool) -> None:
    from bitr.files import whole_file

    with whole_file(path, force=force) as temporary:
        temporary.write_text(found.to_json() + "\n", encoding="ascii")


def _write_scene(path: Path, pieces: Sequence[Geometry], found: Puzzle, *, force: bool) -> None:
    from bitr.io import write_scene
    from bitr.show.puzzle import set_apart

    moves = set_apart(pieces, found)
    parts = {
        f"{k}-{Path(piece.name).stem}": piece.moved(move)
        for k, (piece, move) in enumerate(zip(pieces, moves, strict=True), 1)
    }
    write_scene(path, parts, force=force)


def _show(found: Puzzle, written: list[Path]) -> None:
    """Print the answer for people."""
    from rich.console import Console
    from rich.table import Table

    from bitr.show.puzzle import tell_puzzle

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
    for sentence in tell_puzzle(found):
        console.print(one_line(sentence), soft_wrap=True)
    for warning in found.warnings:
        console.print(f"warning: {one_line(warning)}")
    for path in written:
        print(f"wrote {path}")
