"""What is known after pieces were brought out of each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64


@dataclass(frozen=True, eq=False)
class Separation:
    """A pose after separation; where ``moved`` is False it is the pose that came in, to the last bit.

    Lengths are in the unit of the pieces.
    """

    pose: Float64[np.ndarray, "4 4"]
    depth_before: float | None
    """How deep the deepest place of either piece is in the other; None where nothing tells inside from
    outside."""
    depth_after: float | None
    moved: bool
    reason: str
    """Why the pose was moved or left, in words."""
    free: bool = False
    """Whether the pieces are out of each other now."""
    way: float = 0.0
    """Root mean square way of the points of both pieces against each other."""
