"""Evaluation of a method, or of a file of poses, on many pairs: a score for each pair, and a summary."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitr.assembly.assemble import Assembly
from bitr.data import AssemblyPair
from bitr.data.own import Row, distinct, read_rows
from bitr.data.poses import nearest_pose, pose_of_numbers
from bitr.errors import InputError, require
from bitr.evaluation import metrics
from bitr.evaluation.calibrate import Trust, measure_trust
from bitr.evaluation.method import Method, pose_of
from bitr.evaluation.metrics import BENCHMARKS, REGISTERED, Pose, Recall, recall
from bitr.io import Geometry, as_points, even_draw

QUANTILES = (0.05, 0.25, 0.75, 0.95)
MATCH3D = f"3DMatch (RMSE {REGISTERED:g} m)"
UNRELATED = "the pieces do not belong together"
MOST_POINTS = 20_000
"""Points of a cloud in metrics that compare clouds; on the surface of a mesh as many are drawn."""
NUMBERS = tuple(f"m{i}{j}" for i in range(4) for j in range(4))
"""Columns of a csv file with a number in each cell, row by row: m03 is the translation along x."""

Progress = Callable[[int, int], None]  # called with the number of pairs that are done and their total


def evaluate(method: Method, pairs: Sequence[AssemblyPair], progress: Progress | None = None) -> Evaluation:
    """Score the method on every pair; one that it refuses with an InputError counts as failed."""
    scores = []
    for pair in pairs:
        start = time.perf_counter()
        try:
            answer = method.solve(pair)
            confidence = answer.confidence if isinstance(answer, Assembly) else None
            score = score_of(pair, pose_of(answer), time.perf_counter() - start, confidence)
        except InputError as error:
            score = Score(pair.id, pair.unit, time.perf_counter() - start, failure=str(error))
        scores.append(score)
        if progress is not None:
            progress(len(scores), len(pairs))
    require(scores, f"{method.name}: no pairs to evaluate on, expected at least one")
    return Evaluation(method.name, tuple(scores))


# The score of one pair


@dataclass(frozen=True)
class Errors:
    """Errors of a pose against the nearest right answer; lengths in the unit of the pair."""

    rotation_error_deg: float
    translation_error: float
    displacement: float
    part_chamfer: float
    shape_chamfer: float
    add_s: float
    euler_rmse_deg: float
    translation_rmse: float
    cd: float
    crd: float
    placed: float  # the last five are those of ``metrics.mating_errors``
    registration_rmse: float | None  # only for pairs in metres whose pieces overlap


ERRORS = tuple(Errors.__dataclass_fields__)


@dataclass(frozen=True, eq=False)
class Score:
    """One row of an evaluation: the answer and its errors, or the reason why there is none."""

    id: str
    unit: str
    seconds: float | None  # time of the answer; None where nobody measured it
    transformation: Pose | None = None
    errors: Errors | None = None
    failure: str | None = None  # the reason why there is no answer; None where there is one
    right: bool = False  # true for a pose that is ``metrics.RIGHT`` of a right one
    confidence: float | None = None
    size: float | None = None
    """Radius of the assembled shape, in the unit of the pair; None without an answer."""

    @property
    def scene(self) -> str:
        """The part of the id before the last slash: the place that a pair of scans is from."""
        return self.id.rpartition("/")[0]

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "transformation": None if self.transformation is None else self.transformation.tolist(),
            **(dict.fromkeys(ERRORS) if self.errors is None else asdict(self.errors)),
            "right": self.right,
            "size": self.size,
            "confidence": self.confidence,
            "seconds": self.seconds,
            "failure": self.failure,
        }


def score_of(pair: AssemblyPair, pose: Pose, seconds: float | None, confidence: float | None = None) -> Score:
    """The score of an answer; one that is no rigid motion raises. Unrelated pieces have no right answer."""
    pose = nearest_pose(pose, pair.id)
    if not pair.related:
        return Score(pair.id, pair.unit, seconds, pose, None, UNRELATED, False, confidence)
    errors, right = errors_of(pair, pose), metrics.is_right(pair, pose)
    x, y = (as_points(side, metrics.MESH_POINTS, seed=0).points for side in (pair.source, pair.reference))
    size = metrics.assembled_radius(pair.ref_from_src, x, y)
    return Score(pair.id, pair.unit, seconds, pose, errors, None, right, confidence, size)


def errors_of(pair: AssemblyPair, pose: Pose) -> Errors:
    """All errors of a pose; where the pair has symmetries, against the right answer nearest to it."""
    all_x, all_y = (as_points(side, MOST_POINTS, seed=0).points for side in (pair.source, pair.reference))
    x, y = (points[even_draw(len(points), MOST_POINTS, seed=0)] for points in (all_x, all_y))
    truth = metrics.nearest_truth(pose, metrics.truths_of(pair), all_x, all_y, pair.axis)
    shared = metrics.overlap(x, y, truth) if pair.unit == "m" else np.zeros((0, 3))
    rmse = metrics.registration_rmse(pose, truth, metrics.information_matrix(shared)) if len(shared) else None
    mating = metrics.mating_errors(pose, truth, x, y, _source_share(pair))
    return Errors(
        rotation_error_deg=metrics.rotation_error_deg(pose, truth),
        translation_error=metrics.translation_error(pose, truth),
        displacement=metrics.displacement(pose, truth, all_x, all_y),
        part_chamfer=metrics.part_chamfer(pose, truth, x),
        shape_chamfer=metrics.shape_chamfer(pose, truth, x, y),
        add_s=metrics.add_s(pose, truth, x),
        **mating,
        registration_rmse=rmse,
    )


def _source_share(pair: AssemblyPair) -> float:
    """The source's share of both surfaces: by area, or of two clouds by points; else a half."""
    sides = pair.source, pair.reference
    if all(side.faces is None for side in sides):
        x, y = (float(len(side.points)) for side in sides)
    elif any(side.faces is None for side in sides):
        return 0.5
    else:
        x, y = (_area(side) for side in sides)
    return x / (x + y)


