"""What is measured of one answer to one pair."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.data.poses import nearest_pose
from bitr.evaluation import metrics
from bitr.evaluation.right import is_right
from bitr.io import as_points, even_draw

UNRELATED = "the pieces do not belong together"
MOST_POINTS = 20_000
"""Of a cloud, in metrics that compare clouds; of a mesh, so many are drawn on its surface."""


@dataclass(frozen=True)
class Errors:
    """Of a pose, against the nearest of the right answers; lengths in the unit of the pair."""

    rotation_error_deg: float
    translation_error: float
    displacement: float
    part_chamfer: float
    shape_chamfer: float
    add_s: float
    registration_rmse: float | None
    """Only of pairs in metres, and where the pieces overlap."""


ERRORS = tuple(Errors.__dataclass_fields__)


@dataclass(frozen=True, eq=False)
class Score:
    """One row of an evaluation: the answer and its errors, or why there is none."""

    id: str
    unit: str
    seconds: float | None
    """What the answer took; None where nobody measured it."""
    transformation: Float64[np.ndarray, "4 4"] | None
    errors: Errors | None
    failure: str | None
    """The reason why there is no answer; None where there is one."""
    right: bool = False
    """Whether the pose is within 15° and a tenth of the assembled shape's radius of a right one."""
    confidence: float | None = None
    """The method's own, where it has one."""

    @property
    def scene(self) -> str:
        """The part of the id before the last slash: the place that a pair of scans is from."""
        return self.id.rpartition("/")[0]

    def to_dict(self) -> dict[str, Any]:
        pose = None if self.transformation is None else self.transformation.tolist()
        errors = dict.fromkeys(ERRORS) if self.errors is None else asdict(self.errors)
        rest = {
            "right": self.right,
            "confidence": self.confidence,
            "seconds": self.seconds,
            "failure": self.failure,
        }
        return {"id": self.id, "transformation": pose, **errors, **rest}


def answered(
    pair: AssemblyPair,
    pose: Float64[np.ndarray, "4 4"],
    seconds: float | None,
    confidence: float | None = None,
) -> Score:
    """The score of an answer; one that is no rigid motion raises. Unrelated pieces have no right answer."""
    pose = nearest_pose(pose, pair.id)
    if not pair.related:
        return Score(pair.id, pair.unit, seconds, pose, None, UNRELATED, False, confidence)
    errors = errors_of(pair, pose)
    return Score(pair.id, pair.unit, seconds, pose, errors, None, is_right(pair, pose), confidence)


def failed(pair: AssemblyPair, reason: str, seconds: float | None) -> Score:
    return Score(pair.id, pair.unit, seconds, None, None, reason)


def errors_of(pair: AssemblyPair, pose: Float64[np.ndarray, "4 4"]) -> Errors:
    """All errors of a pose; where the pair has symmetries, against the right answer nearest to it."""
    all_x, all_y = (as_points(side, MOST_POINTS, seed=0).points for side in (pair.source, pair.reference))
    x, y = _some(all_x), _some(all_y)
    symmetry = np.eye(4)[None] if pair.symmetry is None else pair.symmetry
    truth = metrics.nearest_truth(pose, pair.ref_from_src @ symmetry, all_x, all_y, pair.axis)
    return Errors(
        rotation_error_deg=metrics.rotation_error_deg(pose, truth),
        translation_error=metrics.translation_error(pose, truth),
        displacement=metrics.displacement(pose, truth, all_x, all_y),
        part_chamfer=metrics.part_chamfer(pose, truth, x),
        shape_chamfer=metrics.shape_chamfer(pose, truth, x, y),
        add_s=metrics.add_s(pose, truth, x),
        registration_rmse=_rmse(pose, truth, x, y) if pair.unit == "m" else None,
    )


def _some(points: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, "m 3"]:
    return points[even_draw(len(points), MOST_POINTS, seed=0)]


def _rmse(
    pose: Float64[np.ndarray, "4 4"],
    truth: Float64[np.ndarray, "4 4"],
    x: Float64[np.ndarray, "n 3"],
    y: Float64[np.ndarray, "m 3"],
) -> float | None:
    shared = metrics.overlap(x, y, truth)
    return metrics.registration_rmse(pose, truth, metrics.information_matrix(shared)) if len(shared) else None
