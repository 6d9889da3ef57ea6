"""The log of a run: means since the last record, a CSV, TensorBoard, curves, and whoever listens."""

from __future__ import annotations

import csv
import io
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from bitr.files import whole_file
from bitr.training.optimizer import Step

FILE_NAME = "log.csv"
TRAIN, VAL, CHANCE = "#9aa4b1", "#d1462f", "#33363a"
CHANCE_DEG = 126.5
"""Mean angle of a rotation drawn uniformly."""

log = logging.getLogger("bitr")


@dataclass(frozen=True)
class Record:
    """Means since the record before; those of ``val`` only where a validation was made."""

    step: int
    epoch: float
    seconds: float
    loss: float
    rotation_deg: float
    displacement: float
    nearest_deg: float
    """Δr of the head that is nearest to the truth: a bound for better scores."""
    rate: float
    gradient_norm: float
    samples_per_second: float
    waiting: float
    """Part of the time in which the model waited for pairs."""
    skipped: int
    """Steps left out so far since their loss or gradient was not finite."""
    val_loss: float | None = None
    val_rotation_deg: float | None = None
    val_median_deg: float | None = None
    val_displacement: float | None = None
    val_nearest_deg: float | None = None


@runtime_checkable
class Listener(Protocol):
    """Shows a run to a person."""

    def started(self, step: int, steps: int, data: str) -> None: ...
    def recorded(self, record: Record) -> None: ...
    def noted(self, text: str) -> None: ...


class Silent:
    """A listener that shows nothing."""

    def started(self, step: int, steps: int, data: str) -> None:
        return

    def recorded(self, record: Record) -> None:
        return

    def noted(self, text: str) -> None:
        log.warning(text)


class Meter:
    """Adds up steps; times are wall-clock seconds. A meter goes on from the ``state`` of another."""

    def __init__(self, state: Sequence[float] = ()) -> None:
        self.steps, self.taken, self.waited, seconds, *sums = state or [0.0] * 9
        self.start = time.perf_counter() - seconds
        self.sums = torch.tensor(sums, dtype=torch.float64)

    def state(self) -> list[float]:
        return [self.steps, self.taken, self.waited, self.seconds, *self.sums.tolist()]

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time in here counts as waiting for pairs."""
        start = time.perf_counter()
        yield
        self.waited += time.perf_counter() - start

    def add(self, step: Step) -> None:
        self.steps += 1
        if step.taken:
            self.taken += 1
            self.sums += torch.tensor([*step.means.tolist(), step.gradient_norm], dtype=torch.float64)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def means(self) -> dict[str, float]:
        """Means over the steps that were taken, by the names of a record; NaN where none was."""
        names = ("loss", "rotation_deg", "displacement", "nearest_deg", "gradient_norm")
        means = dict(zip(names, (self.sums / self.taken).tolist(), strict=True))
        return means | {"waiting": self.waited / self.seconds}


class RunLog:
    """The CSV and TensorBoard's events of a run, cut back to where the run goes on from."""

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / FILE_NAME
        rows = [row for row in read_log(folder) if row["step"] <= step] if self.path.exists() else []
        with whole_file(self.path, force=True) as temporary:
            temporary.write_text(_lines(rows, header=True), encoding="utf-8")
        self.board = _board(folder / "tensorboard", step)

    def add(self, record: Record) -> None:
        values = asdict(record)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_lines([values], header=False))
        if self.board is not None:
            for name, value in values.items():
                if name != "step" and value is not None:
                    self.board.add_scalar(name, value, record.step)

    def close(self) -> None:
        if self.board is not None:
            self.board.close()


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The records of a run's CSV, empty cells as None."""
    lines = (folder / FILE_NAME).read_text(encoding="utf-8").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]  # a full disk may cut the last one off
    return [{key: _number(text) for key, text in row.items()} for row in csv.DictReader(whole)]


def _number(text: str) -> float | int | None:
    if not text:
        return None
    return int(text) if text.isdigit() else float(text)


def _lines(rows: list[dict[str, Any]], header: bool) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, [field.name for field in fields(Record)], lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _board(folder: Path, step: int) -> Any:
    """TensorBoard's writer, or None where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1)


def draw_curves(folder: Path, title: str) -> Path:
    """Loss, Δr and displacement against steps, training and held-out pairs; needs matplotlib (``viz``)."""
    from matplotlib.figure import Figure

    rows = read_log(folder)

    def points(name: str) -> tuple[list[int], list[float]]:
        there = [row for row in rows if row[name] is not None]
        return [row["step"] for row in there], [row[name] for row in there]

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)
    labels = {
        "loss": "loss",
        "rotation_deg": "Δr (degrees)",
        "displacement": "displacement (of the pair's size)",
    }
    for ax, (name, label) in zip(axes, labels.items(), strict=True):
        ax.plot(*points(name), color=TRAIN, linewidth=1, label="training")
        ax.plot(*points(f"val_{name}"), "o-", color=VAL, markersize=3, label="held out, averaged weights")
        ax.set_xlabel("step")
        ax.set_ylabel(label)
        ax.spines[["top", "right"]].set_visible(False)
    axes[1].plot(*points("val_median_deg"), "--", color=VAL, linewidth=1, label="held out, median")
    axes[1].axhline(CHANCE_DEG, color=CHANCE, linewidth=0.8, linestyle=":", label="chance")
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].legend(frameon=False, fontsize=8)
    for ax in axes:
        ax.set_ylim(bottom=0)
    figure.suptitle(title, fontsize=10)
    with whole_file(folder / "curves.png", force=True) as temporary:
        figure.savefig(temporary, dpi=150)
    return folder / "curves.png"
