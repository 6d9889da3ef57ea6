"""What a file holds: points, and faces where it is a mesh."""

from __future__ import annotations

from dataclasses import dataclass, replace

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

    def moved(self, matrix: Float64[np.ndarray, "4 4"]) -> Geometry:
        """The geometry under a rigid motion: points move, normals turn, colours and faces stay."""
        turn = matrix[:3, :3].T
        normals = None if self.normals is None else self.normals @ turn
        return replace(self, points=self.points @ turn + matrix[:3, 3], normals=normals)

    def painted(self, color: tuple[float, float, float]) -> Geometry:
        """The same geometry in one colour, given as red, green and blue from 0 to 1."""
        return replace(self, colors=np.tile(np.asarray(color, dtype=np.float64), (len(self.points), 1)))
