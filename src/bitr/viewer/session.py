"""What one person has in front of them: two pieces, where they stand, and what the answer must be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from bitr.data.poses import inverse, pose
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.viewer.changes import Changes
from bitr.viewer.piece import Piece

SCALES = (0.25, 4.0)
HYPOTHESES = 5
"""How many poses are shown at most, unless asked for more or fewer."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What Φ is asked before anything is moved: two pieces X and Y, and how the answer is made."""

    pieces: tuple[Piece, Piece]
    method: str = "auto"
    hypotheses: int = HYPOTHESES
    """How many poses at most."""
    points: int | None = None
    """Of each cloud that the model sees; None: as many as the weights are for."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where a piece stands: how it is turned, and where its middle is."""

    rotation: Float64[np.ndarray, "3 3"]
    middle: Float64[np.ndarray, " 3"]


@dataclass(frozen=True, eq=False)
class Session:
    """The two pieces as they were moved by hand.

    Methods give a new session, or the same object where nothing is new; nothing changes in place.
    Piece 0 stands at g₁ c X and piece 1 at g₂ c Y; when swapped, piece 1 is the source.
    """

    problem: Problem
    places: tuple[Place, Place]
    scale: float = 1.0
    swapped: bool = False
    choice: int = 0
    """Which hypothesis is shown; the first is the best."""

    @property
    def order(self) -> tuple[int, int]:
        """Which piece is the source, and which the reference."""
        return (1, 0) if self.swapped else (0, 1)

    def moved(self, index: int, place: Place) -> Session:
        """One piece put somewhere else."""
        places = (place, self.places[1]) if index == 0 else (self.places[0], place)
        return replace(self, places=places)

    def like(self, other: Session) -> bool:
        """Whether only motions of the pieces lie between this session and another, and what is looked at."""
        same = self.problem is other.problem and self.scale == other.scale
        return same and self.swapped == other.swapped

    def at_files(self) -> Session:
        """The pieces as they lie in their files."""
        x, y = (Place(np.eye(3), piece.middle) for piece in self.problem.pieces)
        return Session(self.problem, (x, y), choice=self.choice)

    def scaled(self, factor: float) -> Session:
        """Both pieces larger or smaller, each about its middle, where that stands."""
        if not SCALES[0] <= factor <= SCALES[1]:
            raise InputError(f"scale = {factor!r}: expected a number from {SCALES[0]:g} to {SCALES[1]:g}")
        return self if factor == self.scale else replace(self, scale=factor)

    def with_swap(self) -> Session:
        """Source and reference exchanged; the pieces stay where they are."""
        return replace(self, swapped=not self.swapped)

    def choosing(self, choice: int) -> Session:
        """Another hypothesis shown."""
        return self if choice == self.choice else replace(self, choice=max(choice, 0))

    def supposing(self, hypotheses: int) -> Session:
        """So many hypotheses at most."""
        if hypotheses == self.problem.hypotheses:
            return self
        return replace(self, problem=replace(self.problem, hypotheses=hypotheses), choice=0)

    def by(self, method: str) -> Session:
        """Another kind of joint."""
        if method == self.problem.method:
            return self
        return replace(self, problem=replace(self.problem, method=method), choice=0)

    def changed(self, index: int, changes: Changes) -> Session:
        """One piece cut, noisy, among outliers, as the sliders say."""
        pieces = list(self.problem.pieces)
        pieces[index] = replace(pieces[index], changes=changes)
        return replace(self, problem=replace(self.problem, pieces=(pieces[0], pieces[1])))

    def motion(self, index: int) -> Float64[np.ndarray, "4 4"]:
        """g₁ or g₂: takes the scaled piece of the file to where it stands."""
        place = self.places[index]
        return pose(
            place.rotation,
            place.middle - place.rotation @ (self.scale * self.problem.pieces[index].middle),
        )

    def inputs(self) -> tuple[Geometry, Geometry]:
        """What the engine is given: source and reference, as they stand."""
        x, y = (self.standing(index, self.problem.pieces[index].given) for index in self.order)
        return x, y

    def standing(self, index: int, geometry: Geometry) -> Geometry:
        """Any geometry of a piece's file, where the piece stands."""
        return replace(geometry, points=self.scale * geometry.points).moved(self.motion(index))

    def expected(self, base: Float64[np.ndarray, "4 4"]) -> Float64[np.ndarray, "4 4"]:
        """The answer by the laws, from Φ(X, Y): g₂ (c·Φ) g₁⁻¹, and its inverse when swapped."""
        return self.on_pieces(inverse(base) if self.swapped else base)

    def on_pieces(self, found: Float64[np.ndarray, "4 4"]) -> Float64[np.ndarray, "4 4"]:
        """A pose of the files, for the pieces as they stand: it is carried along with them."""
        source, reference = self.order
        larger = pose(found[:3, :3], self.scale * found[:3, 3])
        return self.motion(reference) @ larger @ inverse(self.motion(source))

    def on_files(self, found: Float64[np.ndarray, "4 4"]) -> Float64[np.ndarray, "4 4"]:
        """A pose of the pieces as they stand, for the files as they are: what is worth keeping."""
        source, reference = self.order
        back = inverse(self.motion(reference)) @ found @ self.motion(source)
        return pose(back[:3, :3], back[:3, 3] / self.scale)
