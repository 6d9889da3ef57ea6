"""On which side of a surface points are, how far from it, and which way leads out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from bitr.refine.frame import Points


@dataclass(frozen=True, eq=False)
class Signed:
    """One row for each point asked for."""

    distance: Float64[np.ndarray, " n"]
    """To the surface, negative inside; infinite where nothing is known, or the point is far outside."""
    outward: Points
    """Of length 1: the way in which the distance grows."""

    @classmethod
    def joined(cls, parts: Sequence[Signed]) -> Signed:
        """Of points that were asked for in parts."""
        return cls(
            np.concatenate([np.zeros(0), *(part.distance for part in parts)]),
            np.concatenate([np.zeros((0, 3)), *(part.outward for part in parts)]),
        )


def unit_rows(vectors: Points) -> Points:
    """Of length 1; rows of zeros stay."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
