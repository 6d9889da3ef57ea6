"""The ``bitr`` command. Heavy modules are imported inside the subcommands, so that help comes at once."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from bitr import __version__
from bitr.cli import assemble, bench, calibrate, certify, data, demo, evaluate, puzzle, reproduce, train, view
from bitr.cli.options import say
from bitr.errors import InputError, NoSpaceError

UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer has it from click, or as its own copy

app = typer.Typer(
    name="bitr",
    help="Point cloud assembly that moves with the pieces.",
    epilog="example: bitr assemble handle.ply mug.ply --json",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for _module in (assemble, puzzle, calibrate, certify, evaluate, reproduce, train, view, demo, bench):
    _name = _module.__name__.rpartition(".")[2]
    app.command(_name, epilog=f"example: {_module.EXAMPLE}")(_module.run)
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


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; exit status 0 on success, 2 for bad usage or bad input, 1 for anything else.

    Ctrl-C ends it quietly with status 130; so does, with 1, a reader of the output that goes away.
    """
    given = sys.argv[1:] if arguments is None else arguments
    # virtual machines may announce AMX and end what uses it by an illegal instruction
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    _prepare_streams()
    try:
        if not given and "_BITR_COMPLETE" not in os.environ:  # a shell that completes gives no arguments
            with redirect_stdout(sys.stderr):
                _run(["--help"])
            return 2
        status = _run(given)
        sys.stdout.flush()
        return status
    except UsageError as error:
        return _fail(f"{error.format_message()} (see bitr --help)", 2)  # type: ignore[attr-defined]
    except InputError as error:
        return _fail(str(error), 2)
    except NoSpaceError as error:
        return _fail(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:  # nobody reads any more; the rest of the buffer must not raise again at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SystemExit as stop:  # shell completion ends this way
        return stop.code if isinstance(stop.code, int) else 0
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        return _fail(f"unexpected {type(error).__name__}: {first}", 1)


def _run(arguments: list[str]) -> int:
    return int(typer.main.get_command(app)(args=arguments, prog_name="bitr", standalone_mode=False) or 0)


def _prepare_streams() -> None:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (open until the process ends)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error is: no name may stop the output


def _fail(message: str, status: int) -> int:
    say(message)
    return status
