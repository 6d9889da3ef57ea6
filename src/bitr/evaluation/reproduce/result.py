"""Results of experiments: tables, JSON, plots, and pictures of the best, median and worst pair."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bitr.data import AssemblyPair
from bitr.errors import InputError
from bitr.evaluation import charts
from bitr.evaluation.metrics import CHANCE_MEAN, chance_level
from bitr.evaluation.report import NOTES, Repeated, as_line, table
from bitr.evaluation.reproduce.plan import Experiment
from bitr.files import whole_file
from bitr.io import as_points
from bitr.show.picture import write_png
from bitr.show.stage import MOST_SHOWN, Scene

TABLE, JSON = "table.md", "result.json"
AGAINST_KEEP = {
    "rotation_error_deg": ("rotation error Δr (°)", CHANCE_MEAN),
    "translation_error": ("Δt", None),
}
"""Errors that are drawn against the share that is kept: label, and the level of guessing."""


@dataclass(frozen=True, eq=False)
class Table:
    """Methods on one data set."""

    title: str
    rows: tuple[Repeated, ...]
    pairs: Sequence[AssemblyPair]
    """The first sampling, for pictures and law errors."""
    keep: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, "keep": self.keep, "rows": [row.to_dict() for row in self.rows]}


@dataclass(frozen=True, eq=False)
class Result:
    """All tables of an experiment."""

    experiment: Experiment
    settings: Mapping[str, Any]
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    """Markdown below the tables."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further figures for the JSON."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment.name,
            "section": self.experiment.section,
            **self.settings,
            "chance": chance_level(),
            "tables": [each.to_dict() for each in self.tables],
            **self.more,
        }

    def to_json(self) -> str:
        """One JSON object in one line, plain ASCII; unknown values are null."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_markdown(self) -> str:
        """The title, the settings, the tables, and notes on how to read them."""
        parts = [f"# {self.experiment.title} ({self.experiment.section})", as_line(self.settings)]
        for each in self.tables:
            parts += [f"## {each.title}"] if len(self.tables) > 1 else []
            parts.append(table(each.rows))
        return "\n\n".join([*parts, *self.notes, NOTES]) + "\n"


@dataclass(frozen=True, eq=False)
class Every:
    """The results by the names of the experiments; where there is none, the reason."""

    found: dict[str, Result | str]

    def to_json(self) -> str:
        """One JSON object in one line, plain ASCII."""
        found = {
            name: {"not measured": each} if isinstance(each, str) else each.to_dict()
            for name, each in self.found.items()
        }
        return json.dumps(found, allow_nan=False)

    def to_markdown(self) -> str:
        """The first row of each table of each experiment; then the tables themselves."""
        rows = [row for name, found in self.found.items() for row in _first_rows(name, found)]
        whole = [found.to_markdown() for found in self.found.values() if not isinstance(found, str)]
        return "\n\n".join(["# All experiments", table(rows), *whole])


def _first_rows(name: str, found: Result | str) -> Iterator[Repeated]:
    if isinstance(found, str):
        yield Repeated(name, (), f"not measured: {found}")
        return
    for each in found.tables:
        where = name if len(found.tables) == 1 else f"{name}, {each.title}"
        yield replace(each.rows[0], name=f"{where}: {each.rows[0].name}")


# The files of a result


def check_folder(folder: Path) -> None:
    """Raise when the files cannot be written, before any work is done for them."""
    if find_spec("matplotlib") is None:
        raise InputError(f'{folder}: plots need matplotlib, which is not installed: pip install -e ".[viz]"')
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); choose another --output") from error


def write_files(folder: Path, result: Result) -> list[Path]:
    """Write all files of a result; those of an earlier call are replaced."""
    written = write_texts(folder, result)
    for each in result.tables:
        prefix = re.sub(r"[^\w.]+", "-", each.title) + "-" if len(result.tables) > 1 else ""
        rows = [row for row in each.rows if row.samplings]
        errors = {row.name: row.pooled.values("rotation_error_deg") for row in rows}
        written += [folder / f"{prefix}rotation_error.png", folder / f"{prefix}recall.png"]
        charts.rotation_histogram(errors).write(written[-2], force=True)
        charts.recall_curve(errors).write(written[-1], force=True)
        written += _write_pictures(folder, each, rows[0], prefix)
    return written + _write_curves(folder, result.tables)


def write_texts(folder: Path, result: Result | Every) -> list[Path]:
    for name, text in ((TABLE, result.to_markdown()), (JSON, result.to_json() + "\n")):
        with whole_file(folder / name, force=True) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return [folder / TABLE, folder / JSON]


def _write_pictures(folder: Path, table: Table, row: Repeated, prefix: str) -> list[Path]:
    """The best, median and worst pair of the first sampling by Δr; one without an answer cannot be shown."""
    degrees = row.samplings[0].values("rotation_error_deg")
    order = np.argsort(degrees)[: np.count_nonzero(~np.isnan(degrees))]  # NaN comes last
    written = []
    for name, place in (("best", 0), ("median", len(order) // 2), ("worst", -1)) if len(order) else ():
        index = int(order[place])
        pair, pose = table.pairs[index], row.samplings[0].scores[index].transformation
        assert pose is not None
        source, reference = (as_points(s, MOST_SHOWN, seed=0).points for s in (pair.source, pair.reference))
        written.append(folder / f"{prefix}{name}_pair.png")
        write_png(written[-1], Scene(source, reference, pose, title=pair.id), force=True)
    return written


def _write_curves(folder: Path, tables: tuple[Table, ...]) -> list[Path]:
    """The errors against the share that is kept, where the tables differ in it."""
    if any(each.keep is None for each in tables):
        return []
    answered = (row for each in tables for row in each.rows if row.pooled.failed < len(row.pooled.scores))
    names = dict.fromkeys(row.name for row in answered)
    written = []
    for error, (label, level) in AGAINST_KEEP.items():
        curves = {name: _curve(name, error, tables) for name in names}
        written.append(folder / f"{error}_against_keep.png")
        charts.error_against_keep(curves, label, level).write(written[-1], force=True)
    return written


def _curve(name: str, error: str, tables: tuple[Table, ...]) -> charts.Curve:
    """Bars are the standard deviation between samplings, as in the paper; pairs differ by much more."""
    found = [
        (each.keep, summary.mean, row.between(error) or 0.0)
        for each in tables
        for row in each.rows
        if row.name == name and (summary := row.pooled.summary(error)) is not None
    ]
    keep, mean, std = (np.array(column, dtype=np.float64) for column in zip(*found, strict=True))
    return charts.Curve(keep, mean, std)
