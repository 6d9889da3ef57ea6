"""What comes back: the pose, how well the pieces fit, and what was used."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitr.io.geometry import Geometry


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One possible pose and its share of the belief; the weights of all hypotheses add up to 1."""

    transformation: Float64[np.ndarray, "4 4"]
    weight: float


@dataclass(frozen=True, eq=False)
class Assembly:
    """The answer for one pair: ``transformation`` takes the source onto the reference (column vectors).

    Lengths are in the unit of the inputs.
    """

    transformation: Float64[np.ndarray, "4 4"]
    confidence: float | None
    """Chance from 0 to 1 that the pose is right. None for weights without a calibration for this refinement,
    for a degenerate pair, and where of several hypotheses another than the model's own comes first."""
    hypotheses: tuple[Hypothesis, ...]
    """Best first; those of a symmetric piece that differ by a symmetry have equal weights."""
    fitness: float
    """Share of points with a partner on the other piece, from 0 to 1; pieces that only touch have few."""
    inlier_rmse: float | None
    """Root mean square distance of those partners; None when there are none."""
    penetration_before: float | None
    """How deep one piece reaches into the other before they are separated; None where that was not asked for,
    or where nothing tells the inside of a piece."""
    penetration_after: float | None
    ambiguous: bool
    """Other poses fit as well: a piece is symmetric, or the model's rotation is not determined."""
    degenerate: bool
    """A piece has no shape to go by: too few points, or all on a plane, on a line or at one place."""
    reason: str | None
    """Why, in words, for an answer that is ambiguous or degenerate."""
    seconds: float
    """Of everything but reading and writing files."""
    model: str
    refine: str
    source: str
    reference: str
    warnings: tuple[str, ...]
    source_keypoints: Float64[np.ndarray, "l 3"]
    reference_keypoints: Float64[np.ndarray, "l 3"]
    singular_gap: float
    """Near 0 the rotation is not determined: the shape is symmetric or degenerate."""

    def moved(self, source: Geometry) -> Geometry:
        """The source, or any other geometry in its coordinates, put in its place on the reference."""
        rotation, translation = self.transformation[:3, :3], self.transformation[:3, 3]
        normals = None if source.normals is None else source.normals @ rotation.T
        return replace(source, points=source.points @ rotation.T + translation, normals=normals)

    def to_json(self) -> str:
        """One JSON object in one line, plain ASCII; what is not known is null."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """The keys and values of ``to_json``."""
        return {
            "transformation": self.transformation.tolist(),
            "confidence": self.confidence,
            "hypotheses": [
                {"transformation": h.transformation.tolist(), "weight": h.weight} for h in self.hypotheses
            ],
            "fitness": self.fitness,
            "inlier_rmse": self.inlier_rmse,
            "penetration_before": self.penetration_before,
            "penetration_after": self.penetration_after,
            "ambiguous": self.ambiguous,
            "degenerate": self.degenerate,
            "reason": self.reason,
            "seconds": self.seconds,
            "model": self.model,
            "refine": self.refine,
            "source": self.source,
            "reference": self.reference,
            "warnings": list(self.warnings),
        }
