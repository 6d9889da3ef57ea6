"""Rigid bodies: a surface that is seen, and the convex pieces that touch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.spatial import ConvexHull

from bitr.io import Geometry


@dataclass(frozen=True, eq=False)
class Body:
    """An object in its own frame, in metres, with the z axis up as it stands."""

    name: str
    surface: Geometry
    pieces: tuple[Float64[np.ndarray, "_ 3"], ...]
    """Corners of convex pieces that together fill the body; holes between them stay open."""

    @property
    def size(self) -> float:
        """The diagonal of its box."""
        return float(np.linalg.norm(np.ptp(self.surface.points, axis=0)))

    def moved(self, matrix: Float64[np.ndarray, "4 4"]) -> Body:
        turn, shift = matrix[:3, :3].T, matrix[:3, 3]
        return Body(self.name, self.surface.moved(matrix), tuple(p @ turn + shift for p in self.pieces))

    def about_center(self) -> Body:
        """The same body with its centre of mass at the origin, as the simulator counts poses."""
        matrix = np.eye(4)
        matrix[:3, 3] = -center_of_mass(self.pieces)
        return self.moved(matrix)


def center_of_mass(pieces: tuple[Float64[np.ndarray, "_ 3"], ...]) -> Float64[np.ndarray, " 3"]:
    """Of convex pieces of one density; where pieces overlap, the overlap counts twice."""
    weights = np.array([ConvexHull(piece).volume for piece in pieces])
    # the mean of the corners is the centre of a wedge or prism up to what does not matter here
    centers = np.stack([piece.mean(axis=0) for piece in pieces])
    return weights @ centers / weights.sum()


def joined(name: str, *bodies: Body) -> Body:
    """Bodies that are stuck together as they lie."""
    starts = np.cumsum([0, *(len(body.surface.points) for body in bodies)])
    faces = [
        body.surface.faces + start
        for body, start in zip(bodies, starts, strict=False)
        if body.surface.faces is not None
    ]
    points = np.concatenate([body.surface.points for body in bodies])
    surface = Geometry(points, faces=np.concatenate(faces), name=name)
    return Body(name, surface, tuple(piece for body in bodies for piece in body.pieces))
