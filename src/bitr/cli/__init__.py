"""The ``bitr`` command. What is heavy is imported inside the subcommands, so that help comes at once."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from bitr import __version__
from bitr.cli import assemble, calibrate, certify, data, evaluate, reproduce, train, view
from bitr.cli.text import one_line
from bitr.errors import InputError

UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer has it from click, or as its own copy

app = typer.Typer(
    name="bitr",
    help="Point cloud assembly that moves with the pieces.",
    epilog="example: bitr assemble handle.ply mug.ply --json",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("assemble", help=assemble.HELP, epilog=assemble.EXAMPLE)(assemble.run)
app.command("calibrate", help=calibrate.HELP, epilog=calibrate.EXAMPLE)(calibrate.run)
app.command("certify", help=certify.HELP, epilog=certify.EXAMPLE)(certify.run)
app.command("evaluate", help=evaluate.HELP, epilog=evaluate.EXAMPLE)(evaluate.run)
app.command("reproduce", help=reproduce.HELP, epilog=reproduce.EXAMPLE)(reproduce.run)
app.command("train", help=train.HELP, epilog=train.EXAMPLE)(train.run)
app.command("view", help=view.HELP, epilog=view.EXAMPLE)(view.run)
app.add_typer(data.app, name="data")


def _print_version(wanted: bool) -> bool:
    if wanted:
        print(__version__)
        raise typer.Exit
    return wanted


@app.callback()
def top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options that stand before a command."""


@app.command("demo", epilog="example: bitr demo --out /tmp/demo")
def run_demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the report, the picture and the assembled cloud.")
    ] = Path("bitr-demo"),
    model: Annotated[str, typer.Option(help="Name of weights that come with bitr, or path.")] = "default",
    seed: Annotated[int, typer.Option(help="Of the motions that the laws are checked with.")] = 0,
) -> None:
    """Assemble two pieces that come with the package, beside the known answer; check the laws on them."""
    from bitr.cli.demo import demo

    demo(out, model, seed)


@app.command("bench", epilog="example: bitr bench --quick --json")
def run_bench(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes: under a minute.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Speed of the model on this machine, in units of a matrix product."""
    from bitr.cli.bench import bench

    bench(quick, json)


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; exit status 0 on success, 2 for bad usage or bad input, 1 for anything else.

    Ctrl-C ends it quietly with status 130; so does, with 1, a reader of the output that goes away.
    """
    given = sys.argv[1:] if arguments is None else arguments
    _prepare_streams()
    try:
        if not given:
            with redirect_stdout(sys.stderr):
                _run(["--help"])
            return 2
        status = _run(given)
        sys.stdout.flush()
        return status
    except UsageError as error:
        return _failed(f"{error.format_message()} (see bitr --help)", 2)  # type: ignore[attr-defined]
    except InputError as error:
        return _failed(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        _discard_output()
        return 1
    except SystemExit as stop:  # shell completion ends this way
        return stop.code if isinstance(stop.code, int) else 0
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        return _failed(f"unexpected {type(error).__name__}: {first}", 1)


def _run(arguments: list[str]) -> int:
    return int(typer.main.get_command(app)(args=arguments, prog_name="bitr", standalone_mode=False) or 0)


def _prepare_streams() -> None:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (open until the process ends)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error is: no name may stop the output


def _failed(message: str, status: int) -> int:
    print(f"bitr: {one_line(message)}", file=sys.stderr)
    return status


def _discard_output() -> None:
    """Nobody reads any more; what is still buffered must not raise again at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
