"""The tables of ``bitr bench``: speed and memory as ratios, since machines are noisy and differ.

Times are in units of one 1024×1024×1024 float32 ``torch.matmul`` of the same run, or beside a peer. What is
compared takes turns, and of each the fastest turn counts; JSON has the medians, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

from bitr.evaluation.speed.limits import LimitRow, limit_rows
from bitr.evaluation.speed.literal_peer import LITERAL
from bitr.evaluation.speed.machine import facts, rates
from bitr.evaluation.speed.memory import MemoryRow, memory_rows
from bitr.evaluation.speed.model_speed import ModelRow, model_rows
from bitr.evaluation.speed.peers import LayerRow, StackRow, layer_rows, stack_rows
from bitr.evaluation.speed.stages import StageRow, stage_rows
from bitr.evaluation.speed.timing import patience_for


class Row(Protocol):
    """A line of a table: what it measured, as its fields, and how to print it."""

    COLUMNS: ClassVar[Any]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def cells(self) -> tuple[object, ...]: ...


@dataclass(frozen=True)
class Table:
    """A part of the report, measured row by row while it is read."""

    name: str
    columns: tuple[str, ...]
    rows: Callable[[bool], Iterator[Row]]


TABLES = (
    Table("models", ModelRow.COLUMNS, model_rows),
    Table("memory", MemoryRow.COLUMNS, memory_rows),
    Table("layers", LayerRow.COLUMNS, layer_rows),
    Table("stacks", StackRow.COLUMNS, stack_rows),
    Table("limits", LimitRow.COLUMNS, limit_rows),
    Table("stages", StageRow.COLUMNS, stage_rows),
)


def machine(quick: bool) -> dict[str, str | int | float]:
    """What the figures were measured on, and its measured rates."""
    return facts() | asdict(rates(patience_for(quick)))


def notes() -> list[str]:
    """What is missing from the tables, and why."""
    if LITERAL.exists():
        return []
    return ["no comparison with the literal layer: tests/reference/literal.py comes with a checkout only"]


def report(quick: bool) -> dict[str, object]:
    """Everything, as it goes into JSON."""
    tables = {table.name: [asdict(row) for row in table.rows(quick)] for table in TABLES}
    return {"machine": machine(quick), **tables, "notes": notes()}
