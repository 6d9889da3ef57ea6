"""``bitr train``: train on a data set or on one's own pairs; go on after anything that stopped it."""

from __future__ import annotations

import json as json_format
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitr.cli.text import one_line

if TYPE_CHECKING:
    from bitr.training import TrainConfig

HELP = (
    "Train a model by CONFIG, a TOML file that states what differs from the defaults (--dump-config shows "
    "all).\n\nThe folder of the run gets the best weights on held-out pairs, the config, the log, curves and "
    "checkpoints. Under torchrun the same command trains on many processes and machines."
)
EXAMPLE = "example: bitr train configs/bunny.toml --set run.steps=2000 --out runs/bunny"

Config = Annotated[
    str | None,
    typer.Argument(help="TOML file, or the name of one that comes with bitr; without, the defaults."),
]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=V", help="Change a setting, as optimizer.rate=1e-3.")
]
Out = Annotated[Path | None, typer.Option(help="Folder of the run; by default runs/NAME of the config.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint, if there is one.")]
InitFrom = Annotated[str | None, typer.Option(help="Weights to start from: a shipped name or a path.")]
Compile = Annotated[bool, typer.Option("--compile", help="Compile the model first (worth it on a GPU).")]
Dump = Annotated[bool, typer.Option("--dump-config", help="Print the effective config and end.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="One plain line per record, for logs.")]
Json = Annotated[bool, typer.Option("--json", help="The result as one JSON object on standard output.")]


def run(
    config: Config = None,
    changes: Changes = None,
    out: Out = None,
    resume: Resume = False,
    init_from: InitFrom = None,
    compile: Compile = False,
    dump_config: Dump = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """The whole command; see HELP."""
    from bitr.settings import changed as with_changes
    from bitr.settings import from_file, from_mapping, to_toml
    from bitr.training.config import TrainConfig, config_file

    given = changes or []
    if config is None:
        settings = from_mapping(TrainConfig, with_changes({}, given), "--set")
    else:
        settings = from_file(TrainConfig, config_file(config), given)
    extra: dict[str, Any] = {"init_from": init_from} if init_from is not None else {}
    extra |= {"compile": True} if compile else {}
    settings = replace(settings, run=replace(settings.run, **extra))
    if dump_config:
        print(to_toml(settings), end="")
        return
    folder = (
        out if out is not None else Path("runs") / (Path(config).stem if config is not None else "default")
    )
    result = _train(settings, folder, resume, quiet)
    if result is not None:
        _say(result, folder, json)


def _train(settings: TrainConfig, folder: Path, resume: bool, quiet: bool) -> dict[str, Any] | None:
    """The result, or None in a process that does not lead."""
    import os

    from bitr.cli.train_display import display
    from bitr.training import TrainingError, train
    from bitr.training.state import PATTERN

    leads = int(os.environ.get("RANK", "0")) == 0
    try:
        with display(quiet or not leads or not sys.stderr.isatty()) as listener:
            result = train(settings, folder, resume=resume, listener=listener)
    except TrainingError as error:
        print(f"bitr: {one_line(str(error))}", file=sys.stderr)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        there = any((folder / "checkpoints").glob(PATTERN))
        what = "has a checkpoint, go on with --resume" if there else "has no checkpoint yet"
        if leads:
            print(f"bitr: stopped; {one_line(str(folder))} {what}", file=sys.stderr)
        raise
    return result if leads else None


def _say(result: dict[str, Any], folder: Path, as_json: bool) -> None:
    from bitr.data import is_name

    curves = _curves(folder, result["data"])
    if as_json:
        print(json_format.dumps(result))
        return
    val = result["val"]
    print(
        f"{result['data']}: held-out Δr mean {val['rotation_deg']:.1f}°, median {val['median_deg']:.1f}° "
        f"(chance 126.5°), displacement {val['displacement']:.3f} of the pair's size, at step "
        f"{result['best_step']} of {result['steps']}, {result['seconds'] / 60:.1f} minutes"
    )
    print(f"weights: {folder / 'model.safetensors'}" + (f"; curves: {curves}" if curves else ""))
    name = result["data"].partition(" ")[0]
    known = is_name(name)
    print(f"next: bitr {f'evaluate {folder} {name}' if known else f'assemble SRC REF --model {folder}'}")


def _curves(folder: Path, title: str) -> Path | None:
    from bitr.training.curves import draw_curves

    try:
        return draw_curves(folder, title)
    except ImportError:
        print('no curves.png: matplotlib is missing; pip install "bitr[viz]"', file=sys.stderr)
    except OSError as error:  # the weights are there: a picture that does not fit on the disk is no failure
        print(f"no curves.png: {error.strerror}", file=sys.stderr)
    return None
