"""What an experiment found: tables, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bitr.data import AssemblyPair
from bitr.evaluation.metrics import chance
from bitr.evaluation.report import NOTES, Repeated, table


@dataclass(frozen=True, eq=False)
class Table:
    """Methods on one data set."""

    title: str
    rows: tuple[Repeated, ...]
    pairs: Sequence[AssemblyPair]
    """Of the first sampling, for pictures."""
    keep: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, "keep": self.keep, "rows": [row.to_dict() for row in self.rows]}


@dataclass(frozen=True, eq=False)
class Result:
    """All tables of an experiment."""

    name: str
    title: str
    section: str
    settings: Mapping[str, Any]
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    """Markdown below the tables."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further figures for the JSON."""

    def to_dict(self) -> dict[str, Any]:
        level = {"mean": chance.MEAN_DEG, "std": chance.STD_DEG, "median": chance.chance_quantile(0.5)}
        return {
            "experiment": self.name,
            "section": self.section,
            **self.settings,
            "chance": {"rotation_error_deg": level},
            "tables": [each.to_dict() for each in self.tables],
            **self.more,
        }

    def to_json(self) -> str:
        """One JSON object in one line, plain ASCII; what is not known is null."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_markdown(self) -> str:
        """The title, how it was made, the tables, and what to know when reading them."""
        told = ", ".join(f"{key} {value}" for key, value in self.settings.items() if value is not None)
        parts = [f"# {self.title} ({self.section})", told]
        for each in self.tables:
            parts += [f"## {each.title}"] if len(self.tables) > 1 else []
            parts.append(table(each.rows))
        return "\n\n".join([*parts, *self.notes, NOTES]) + "\n"
