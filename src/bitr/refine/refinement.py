"""What a refinement gives back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64


@dataclass(frozen=True, eq=False)
class Refinement:
    """A pose after refinement; where ``moved`` is False it is the pose that came in, to the last bit."""

    pose: Float64[np.ndarray, "4 4"]
    moved: bool
    reason: str
    """Why the pose was moved or left, in words."""
    iterations: int = 0
    overlap: float = 0.0
    """Share of the points that lie on the other piece's surface where the search ended, from 0 to 1: of the
    piece that has more of them. ``bitr.refine.overlap`` says when a point does."""


def left(pose: Float64[np.ndarray, "4 4"], reason: str) -> Refinement:
    """The pose as it came in."""
    return Refinement(pose, False, reason)
