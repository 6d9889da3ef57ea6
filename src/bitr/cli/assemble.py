"""``bitr assemble``: the pose of one pair, or of many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitr.errors import InputError

HELP = (
    "The motion that takes SRC onto REF, for any two files.\n\n"
    "With several sources, or with --manifest, a batch: the model is loaded once, each pair gets a row in "
    "the table of results, and the same command again continues where it stopped. Its exit status is 2 if "
    "some pairs could not be assembled; their rows say why."
)
EXAMPLE = "example: bitr assemble handle.ply mug.ply -o handle-in-place.ply --html report.html"

Pieces = Annotated[
    list[Path] | None,
    typer.Argument(metavar="SRC... REF", help="Clouds or meshes; the last one is the reference."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="One pair: the pose (.txt, .json), or the source at full resolution, moved onto the reference "
        "(.ply, .pcd, .npz, .obj, .glb and others). A batch: the table of results (.jsonl, .csv).",
    ),
]
Scene = Annotated[Path | None, typer.Option(help="The moved source and the reference in one file.")]
Model = Annotated[str, typer.Option(help="Name of weights that come with bitr, or path of a checkpoint.")]
Method = Annotated[
    str,
    typer.Option(
        metavar="auto|overlap|seam|touch|model",
        help="How the pieces join. auto tries all that the weights are for and takes what is most likely: "
        "surfaces that overlap, open borders that meet, pieces that touch, or the model's pose as it is.",
    ),
]
Init = Annotated[
    Path | None,
    typer.Option(
        help="A rough pose (.txt with 4 rows of 4 numbers, or .json of an earlier answer), which is kept "
        "unless another is clearly better."
    ),
]
Fast = Annotated[bool, typer.Option("--fast", help="One forward pass of the model, and its pose as it is.")]
Hypotheses = Annotated[int, typer.Option(help="How many poses to return at most, best first.")]
Separate = Annotated[
    bool,
    typer.Option(
        "--separate",
        help="At the end bring pieces apart that reach into each other; for closed meshes and clouds whose "
        "normals point outwards.",
    ),
]
Points = Annotated[
    int | None,
    typer.Option(
        help="Points of each cloud that the model sees; by default as many as the weights are for, or 1000."
    ),
]
Seed = Annotated[int, typer.Option(help="Of the sampling of meshes and of very large clouds.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else there.")]
Html = Annotated[Path | None, typer.Option(help="Write a report that opens in any browser.")]
Picture = Annotated[Path | None, typer.Option(help="Write a picture (.png).")]
Animate = Annotated[Path | None, typer.Option(help="Write a film of the assembly (.gif).")]
Manifest = Annotated[
    Path | None,
    typer.Option(
        help="A batch: .csv or .jsonl with source, reference and, if wanted, id on each row. "
        "Paths are relative to this file."
    ),
]
Ray = Annotated[bool, typer.Option("--ray", help="Run the batch on Ray: at RAY_ADDRESS, or on this machine.")]
Workers = Annotated[int | None, typer.Option(help="With --ray: how many at a time; by default one per CPU.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite outputs; start a batch again.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log each step, and where an error came from.")
]


def run(
    pieces: Pieces = None,
    output: Output = None,
    scene: Scene = None,
    model: Model = "default",
    method: Method = "auto",
    init: Init = None,
    hypotheses: Hypotheses = 1,
    separate: Separate = False,
    fast: Fast = False,
    points: Points = None,
    seed: Seed = 0,
    json: Json = False,
    html: Html = None,
    picture: Picture = None,
    animate: Animate = None,
    manifest: Manifest = None,
    ray: Ray = False,
    workers: Workers = None,
    force: Force = False,
    verbose: Verbose = False,
) -> int:
    """One pair or a batch; returns the exit status."""
    from bitr.cli.console import session

    files = pieces or []
    many = manifest is not None or len(files) > 2
    _check_usage(len(files), manifest, output, many, (scene, html, picture, animate, init), ray, workers)
    with session(
        verbose, counted=many
    ) as on_row:  # torch takes a second to import: inside, something is shown
        from bitr.assembly.assemble import Settings

        settings = Settings(method, hypotheses, separate, fast, points, seed)
        if many:
            from bitr.app.manifest import read_manifest, several_sources
            from bitr.cli.many import run_many, show_summary

            assert output is not None  # _check_usage
            pairs = read_manifest(manifest) if manifest else several_sources(files[:-1], files[-1])
            summary = run_many(pairs, output, model, settings, ray, workers, force, on_row)
        else:
            from bitr.cli.outputs import Outputs
            from bitr.cli.pair import run_pair, show_pair

            outputs = Outputs(files[0], files[1], output, scene, html, picture, force, animate)
            assembly = run_pair(outputs, model, settings, init)
    if many:
        show_summary(summary, json)
        return 2 if summary.errors else 0
    show_pair(assembly, outputs, json)
    return 0


def _check_usage(
    files: int,
    manifest: Path | None,
    output: Path | None,
    many: bool,
    for_one: tuple[Path | None, ...],
    ray: bool,
    workers: int | None,
) -> None:
    """Raise when options do not go together."""
    if manifest is None and files < 2:
        raise InputError(f"got {files} files, expected SRC... and REF, or a --manifest")
    if manifest is not None and files:
        raise InputError(f"got {files} files and a --manifest, expected one or the other")
    if many and output is None:
        raise InputError("a batch needs a table of results to write, as -o results.jsonl")
    if manifest is not None and output is not None and manifest.absolute() == output.absolute():
        raise InputError(f"{output}: is also the manifest; choose another name for the results")
    if many and any(for_one):
        raise InputError(
            "--scene, --html, --picture, --animate and --init are for one pair, and this is a batch"
        )
    if ray and not many:
        raise InputError("--ray is for batches: give several sources, or a --manifest")
    if workers is not None and not ray:
        raise InputError("--workers goes with --ray")
