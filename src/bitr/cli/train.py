"""``bitr train``: train on a data set or on one's own pairs; go on after anything that stopped it."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitr.cli import options
from bitr.cli.options import Counter, log, one_line, say, session

if TYPE_CHECKING:
    from bitr.training.folder import Record

EXAMPLE = "bitr train configs/bunny.toml --set run.steps=2000 -o runs/bunny"

Config = Annotated[
    str | None,
    typer.Argument(
        help="TOML file, or the name of one that comes with bitr; without, the defaults.",
        autocompletion=options.offer(options.list_configs),
    ),
]
Output = Annotated[Path | None, options.write_to("Folder of the run; by default runs/NAME of the config.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the newest checkpoint, if any.")]
InitFrom = Annotated[str | None, options.take_model("Start from these weights, by name or path.")]
Compile = Annotated[bool, typer.Option("--compile", help="Compile the model first (worth it on a GPU).")]
Dump = Annotated[bool, typer.Option("--dump-config", help="Print the effective config and end.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print one plain line per record, for logs.")]


def run(
    config: Config = None,
    changes: options.Changes = None,
    output: Output = None,
    resume: Resume = False,
    init_from: InitFrom = None,
    compile: Compile = False,
    dump_config: Dump = False,
    quiet: Quiet = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Train a model by CONFIG, a TOML file that states what differs from the defaults (see --dump-config).

    The folder of the run gets the best weights on held-out pairs, the config, the log, curves and
    checkpoints. Under torchrun the same command trains on many processes and machines.
    """
    from bitr.settings import apply_changes, from_file, from_mapping, to_toml
    from bitr.training.config import TrainConfig, config_file

    if config is None:
        settings = from_mapping(TrainConfig, apply_changes({}, changes or []), "--set")
    else:
        settings = from_file(TrainConfig, config_file(config), changes or [])
    extra: dict[str, Any] = {} if init_from is None else {"init_from": init_from}
    extra |= {"compile": True} if compile else {}
    settings = replace(settings, run=replace(settings.run, **extra))
    if dump_config:
        print(to_toml(settings), end="")
        return
    folder = output or Path("runs") / (Path(config).stem if config is not None else "default")
    leads = int(os.environ.get("RANK", "0")) == 0
    plain = quiet or not leads or not sys.stderr.isatty()
    with session(verbose, counted=True) if verbose or not plain else nullcontext() as bar:
        from bitr.training import TrainingError, train

        listener = Records(None if plain or verbose else bar)
        try:
            result = train(settings, folder, resume=resume, listener=listener)
        except TrainingError as error:
            say(str(error))
            raise typer.Exit(1) from error
        except KeyboardInterrupt:
            there = any((folder / "checkpoints").glob("step-*.safetensors"))
            what = "has a checkpoint, go on with --resume" if there else "has no checkpoint yet"
            if leads:
                say(f"stopped; {folder} {what}")
            raise
    if leads:
        _report(result, folder, json)


def _report(result: dict[str, Any], folder: Path, as_json: bool) -> None:
    """Draw the curves, and print the result and what to do next."""
    import json

    from bitr.data import is_name

    curves = _draw_curves(folder, result["data"])
    if as_json:
        print(json.dumps(result))
        return
    val = result["val"]
    print(
        f"{result['data']}: held-out Δr mean {val['rotation_deg']:.1f}°, median {val['median_deg']:.1f}° "
        f"(chance 126.5°), displacement {val['displacement']:.3f} of the pair's size, at step "
        f"{result['best_step']} of {result['steps']}, {result['seconds'] / 60:.1f} minutes"
    )
    print(f"weights: {folder / 'model.safetensors'}" + (f"; curves: {curves}" if curves else ""))
    name = result["data"].partition(" ")[0]
    step = f"evaluate {folder} {name}" if is_name(name) else f"assemble SRC REF --model {folder}"
    print(f"next: bitr {step}")


def _draw_curves(folder: Path, title: str) -> Path | None:
    from bitr.training.folder import draw_curves

    try:
        return draw_curves(folder, title)
    except ImportError:
        print('no curves.png: matplotlib is missing; pip install -e ".[viz]" in the clone', file=sys.stderr)
    except OSError as error:  # the weights are there: a picture that does not fit on the disk is no failure
        print(f"no curves.png: {error.strerror}", file=sys.stderr)
    return None


class Records:
    """Shows a run on standard error: each record as a line, or only validations above a bar."""

    def __init__(self, bar: Counter | None) -> None:
        self.bar, self.steps = bar, 0

    def started(self, step: int, steps: int, data: str) -> None:
        self.steps = steps
        self.noted(data)
        if step:
            self.noted(f"going on from step {step} of {steps}")

    def recorded(self, record: Record) -> None:
        text = (
            f"loss {record.loss:.3f}  Δr {record.rotation_deg:.1f}°  "
            f"displacement {record.displacement:.3f} of the pair's size  "
            f"{record.samples_per_second:.1f} pairs/s"
        )
        if self.bar is not None:
            self.bar(record.step, self.steps)
            log.info(text)
        if record.val_loss is not None:
            text += (
                f"  held out: loss {record.val_loss:.3f}  Δr {record.val_rotation_deg:.1f}° "
                f"(median {record.val_median_deg:.1f}°)  "
                f"displacement {record.val_displacement:.3f} of the pair's size"
            )
        if self.bar is None or record.val_loss is not None:
            self.noted(f"step {record.step}  {record.seconds:.0f} s  {text}")

    def noted(self, text: str) -> None:
        with suppress(OSError):  # the terminal may be gone, and training goes on to its checkpoint
            print(one_line(text), file=sys.stderr, flush=True)
