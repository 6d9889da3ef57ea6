"""A solid that closed surfaces bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bitr.refine.frame import Points
from bitr.refine.shell import Shell, directed_edges, volume
from bitr.refine.signed import Signed


@dataclass(frozen=True, eq=False)
class Shells:
    """Parts of one mesh that may overlap, as a mug and its handle: the solid is what any of them holds."""

    shells: tuple[Shell, ...]
    low: Float64[np.ndarray, " 3"]
    high: Float64[np.ndarray, " 3"]
    """Corners of a box around all."""

    @classmethod
    def of(cls, points: Points, faces: Int64[np.ndarray, "f 3"]) -> Shells:
        """Of a mesh for which ``is_closed``; one that is inside out is turned."""
        if volume(points[faces]) < 0:
            faces = faces[:, ::-1]
        parts = connected(faces)
        if any(volume(points[part]) <= 0 for part in parts):
            parts = [faces]  # a part that is inside out bounds a hollow in another
        used = points[faces].reshape(-1, 3)
        return cls(tuple(Shell.of(points, part) for part in parts), used.min(0), used.max(0))

    def signed(self, points: Points) -> Signed:
        """The smallest of the shells' distances: inside, out of the deepest; infinite outside the box."""
        near = np.flatnonzero(((points >= self.low) & (points <= self.high)).all(1))
        distance, outward = np.full(len(points), np.inf), np.zeros_like(points)
        for shell in self.shells:
            found = shell.signed(points[near])
            smaller = found.distance < distance[near]
            distance[near[smaller]] = found.distance[smaller]
            outward[near[smaller]] = found.outward[smaller]
        return Signed(distance, outward)


def connected(faces: Int64[np.ndarray, "f 3"]) -> list[Int64[np.ndarray, "_ 3"]]:
    """The faces of each part that hangs together."""
    edges, n = directed_edges(faces), int(faces.max()) + 1
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    label = connected_components(graph, directed=False)[1][faces[:, 0]]
    return [faces[label == each] for each in np.unique(label)]
