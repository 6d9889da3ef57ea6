"""A run on the screen: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bitr.cli.text import one_line
from bitr.training.log import Listener, Record


class Lines:
    """One line for each record, on standard error."""

    def started(self, step: int, steps: int) -> None:
        if step:
            self.noted(f"going on from step {step} of {steps}")

    def recorded(self, record: Record) -> None:
        print(_text(record), file=sys.stderr, flush=True)

    def noted(self, text: str) -> None:
        print(one_line(text), file=sys.stderr, flush=True)


class Live:
    """A bar with the latest figures and the time that is left; validations stay on the screen."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.task = progress.add_task("making the first pairs", total=None)

    def started(self, step: int, steps: int) -> None:
        self.progress.reset(self.task, completed=step, total=steps)  # steps of another sitting tell no speed

    def recorded(self, record: Record) -> None:
        text = f"loss {record.loss:.3f}  Δr {record.rotation_deg:.1f}°  Δt {record.displacement:.3f}  "
        text += f"{record.samples_per_second:.0f} pairs/s"
        self.progress.update(self.task, completed=record.step, description=text)
        if record.val_loss is not None:
            self.progress.console.print(escape(_text(record)), highlight=False)

    def noted(self, text: str) -> None:
        self.progress.console.print(escape(one_line(text)), highlight=False)


@contextmanager
def display(plain: bool) -> Iterator[Listener]:
    if plain:
        yield Lines()
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Live(progress)


def _text(record: Record) -> str:
    line = (
        f"step {record.step}  {record.seconds:.0f} s  loss {record.loss:.3f}  Δr {record.rotation_deg:.1f}°  "
        f"Δt {record.displacement:.3f}  {record.samples_per_second:.1f} pairs/s"
    )
    if record.val_loss is None:
        return line
    return (
        f"{line}  held out: loss {record.val_loss:.3f}  Δr {record.val_rotation_deg:.1f}° "
        f"(median {record.val_median_deg:.1f}°)  Δt {record.val_displacement:.3f}"
    )
