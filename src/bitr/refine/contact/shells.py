"""A solid that closed surfaces bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bitr.refine.contact.shell import ON, Shell, directed_edges, volume
from bitr.refine.contact.signed import Signed
from bitr.refine.frame import Points

FLAT = 1e-9
"""Volume that is none, of a cube as wide as the part."""


@dataclass(frozen=True, eq=False)
class Shells:
    """Parts of one mesh that may overlap, as a mug and its handle: the solid is what any of them holds."""

    shells: tuple[Shell, ...]
    low: Float64[np.ndarray, " 3"]
    high: Float64[np.ndarray, " 3"]
    """Corners of a box around all."""

    @classmethod
    def of(cls, points: Points, faces: Int64[np.ndarray, "f 3"]) -> Shells | None:
        """Of a mesh for which ``is_closed``; None where no part of it holds a volume.

        A part is a hollow if it lies in another part, faces the other way, and that one is no hollow. All
        else is solid, and turned where it is inside out.
        """
        parts = [part for part in connected(faces) if not is_flat(points[part])]
        if not parts:
            return None
        parts.sort(key=lambda part: -abs(volume(points[part])))
        proper = [volume(points[part]) > 0 for part in parts]
        parts = [part if right else part[:, ::-1] for part, right in zip(parts, proper, strict=True)]
        shells = [Shell.of(points, part) for part in parts]
        hollows: dict[int, list[int]] = {i: [] for i in range(len(parts))}
        for i, around in enumerate(surroundings(shells)):
            if around in hollows and proper[i] != proper[around]:
                hollows[around].append(i)
                del hollows[i]
        for i, own in hollows.items():
            if own:
                shells[i] = Shell.of(points, np.concatenate([parts[i], *(parts[j][:, ::-1] for j in own)]))
        used = points[np.concatenate(parts)].reshape(-1, 3)
        return cls(tuple(shells[i] for i in hollows), used.min(0), used.max(0))

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


def surroundings(shells: list[Shell]) -> list[int | None]:
    """Of shells from large to small: the number of the smallest one that holds all of each; None outside."""
    low = np.stack([shell.triangles.min((0, 1)) for shell in shells])
    high = np.stack([shell.triangles.max((0, 1)) for shell in shells])
    found: list[int | None] = []
    for i, shell in enumerate(shells):
        boxes = ((low[:i] <= low[i] + ON) & (high[:i] >= high[i] - ON)).all(1)
        corners = shell.triangles.reshape(-1, 3)
        around = (j for j in np.flatnonzero(boxes)[::-1] if (shells[j].signed(corners).distance <= ON).all())
        found.append(next(map(int, around), None))
    return found


def is_flat(triangles: Float64[np.ndarray, "f 3 3"]) -> bool:
    """Whether closed triangles enclose nothing, as the two sides of a sheet."""
    width = float(np.ptp(triangles.reshape(-1, 3), axis=0).max())
    return abs(volume(triangles)) <= FLAT * width**3


def connected(faces: Int64[np.ndarray, "f 3"]) -> list[Int64[np.ndarray, "_ 3"]]:
    """The faces of each part that hangs together."""
    edges, n = directed_edges(faces), int(faces.max()) + 1
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    label = connected_components(graph, directed=False)[1][faces[:, 0]]
    return [faces[label == each] for each in np.unique(label)]