def _area(mesh: Geometry) -> float:
    assert mesh.faces is not None
    a, b, c = (mesh.points[mesh.faces[:, i]] for i in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()) / 2


# The scores of a data set


@dataclass(frozen=True)
class Summary:
    """Statistics over the pairs that were answered."""

    mean: float
    std: float  # standard deviation over the pairs, by n
    median: float
    quantiles: dict[str, float]


def summary(values: Float64[np.ndarray, " n"]) -> Summary | None:
    """Statistics of the values that are not NaN; None where there are none."""
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    quantiles = {f"{q:g}": float(np.quantile(known, q)) for q in QUANTILES}
    return Summary(float(known.mean()), float(known.std()), float(np.median(known)), quantiles)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The scores of a method on a data set.

    Statistics are over the pairs that were answered; recalls and shares count the ``failed`` ones as wrong.
    """

    method: str
    scores: tuple[Score, ...]

    @property
    def failed(self) -> int:
        return sum(score.transformation is None for score in self.scores)

    def values(self, error: str) -> Float64[np.ndarray, " n"]:
        """One error of every pair; NaN where there is none."""
        found = (None if s.errors is None else getattr(s.errors, error) for s in self.scores)
        return np.array([np.nan if value is None else value for value in found])

    def summary(self, error: str) -> Summary | None:
        return summary(self.values(error))

    @property
    def right(self) -> float | None:
        """Share of all pairs that are right."""
        return float(np.mean([score.right for score in self.scores])) if self.scores else None

    def within(self, degrees: float) -> float | None:
        """Share of all pairs that are right and have a Δr of at most so many degrees."""
        if not self.scores:
            return None
        near = self.values("rotation_error_deg") <= degrees
        return float(np.mean(near & [score.right for score in self.scores]))

    @property
    def trust(self) -> Trust | None:
        """Quality of the confidences; None where there are none."""
        known = [score for score in self.scores if score.confidence is not None]
        if not known:
            return None
        confidence = np.array([score.confidence for score in known], dtype=np.float64)
        return measure_trust(confidence, np.array([score.right for score in known]))

    @property
    def seconds(self) -> Summary | None:
        """Time of all pairs, failed ones too."""
        return summary(np.array([np.nan if s.seconds is None else s.seconds for s in self.scores]))

    @property
    def unit(self) -> str | None:
        """Unit of the lengths; None where pairs differ."""
        units = {score.unit for score in self.scores}
        return units.pop() if len(units) == 1 else None

    @property
    def is_of_size_one(self) -> bool:
        """True for shapes without a unit of length whose size is about 1."""
        low, high = metrics.SIZE_ONE
        return self.unit == "" and all(s.size is None or low <= s.size <= high for s in self.scores)

    @property
    def unit_name(self) -> str:
        """The unit of the lengths in words: its name, or that the shapes are of size 1, or the files' own."""
        if self.unit is None:
            return "each pair's unit"
        return self.unit or ("size ≈ 1" if self.is_of_size_one else "unit of the files")

    @property
    def part_accuracy(self) -> float | None:
        """Breaking Bad's share of placed parts, each judged from the other; None for scenes in metres.

        Benchmarks that count the part that is held in place report (1 + a)/2 where this is a.
        """
        return float(np.nan_to_num(self.values("placed")).mean()) if self.unit == "" else None

    @property
    def recalls(self) -> dict[str, Recall]:
        """Recalls of the benchmarks in the unit of the pairs; 3DMatch's where all pairs overlap."""
        degrees, lengths = self.values("rotation_error_deg"), self.values("translation_error")
        found = {
            benchmark.label: recall(benchmark.accepts(degrees, lengths), degrees, lengths)
            for benchmark in BENCHMARKS
            if benchmark.unit == self.unit and (benchmark.unit or self.is_of_size_one)
        }
        rmse = self.values("registration_rmse")
        if self.unit == "m" and not np.isnan(rmse[~np.isnan(degrees)]).any():
            scenes = [score.scene for score in self.scores]
            found[MATCH3D] = recall(rmse < REGISTERED, degrees, lengths, scenes)
        return found

    def to_dict(self) -> dict[str, Any]:
        summaries = {error: self.summary(error) for error in ERRORS} | {"seconds": self.seconds}
        return {
            "method": self.method,
            "pairs": len(self.scores),
            "failed": self.failed,
            "unit": self.unit,
            **{name: None if found is None else asdict(found) for name, found in summaries.items()},
            "right": self.right,
            "within_5_deg": self.within(5.0),
            "trust": None if self.trust is None else asdict(self.trust),
            "part_accuracy": self.part_accuracy,
            "recalls": {name: asdict(found) for name, found in self.recalls.items()},
            "scores": [score.to_dict() for score in self.scores],
        }

    def to_json(self) -> str:
        """One JSON object in one line, plain ASCII; unknown values are null."""
        return json.dumps(self.to_dict(), allow_nan=False)


