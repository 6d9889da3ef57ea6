"""Rows of pairs as a batch gives them, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def row_of(poses: Sequence[np.ndarray], confidence: float, method: str = "seam") -> dict[str, Any]:
    """The first hypothesis has most of the weight."""
    weight = [1.0, *(0.1 for _ in poses[1:])][: len(poses)]
    confidences = [confidence, *(0.1 * (1 - confidence) for _ in poses[1:])][: len(poses)]
    return {
        "status": "ok" if confidence >= 0.5 else "unsure",
        "confidence": confidence,
        "method": method,
        "seconds": 0.0,
        "error": None,
        "hypotheses": [
            {"transformation": pose.tolist(), "weight": w / sum(weight), "confidence": c, "method": method}
            for pose, w, c in zip(poses, weight, confidences, strict=True)
        ],
    }
