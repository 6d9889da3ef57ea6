"""What a file holds: points, and faces where it is a mesh."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64


@dataclass(frozen=True)
class Geometry:
    """A point cloud or, with ``faces``, a mesh; all rows finite, in the unit of the file."""

    points: Float64[np.ndarray, "n 3"]
    normals: Float64[np.ndarray, "n 3"] | None = None
    colors: Float64[np.ndarray, "n 3"] | None = None
    """From 0 to 1."""
    faces: Int64[np.ndarray, "f 3"] | None = None
    name: str = "points"
    """The file it came from, for messages."""
    warnings: tuple[str, ...] = ()
    """What was done to it on reading, one sentence each: rows that were dropped."""
