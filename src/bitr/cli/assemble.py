"""``bitr assemble``: the pose of one pair, or of many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitr.cli import options
from bitr.cli.options import session
from bitr.errors import counted, require

EXAMPLE = "bitr assemble handle.ply mug.ply -o handle-in-place.ply --html report.html"

Pieces = Annotated[
    list[Path] | None,
    typer.Argument(metavar="SRC... REF", help="Clouds or meshes; the last one is the reference."),
]
Output = Annotated[
    Path | None,
    options.write_to(
        "One pair: write the pose (.txt, .json), or the source at full resolution, moved onto the reference "
        "(.ply, .pcd, .npz, .obj, .glb and others). A batch: write the table of results (.jsonl, .csv)."
    ),
]
Scene = Annotated[Path | None, typer.Option(help="Write the moved source and the reference to one file.")]
Init = Annotated[
    Path | None,
    typer.Option(
        help="Start from a rough pose (.txt with 4 rows of 4 numbers, or .json of an earlier answer), which "
        "is kept unless another is clearly better."
    ),
]
Hypotheses = Annotated[int, typer.Option(help="Return at most so many poses, best first.")]
Separate = Annotated[
    bool,
    typer.Option(
        "--separate",
        help="Bring pieces apart at the end that reach into each other; for closed meshes and clouds whose "
        "normals point outwards.",
    ),
]
Fix = Annotated[
    str | None,
    options.choose(
        "x|y|z", "Let the answer turn about this axis of the files alone, as for scans that are level."
    ),
]
TranslationOnly = Annotated[
    bool, typer.Option("--translation-only", help="Let the answer shift the source and not turn it.")
]
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="auto|RATIO",
        help="For pieces in different units: a length of the reference over that of the source, as 0.001 for "
        "millimetres onto metres, or auto to find it, where the pieces share a surface.",
    ),
]
Animate = Annotated[Path | None, typer.Option(help="Write a film of the assembly (.gif).")]
Manifest = Annotated[
    Path | None,
    typer.Option(
        help="Run a batch: .csv or .jsonl with source, reference and, if wanted, id on each row. Paths are "
        "relative to this file."
    ),
]
Ray = Annotated[bool, typer.Option("--ray", help="Run the batch on Ray: at RAY_ADDRESS, or on this machine.")]
Workers = Annotated[int | None, typer.Option(help="Pairs at a time with --ray; by default one per CPU.")]


def run(
    pieces: Pieces = None,
    output: Output = None,
    scene: Scene = None,
    model: options.Model = "default",
    method: options.Method = "auto",
    init: Init = None,
    hypotheses: Hypotheses = 1,
    separate: Separate = False,
    fast: options.Fast = False,
    points: options.Points = None,
    fix: Fix = None,
    translation_only: TranslationOnly = False,
    scale: Scale = None,
    seed: options.SampleSeed = 0,
    json: options.Json = False,
    html: options.Html = None,
    picture: options.Picture = None,
    animate: Animate = None,
    manifest: Manifest = None,
    ray: Ray = False,
    workers: Workers = None,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> int:
    """Find the motion that takes SRC onto REF, for any two files.

    With several sources, or with --manifest, run a batch: load the model once, give each pair a row in the
    table of results, and continue where an earlier run stopped; --force starts again. The exit status is 2
    if some pairs could not be assembled; their rows say why.
    """
    files, many = pieces or [], manifest is not None or len(pieces or []) > 2
    _check_files(files, manifest, output if many else None, many)
    one = any((scene, html, picture, animate, init))
    require(
        not (many and one),
        "--scene, --html, --picture, --animate and --init are for one pair, and this is a batch",
    )
    require(many or not ray, "--ray is for batches: give several sources, or a --manifest")
    require(ray or workers is None, "--workers goes with --ray")
    with session(verbose, counted=many) as on_row:  # torch takes a second to import: something is shown
        from bitr.assembly.assemble import Settings
        from bitr.assembly.batch import pair_sources, read_manifest
        from bitr.cli import answer

        settings = Settings(
            *(method, hypotheses, separate, fast, points, seed, fix, translation_only), _read_scale(scale)
        )
        if many:
            assert output is not None  # _check_files
            pairs = read_manifest(manifest) if manifest else pair_sources(files[:-1], files[-1])
            summary = answer.assemble_batch(
                pairs, output, model, settings, on_row, ray=ray, workers=workers, force=force
            )
        else:
            outputs = {"--output": output, "--scene": scene, "--html": html}
            outputs |= {"--picture": picture, "--animate": animate}
            assembly, written = answer.assemble_pair(files, outputs, model, settings, init, force=force)
    if many:
        answer.show_summary(summary, json)
        return 2 if summary.errors else 0
    if json:
        print(assembly.to_json())
    else:
        answer.show(assembly, written)
    return 0


def _check_files(files: list[Path], manifest: Path | None, table: Path | None, many: bool) -> None:
    """Raise when the inputs are not one pair or one list of pairs, or a batch has no table."""
    got = f"got {counted(len(files), 'file')}"
    require(manifest is not None or len(files) > 1, f"{got}, expected SRC... and REF, or a --manifest")
    require(manifest is None or not files, f"{got} and a --manifest, expected one or the other")
    require(table is not None or not many, "a batch needs a table of results to write, as -o results.jsonl")
    is_other = manifest is None or table is None or manifest.absolute() != table.absolute()
    require(is_other, f"{table}: is also the manifest; choose another name for the results")


def _read_scale(text: str | None) -> float | str | None:
    """The ratio as a number; ``Settings`` refuses what is no ratio."""
    try:
        return text if text is None else float(text)
    except ValueError:
        return text
