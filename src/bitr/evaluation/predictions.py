"""Poses from any method, in a file: scored as if the method had run here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.data.poses import pose_of_numbers
from bitr.errors import InputError
from bitr.evaluation.evaluate import Evaluation, Progress
from bitr.evaluation.score import answered, failed
from bitr.io.manifest import Row, distinct, read_rows

NUMBERS = tuple(f"m{i}{j}" for i in range(4) for j in range(4))
"""Columns of a csv file with a number in each cell, row by row: m03 is the translation along x."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a file says of one pair, and where."""

    id: str
    at: str
    transformation: Float64[np.ndarray, "4 4"] | None
    """None where the file says that there is no answer."""
    reason: str
    seconds: float | None


def read_predictions(path: Path) -> Mapping[str, Prediction]:
    """The predictions of a .jsonl or .csv file by id; a bad row, or an id that comes twice, raises.

    Each row has ``id`` and ``transformation``: nested lists or 16 numbers, ``ref_from_src``. A csv file may
    instead have a column for each number, m00 to m33. The table that ``bitr assemble`` writes for a batch is
    such a file; of other columns only error and seconds are looked at. A row whose transformation is null or
    empty says that the method gave no answer.
    """
    wide = path.suffix.lower() == ".csv" and _has_column(path, NUMBERS[0])
    needed = ("id", *NUMBERS) if wide else ("id", "transformation")
    rows = read_rows(path, needed, None)
    found = distinct((row.at, row.name("id"), _of_row(row, wide)) for row in rows)
    return {prediction.id: prediction for prediction in found}


def evaluate_predictions(
    path: Path, pairs: Sequence[AssemblyPair], progress: Progress | None = None
) -> Evaluation:
    """The scores of a file's poses; pairs without a row, and rows without a pair, raise."""
    found = read_predictions(path)
    scores = []
    for pair in pairs:
        row = found.get(pair.id)
        if row is None:
            raise InputError(f"{path}: no row for the pair {pair.id}, expected one for each of {len(pairs)}")
        scores.append(
            failed(pair, row.reason, row.seconds)
            if row.transformation is None
            else answered(pair, row.transformation, row.seconds)
        )
        if progress is not None:
            progress(len(scores), len(pairs))
    known = {score.id for score in scores}
    for row in found.values():
        if row.id not in known:
            raise InputError(f"{row.at}: the id {row.id} is none of the {len(pairs)} pairs of the data set")
    return Evaluation(path.stem, tuple(scores))


def _has_column(path: Path, name: str) -> bool:
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            return name in (cell.strip() for cell in file.readline().split(","))
    except OSError:
        return False  # read_rows says what is wrong


def _of_row(row: Row, wide: bool) -> Prediction:
    reason, seconds = row.values.get("error"), row.values.get("seconds")
    return Prediction(
        id=row.name("id"),
        at=row.at,
        transformation=_pose(row, wide),
        reason=reason if isinstance(reason, str) and reason else "the file has no answer",
        seconds=None if seconds is None else _seconds(row, seconds),
    )


def _pose(row: Row, wide: bool) -> Float64[np.ndarray, "4 4"] | None:
    cells = [row.values.get(name) for name in NUMBERS] if wide else [row.values.get("transformation")]
    if all(cell is None for cell in cells):
        return None
    # whatever is nested is flattened, and what is no number is told by the reader of numbers
    return pose_of_numbers(" ".join(map(str, cells)).replace("[", " ").replace("]", " "), row.at)


def _seconds(row: Row, value: object) -> float:
    try:
        found = float(str(value))
    except ValueError:
        found = np.nan
    if not 0 <= found < np.inf:
        raise InputError(f"{row.at}: found seconds = {value!r:.40}, expected a number from 0")
    return found
