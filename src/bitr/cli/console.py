"""The terminal: one-line messages, progress and logs on standard error, checks of files to write."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bitr.errors import InputError
from bitr.files import check_target

Counter = Callable[[int, int], None]
"""Says how many of how many are done."""
PAGES = (".html", ".htm")

log = logging.getLogger("bitr")


def one_line(text: str) -> str:
    """Escape everything unprintable: line breaks, control codes, bytes that are no UTF-8."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def counted(number: int, thing: str) -> str:
    """A number of things, as "1 file" or "2 files"."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def say(message: str) -> None:
    """Print one line for people on standard error."""
    print(f"bitr: {one_line(message)}", file=sys.stderr)


def print_report(text: str, written: Iterable[Path | None], as_json: bool) -> None:
    """Print a report; in JSON nothing else, and otherwise the names of the files that were written."""
    print(text.rstrip("\n"))
    for path in written:
        if path is not None and not as_json:
            print(f"wrote {path}")


def check_suffix(option: str, path: Path, suffixes: Sequence[str]) -> None:
    """Raise when an option names a file of a kind that it does not write."""
    if path.suffix.lower() not in suffixes:
        found = path.suffix or "file without a suffix"
        raise InputError(f"{path}: {option} writes no {found}, expected one of {' '.join(suffixes)}")


def check_file(option: str, path: Path | None, suffixes: Sequence[str], *, force: bool) -> None:
    """Raise when an option names a file that cannot be written, before any work is done for it."""
    if path is None:
        return
    check_suffix(option, path, suffixes)
    try:
        check_target(path, force=force)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


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
