"""What is shown on standard error while a command works: progress on a terminal, a log with ``-v``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from bitr.cli.text import one_line
from bitr.errors import InputError

Counter = Callable[[int, int], None]
"""Says how many of how many are done."""

log = logging.getLogger("bitr")


@contextmanager
def session(verbose: bool, counted: bool = False) -> Iterator[Counter]:
    """Shows the steps that the package logs; with ``verbose`` also where an unexpected error came from."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) if counted else ()
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *columns,
        console=console,
        transient=True,
        disable=verbose or not sys.stderr.isatty(),
    )
    task = progress.add_task("starting", total=None)
    handler = RichHandler(console=console, show_path=False) if verbose else _Steps(progress)
    with progress, _logging_to(handler, logging.DEBUG if verbose else logging.INFO):
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def _logging_to(handler: logging.Handler, level: int) -> Iterator[None]:
    before = log.level
    log.addHandler(handler)
    log.setLevel(level)
    try:
        yield
    except InputError:
        raise
    except Exception:
        log.debug("unexpected error", exc_info=True)
        raise
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


class _Steps(logging.Handler):
    """Shows the latest step beside a spinner."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        for task in self.progress.task_ids:
            self.progress.update(task, description=escape(one_line(record.getMessage())))
