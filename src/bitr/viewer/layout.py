"""Where the pieces stand at first, and from where they are seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.spatial.transform import Rotation

from bitr.io import even_draw
from bitr.pictures.scene import Scene
from bitr.pictures.stage import Shown, staged
from bitr.viewer.camera import Framing, View
from bitr.viewer.session import Place, Problem, Session

ENOUGH = 3000
"""Points of a cloud that say how large it is and which side to look at."""
BESIDE = 1.05
"""How far apart the pieces stand at first, in sums of their radii."""
ROOM = 1.06
"""Around what is seen."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The frame that is drawn in: p is shown at (p − origin) / unit.

    Whatever unit the files are in and wherever they lie, what is drawn is of order 1 and near the origin, so
    that the float32 of a browser is enough.
    """

    origin: Float64[np.ndarray, " 3"]
    unit: float
    view: Float64[np.ndarray, "3 3"]
    """Rows: the directions to the right, up, and towards the viewer."""
    radii: tuple[float, float]
    """Of the pieces, as they are drawn."""
    spacings: tuple[float, float]
    """How far apart neighbours would be if a piece were drawn with a thousand points."""

    def shown(self, point: Float64[np.ndarray, " 3"]) -> Float64[np.ndarray, " 3"]:
        return (point - self.origin) / self.unit

    def start(self, problem: Problem) -> Session:
        """The reference where it lies, the source beside it, neither turned."""
        apart = BESIDE * sum(self.radii) * self.unit * self.view[0]
        middle = problem.pieces[1].middle
        return Session(problem, (Place(np.eye(3), middle - apart), Place(np.eye(3), middle)))

    def place(self, wxyz: Float64[np.ndarray, " 4"], position: Float64[np.ndarray, " 3"]) -> Place:
        """Where a piece stands whose handle is drawn at ``position``, turned by ``wxyz``."""
        rotation = Rotation.from_quat(np.roll(wxyz, -1)).as_matrix()
        return Place(rotation, self.origin + self.unit * position)

    def framing(self, points: Float64[np.ndarray, "n 3"]) -> Framing:
        """All points in the picture, so that they fill it."""
        seen = points @ self.view.T
        middle = (seen.min(0) + seen.max(0)) / 2
        width, height, depth = ROOM * np.ptp(seen, axis=0) / 2

        def view(fov: float, aspect: float) -> View:
            back = max(height, width / aspect) / np.tan(fov / 2) + depth / 2
            return View((middle + np.array([0, 0, back])) @ self.view, middle @ self.view, self.view[1])

        return view


def layout(problem: Problem, ref_from_src: Float64[np.ndarray, "4 4"]) -> Layout:
    """Seen from where the assembled pair shows its broad side."""
    source, reference = (_some(piece.cloud.points) for piece in problem.pieces)
    stage = staged(Scene(source, reference, ref_from_src))
    unit = stage.source.radius + stage.reference.radius
    return Layout(
        problem.pieces[1].middle,
        unit,
        stage.view,
        (stage.source.radius / unit, stage.reference.radius / unit),
        (_spacing(stage.source) / unit, _spacing(stage.reference) / unit),
    )


def wxyz(rotation: Float64[np.ndarray, "3 3"]) -> Float64[np.ndarray, " 4"]:
    return np.roll(Rotation.from_matrix(rotation).as_quat(canonical=True), 1)


def _spacing(cloud: Shown) -> float:
    """At least something that can be seen: points that lie on each other have no distance."""
    return max(cloud.spacing * float(np.sqrt(len(cloud.points) / 1000)), 0.01 * cloud.radius)


def _some(points: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, "m 3"]:
    return points[even_draw(len(points), ENOUGH, seed=0)]
