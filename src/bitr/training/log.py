"""What a run writes down as it goes: a CSV, TensorBoard, and whoever listens."""

from __future__ import annotations

import csv
import io
import logging
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from bitr.files import whole_file

FILE_NAME = "log.csv"

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
    """Δr of the head that is nearest to the truth: what a better score could reach."""
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

    def started(self, step: int, steps: int) -> None: ...
    def recorded(self, record: Record) -> None: ...
    def noted(self, text: str) -> None: ...


class Silent:
    """A listener that shows nothing."""

    def started(self, step: int, steps: int) -> None:
        return

    def recorded(self, record: Record) -> None:
        return

    def noted(self, text: str) -> None:
        log.warning(text)


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
