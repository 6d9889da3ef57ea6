"""One side of what is viewed: a file, and what the sliders made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float64

from bitr.assembly.sample import DENSE, spread_draw
from bitr.data.transforms import take
from bitr.io import Geometry, as_points
from bitr.viewer.changes import Changes, changed

SEED = 0


@dataclass(frozen=True, eq=False)
class Piece:
    """A piece in the frame of its file. What is made of it is made once, however often the piece is moved."""

    file: Geometry
    changes: Changes = field(default_factory=Changes)

    @cached_property
    def middle(self) -> Float64[np.ndarray, " 3"]:
        """Of the file's bounding box, whatever the sliders say: the handle turns the piece about it."""
        points = self.file.points
        return points.min(0) / 2 + points.max(0) / 2

    @cached_property
    def cloud(self) -> Geometry:
        """All points, changed; a mesh by points of its surface."""
        return changed(as_points(self.file, DENSE, SEED), self.changes, SEED)

    @cached_property
    def dense(self) -> Geometry:
        """The points that the engine chooses from: those that ``bitr assemble`` would take."""
        return take(self.cloud, spread_draw(self.cloud.points, DENSE))

    @property
    def given(self) -> Geometry:
        """What the engine is given: a mesh as it is, unless the sliders changed it."""
        whole = self.file.faces is not None and self.changes == Changes()
        return self.file if whole else self.dense
