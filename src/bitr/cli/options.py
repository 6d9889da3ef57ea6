"""Options that several commands share, what the Tab key offers, and the terminal. Imports nothing heavy."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from bitr.errors import InputError, require
from bitr.files import check_target
from bitr.settings import read_toml

Counter = Callable[[int, int], None]  # says how many of how many are done
PAGES = (".html", ".htm")
METHODS, SPLITS = "auto|overlap|seam|mate|touch|model", "train|val|test"

log = logging.getLogger("bitr")


def offer(find: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Make a completion from a function that lists the names; for anything else the shell offers files."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in find() if name.startswith(incomplete)]

    return complete


def choose(choices: str, help: str) -> Any:
    """An option with choices, ``a|b|c``; the command checks them."""
    return typer.Option(metavar=choices, help=help, autocompletion=offer(lambda: choices.split("|")))


def take_model(help: str) -> Any:
    """An option that takes weights."""
    return typer.Option(help=help, autocompletion=offer(list_models))


def write_to(help: str) -> Any:
    """The option ``--output``."""
    return typer.Option("--output", "-o", help=help)


PACKAGE = Path(str(resources.files("bitr")))


def list_models() -> list[str]:
    """The names of the weights that come with bitr."""
    return sorted(path.stem for path in PACKAGE.glob("weights/*.safetensors"))


def list_configs() -> list[str]:
    """The names of the training configs that come with bitr."""
    return sorted(path.stem for path in PACKAGE.glob("training/configs/*.toml"))


def list_data() -> list[str]:
    """The names of the data sets."""
    return list(read_toml(PACKAGE / "data/datasets.toml"))


def list_experiments() -> list[str]:
    """The names of the experiments of ``bitr reproduce``."""
    return [*read_toml(PACKAGE / "evaluation/experiments.toml"), "laws", "speed", "engine", "puzzles", "all"]


Model = Annotated[str, take_model("Name of weights that come with bitr, or path of a checkpoint.")]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help="Name of a data set (see bitr data list), or folder or manifest of your own pairs.",
        autocompletion=offer(list_data),
    ),
]
Root = Annotated[
    Path | None,
    typer.Option("--data-root", help="Folder of data sets; by default the one that BITR_DATA names."),
]
Split = Annotated[str, choose(SPLITS, "Part of the data set.")]
Method = Annotated[
    str,
    choose(
        METHODS,
        "How the pieces join. auto tries all that the weights are for and takes the most likely: surfaces "
        "that overlap, open borders that meet, breaks that fit, pieces that touch, or the model's own pose.",
    ),
]
Points = Annotated[
    int | None,
    typer.Option(
        help="Points of each cloud that the model sees; by default as many as the weights are for, or 1000."
    ),
]
Fast = Annotated[bool, typer.Option("--fast", help="Run the model once and take its pose as it is.")]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.", min=0)]
Samplings = Annotated[int | None, typer.Option(help="Number of times that the pairs are sampled.", min=1)]
Limit = Annotated[int | None, typer.Option(help="Take only the first so many pairs.", min=1)]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=V", help="Change a setting of the training, as optimizer.rate=1e-3."),
]
Picture = Annotated[Path | None, typer.Option(help="Write a picture (.png).")]
SampleSeed = Annotated[int, typer.Option(help="Seed of the samples of meshes and of very large clouds.")]
Html = Annotated[Path | None, typer.Option(help="Write a report that opens in any browser (.html).")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log each step, and the origin of an error.")]


def one_line(text: str) -> str:
    """Escape everything unprintable: line breaks, control codes, bytes that are no UTF-8."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def say(message: str) -> None:
    """Print one line for people on standard error."""
    print(f"bitr: {one_line(message)}", file=sys.stderr)


def print_report(text: str, written: Iterable[Path | None], as_json: bool) -> None:
    """Print a report; in JSON nothing else, and otherwise the names of the files that were written."""
    print(text.rstrip("\n"))
    for path in written:
        if path is not None and not as_json:
            print(f"wrote {path}")


def check_choice(option: str, value: str | None, choices: str) -> None:
    """Raise when the value of an option is given and none of its choices, ``a|b|c``."""
    known = choices.split("|")
    require(value in (None, *known), f"{option} {value}: expected one of {', '.join(known)}")


def check_suffix(option: str, path: Path, suffixes: Sequence[str]) -> None:
    """Raise when an option names a file of a kind that it does not write."""
    found = path.suffix or "file without a suffix"
    is_known = path.suffix.lower() in suffixes
    require(is_known, f"{path}: {option} writes no {found}, expected one of {' '.join(suffixes)}")


def check_file(option: str, path: Path | None, suffixes: Sequence[str], *, force: bool) -> None:
    """Raise when an option names a file that cannot be written, before any work is done for it."""
    if path is None:
        return
    check_suffix(option, path, suffixes)
    try:
        check_target(path, force=force)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    if option == "--picture":
        need("matplotlib", option)


def check_files(
    inputs: Iterable[Path], outputs: Mapping[str, tuple[Path | None, Sequence[str]]], *, force: bool
) -> list[Path]:
    """The files that are written; one that cannot be, or that is an input or another of them, raises.

    ``outputs`` has the file and the suffixes of each option.
    """
    taken, files = list(inputs), []
    for name, (path, suffixes) in outputs.items():
        if path is not None:
            said = f"{path}: is named twice, as {name} and as another file; choose another name"
            require(not is_among(path, taken), said)
            check_file(name, path, suffixes, force=force)
            taken.append(path)
            files.append(path)
    return files


def is_among(path: Path, others: Iterable[Path]) -> bool:
    """True when the path leads to one of the other files, whether it exists yet or not."""
    try:
        return any(
            path.absolute() == other.absolute() or (path.exists() and other.exists() and path.samefile(other))
            for other in others
        )
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def need(module: str, what: str) -> None:
    """Raise where a module of the extra ``viz`` is missing."""
    require(find_spec(module) is not None, f'{what} needs {module}: pip install -e ".[viz]" in the clone')


@contextmanager
def session(verbose: bool, counted: bool = False) -> Iterator[Counter]:
    """Show the steps that the package logs; with ``verbose`` also the origin of an unexpected error."""
    from rich import progress as bars
    from rich.console import Console
    from rich.logging import RichHandler
    from rich.markup import escape

    class Steps(logging.Handler):
        """Shows the latest step beside a spinner."""

        def emit(self, record: logging.LogRecord) -> None:
            progress.update(task, description=escape(one_line(record.getMessage())))

    console = Console(stderr=True)
    times = bars.TimeElapsedColumn(), bars.TimeRemainingColumn()
    counts = (bars.BarColumn(), bars.MofNCompleteColumn(), *times) if counted else ()
    progress = bars.Progress(
        *(bars.SpinnerColumn(), bars.TextColumn("{task.description}"), *counts),
        console=console,
        transient=True,
        disable=verbose or not sys.stderr.isatty(),
    )
    task = progress.add_task("starting", total=None)
    handler = RichHandler(console=console, show_path=False) if verbose else Steps()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    try:
        with progress:
            yield lambda done, total: progress.update(task, completed=done, total=total)
    except InputError:
        raise
    except Exception:
        log.debug("unexpected error", exc_info=True)
        raise
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
