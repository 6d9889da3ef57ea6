"""The folder of an experiment: table, JSON, plots, and pictures of the best, median and worst pair."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from bitr.errors import InputError
from bitr.evaluation import figures
from bitr.evaluation.metrics.chance import MEAN_DEG
from bitr.evaluation.report import Repeated
from bitr.evaluation.reproduce.result import Result, Table
from bitr.files import whole_file
from bitr.io import as_points
from bitr.show.picture import write_png
from bitr.show.stage import MOST_SHOWN, Scene

TABLE, JSON = "table.md", "result.json"
ERRORS = {"rotation_error_deg": ("rotation error Δr (°)", MEAN_DEG), "translation_error": ("Δt", None)}
"""What is drawn against the share that is kept: label, and the level of guessing."""


def check(folder: Path) -> None:
    """Raise when the files cannot be written, before any work is done for them."""
    if find_spec("matplotlib") is None:
        raise InputError(f'{folder}: plots need matplotlib, which is not installed: pip install "bitr[viz]"')
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); choose another --out") from error


def write(folder: Path, result: Result) -> list[Path]:
    """All files of a result; those of an earlier call are replaced."""
    write_text(folder / TABLE, result.to_markdown())
    write_text(folder / JSON, result.to_json() + "\n")
    written = [folder / TABLE, folder / JSON]
    for each in result.tables:
        written += _drawn(folder, each, f"{_slug(each.title)}-" if len(result.tables) > 1 else "")
    return written + _curves(folder, result.tables)


def write_text(path: Path, text: str) -> None:
    with whole_file(path, force=True) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _drawn(folder: Path, table: Table, prefix: str) -> list[Path]:
    """Δr as histogram and as recall, and the pairs before and after by the first row."""
    rows = [row for row in table.rows if row.samplings]
    errors = {row.name: row.pooled.values("rotation_error_deg") for row in rows}
    histogram, recall = (folder / f"{prefix}{name}.png" for name in ("rotation_error", "recall"))
    figures.rotation_histogram(histogram, errors, force=True)
    figures.recall_curve(recall, errors, force=True)
    return [histogram, recall, *_pictures(folder, table, rows[0], prefix)]


def _pictures(folder: Path, table: Table, row: Repeated, prefix: str) -> list[Path]:
    """The pairs of the first sampling by their Δr; one that was not answered cannot be shown."""
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


def _curves(folder: Path, tables: tuple[Table, ...]) -> list[Path]:
    """The errors against the share that is kept, where that is what the tables differ in."""
    if any(each.keep is None for each in tables):
        return []
    answered = (row for each in tables for row in each.rows if row.pooled.failed < len(row.pooled.scores))
    names = dict.fromkeys(row.name for row in answered)
    written = []
    for error, (label, level) in ERRORS.items():
        curves = {name: _curve(name, error, tables) for name in names}
        written.append(folder / f"{error}_against_keep.png")
        figures.error_against_keep(written[-1], curves, label, chance=level, force=True)
    return written


def _curve(name: str, error: str, tables: tuple[Table, ...]) -> figures.Curve:
    """Bars are the standard deviation between samplings, as in the paper; pairs differ by much more."""
    found = [
        (each.keep, summary.mean, row.between(error) or 0.0)
        for each in tables
        for row in each.rows
        if row.name == name and (summary := row.pooled.summary(error)) is not None
    ]
    keep, mean, std = (np.array(column, dtype=np.float64) for column in zip(*found, strict=True))
    return figures.Curve(keep, mean, std)


def _slug(title: str) -> str:
    return re.sub(r"[^\w.]+", "-", title)
