"""Refinement on its own, from a pose that is near the right one: elsewhere it may find nothing to refine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from bitr.evaluation.certificate.pairs import overlapping_pair
from bitr.evaluation.certificate.routes import Route, Solve
from bitr.io import Geometry
from bitr.refine import REFINEMENTS, arun

POINTS = 300
TRIALS = 2
KNOWN = 4
"""Rows that the first pose is made of: so few that their noise leaves it up to ten degrees off."""


def refinement_routes() -> list[Route]:
    """Every refinement that moves a pose, on pieces that overlap by half."""
    return [
        Route(
            f"refine {name}, near the answer",
            _refining(refine),
            "float64",
            overlapping_pair(POINTS, noise=0.01),
            TRIALS,
        )
        for name, refine in REFINEMENTS.items()
        if name != "none"
    ]


def first_pose(source: Geometry, reference: Geometry) -> Float64[np.ndarray, "4 4"]:
    """Arun's method on a few rows that correspond: it keeps the laws."""
    x, y = (torch.from_numpy(piece.points[:KNOWN]) for piece in (source, reference))
    return arun(x, y).matrix().numpy()


def _refining(refine: Callable[..., Any]) -> Solve:
    def solve(source: Geometry, reference: Geometry) -> Float64[np.ndarray, "4 4"]:
        return refine(source.points, reference.points, first_pose(source, reference)).pose

    return solve
