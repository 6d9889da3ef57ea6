"""A piece as a solid: places on its surface, and how deep in it the places of another piece are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int64
from small_gicp import KdTree

from bitr.io import Geometry, even_draw, sample_surface
from bitr.refine.contact.oriented import oriented
from bitr.refine.contact.shell import directed_edges, is_closed
from bitr.refine.contact.shells import Shells
from bitr.refine.contact.signed import Signed
from bitr.refine.frame import Points
from bitr.refine.surface import NUM_NEIGHBORS, Surface

PROBES = 2000
"""Places on a mesh, beside as many of its corners; points of a cloud."""
EXACT = 1e-4
"""Depth that is none, of the unit of length, where distances are exact."""
NOISY = 0.5
"""The same for a cloud, of its spacing: points scatter, and planes stand for curved surfaces."""
LONELY = 2
"""The deepest places of a cloud that are not believed: stray points."""


@runtime_checkable
class Inside(Protocol):
    """What tells inside from outside."""

    def signed(self, points: Points) -> Signed: ...


@dataclass(frozen=True, eq=False)
class Solid:
    """All in coordinates without a unit; it turns with the piece."""

    probes: Points
    inside: Inside | None
    """None where nothing tells the inside from the outside."""
    tolerance: float
    lonely: int

    @classmethod
    def of(cls, geometry: Geometry) -> Solid:
        """A closed mesh; or an oriented mesh that is open, or a cloud with normals, as oriented points."""
        if geometry.faces is not None:
            points, faces = welded(geometry.points, geometry.faces)
            sample = sample_surface(geometry, PROBES, seed=0)
            if is_closed(faces):
                corners = points[even_draw(len(points), PROBES, seed=0)]
                return cls(np.concatenate([corners, sample.points]), Shells.of(points, faces), EXACT, 0)
            geometry = sample if is_oriented(faces) else replace(sample, normals=None)
        rows = even_draw(len(geometry.points), PROBES, seed=0)
        surface = Surface.of(geometry.points[rows])
        inside = None if geometry.normals is None else oriented(surface, geometry.normals[rows])
        return cls(surface.points, inside, NOISY * surface.spacing, LONELY)

    @cached_property
    def neighbors(self) -> Int64[np.ndarray, "n _"]:
        """Numbers of the probes that are nearest to each, itself among them."""
        most = min(NUM_NEIGHBORS, len(self.probes))
        return KdTree(self.probes).batch_knn_search(self.probes, most)[0].view(np.int64)


def is_oriented(faces: Int64[np.ndarray, "f 3"]) -> bool:
    """Whether neighbours agree on which side is outside: no edge is used twice in one direction."""
    edges = directed_edges(faces)
    return len(np.unique(edges, axis=0)) == len(edges)


def welded(points: Points, faces: Int64[np.ndarray, "f 3"]) -> tuple[Points, Int64[np.ndarray, "_ 3"]]:
    """Corners at one place as one, by their first use in the faces; faces that lose a corner are dropped."""
    corners = points[faces].reshape(-1, 3)
    _, first, same = np.unique(corners, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # of places by coordinates, which change as the piece turns
    renamed = np.argsort(order)[same.reshape(-1, 3)]
    proper = (renamed != np.roll(renamed, 1, axis=1)).all(1)
    return corners[first[order]], renamed[proper]