# Poses of any method, from a file


@dataclass(frozen=True, eq=False)
class Prediction:
    """The answer of a file to one pair, and its place in the file; without a pose, the reason why."""

    id: str
    at: str
    transformation: Pose | None
    reason: str
    seconds: float | None


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
        if row.transformation is None:
            scores.append(Score(pair.id, pair.unit, row.seconds, failure=row.reason))
        else:
            scores.append(score_of(pair, row.transformation, row.seconds))
        if progress is not None:
            progress(len(scores), len(pairs))
    known = {score.id for score in scores}
    for row in found.values():
        said = f"{row.at}: the id {row.id} is none of the {len(pairs)} pairs of the data set"
        require(row.id in known, said)
    return Evaluation(path.stem, tuple(scores))


def read_predictions(path: Path) -> Mapping[str, Prediction]:
    """The predictions of a .jsonl or .csv file by id; a bad row, or an id that comes twice, raises.

    Each row has ``id`` and ``transformation`` (or m00 to m33 in a csv file), null for no answer, and, if
    known, error and seconds, as the table of a batch.
    """
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            head = [cell.strip() for cell in file.readline().split(",")]
    except OSError:
        head = []  # read_rows says what is wrong
    columns = NUMBERS if path.suffix.lower() == ".csv" and NUMBERS[0] in head else ("transformation",)
    rows = read_rows(path, ("id", *columns), None)
    found = distinct((row.at, row.name("id"), _prediction(row, columns)) for row in rows)
    return {prediction.id: prediction for prediction in found}


def _prediction(row: Row, columns: Sequence[str]) -> Prediction:
    cells = [row.values.get(name) for name in columns]
    # nested lists are flattened, and the reader of numbers reports anything else
    numbers = " ".join(map(str, cells)).replace("[", " ").replace("]", " ")
    pose = None if all(cell is None for cell in cells) else pose_of_numbers(numbers, row.at)
    reason, told = row.values.get("error"), row.values.get("seconds")
    try:
        seconds = None if told is None else float(str(told))
    except ValueError:
        seconds = np.nan
    is_time = seconds is None or 0 <= seconds < np.inf
    require(is_time, f"{row.at}: found seconds = {told!r:.40}, expected a number from 0")
    failure = reason if isinstance(reason, str) and reason else "the file has no answer"
    return Prediction(row.name("id"), row.at, pose, failure, seconds)
