"""Answers of the engine that were never computed; for the tests of pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bitr.assembly.assemble import Assembly, Hypothesis


def hypothesis(pose: np.ndarray, weight: float = 1.0, method: str = "seam") -> Hypothesis:
    """One as the engine makes it, with numbers of its own."""
    return Hypothesis(pose, weight, method, "match", 0.5, 0.1, {"overlap_larger": 0.25, "seam": 0.75})


def assembly_of(poses: Sequence[np.ndarray], **more: Any) -> Assembly:
    """An answer with these hypotheses, all of equal weight."""
    hypotheses = tuple(hypothesis(pose, 1 / len(poses)) for pose in poses)
    known: dict[str, Any] = {"status": "ok", "reason": None} | more
    return Assembly(
        transformation=hypotheses[0].transformation,
        confidence=0.5,
        method="seam",
        evidence=hypotheses[0].evidence,
        hypotheses=hypotheses,
        fitness=0.1,
        inlier_rmse=None,
        penetration_before=None,
        penetration_after=None,
        seconds=1.0,
        model="default",
        source="x.ply",
        reference="y.ply",
        warnings=(),
        source_keypoints=np.zeros((4, 3)),
        reference_keypoints=np.zeros((4, 3)),
        singular_gap=1.0,
        **known,
    )
