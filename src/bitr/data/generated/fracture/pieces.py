"""A broken solid: the surfaces of its pieces, and which of them fit together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Int16, Int32

from bitr.io import Geometry

OUTSIDE = -1
"""In place of a cut: the surface of the solid before it broke."""
WHOLE = 0
"""The node that is the whole solid."""


@dataclass(frozen=True, eq=False)
class Fracture:
    """All faces of all pieces, each with the piece that it bounds and the cut that made it.

    What was there before and between the cuts are nodes: 0 is the whole, cut c broke ``broke[c]`` into the
    nodes 2c + 1 and 2c + 2, and the pieces are the nodes that were not broken.
    """

    points: Float32[np.ndarray, "v 3"]
    faces: Int32[np.ndarray, "f 3"]
    piece: Int16[np.ndarray, " f"]
    cut: Int16[np.ndarray, " f"]
    broke: Int16[np.ndarray, " c"]
    fits: Int16[np.ndarray, "p 2"]
    """Pairs of nodes that have nothing in common and touch along much of where they are broken."""

    @property
    def pieces(self) -> list[int]:
        """The nodes that were not broken."""
        return [node for node in range(2 * len(self.broke) + 1) if node not in self.broke]

    def pieces_of(self, node: int) -> list[int]:
        """The pieces that a node broke into; a piece is its own."""
        cuts = np.flatnonzero(self.broke == node)
        return [p for c in cuts for side in (2 * c + 1, 2 * c + 2) for p in self.pieces_of(int(side))] or [
            node
        ]

    def cuts_within(self, node: int) -> list[int]:
        """The cuts through a node."""
        cuts = [int(c) for c in np.flatnonzero(self.broke == node)]
        return [
            c for cut in cuts for c in (cut, *self.cuts_within(2 * cut + 1), *self.cuts_within(2 * cut + 2))
        ]

    def bounding(self, node: int) -> Bool[np.ndarray, " f"]:
        """Which faces bound a node: those of its pieces, but for the cuts within it."""
        return np.isin(self.piece, self.pieces_of(node)) & ~np.isin(self.cut, self.cuts_within(node))

    def surface(self, node: int, cut: int | None = None) -> Geometry:
        """The surface of a node; with ``cut``, only what that cut made of it."""
        chosen = self.bounding(node)
        if cut is not None:
            chosen &= self.cut == cut
        return Geometry(self.points.astype(np.float64), faces=self.faces[chosen].astype(np.int64))
