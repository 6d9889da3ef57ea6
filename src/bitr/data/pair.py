"""A pair or a puzzle to assemble with its answer, and lazy sequences of pairs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from jaxtyping import Float64

from bitr.data.poses import Pose, check_rigid
from bitr.errors import InputError
from bitr.io import Geometry

Make = Callable[[int, np.random.Generator], "AssemblyPair"]
"""(i, generator) → pair i."""


@dataclass(frozen=True, eq=False)
class AssemblyPair:
    """Two pieces and the motion that takes the source onto the reference (4×4, on column vectors)."""

    source: Geometry
    reference: Geometry
    ref_from_src: Pose
    id: str
    symmetry: Float64[np.ndarray, "s 4 4"] | None = None
    """Motions s of the source, including the identity, that give the same assembly: ``ref_from_src @ s`` is
    right too. None if unknown."""
    unit: str = ""
    """Unit of length: "m" for metres, empty for shapes scaled to size 1."""
    axis: Float64[np.ndarray, "2 3"] | None = None
    """Two points on the source's axis of revolution, if it has one. Turns about it give the same assembly;
    the motions of ``symmetry`` map it to itself."""
    related: bool = True
    """False if the pieces do not belong together: no pose is right, and ``ref_from_src`` has no meaning."""

    def __post_init__(self) -> None:
        check_rigid(self.ref_from_src, f"{self.id}: ref_from_src", 1e-6)


@dataclass(frozen=True, eq=False)
class PuzzleCase:
    """Pieces in any place, and where they belong."""

    pieces: tuple[Geometry, ...]
    whole_from_piece: Float64[np.ndarray, "n 4 4"]
    """The motion that takes each piece to its place in its object."""
    objects: tuple[int, ...]
    """Number of the object that each piece is of; 0 is the one that the puzzle is about."""
    id: str
    unit: str = ""
    """Unit of length: "m" for metres, empty for shapes of size 1."""


@dataclass(frozen=True, eq=False)
class Pairs(Sequence[AssemblyPair]):
    """A lazy sequence whose item i depends on (name, split, seed, i) alone; slices are such sequences too."""

    name: str
    split: str
    seed: int
    make: Make
    rows: range

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError(f"{self.name}: seed = {self.seed}, expected 0 or more")

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> AssemblyPair: ...
    @overload
    def __getitem__(self, index: slice) -> Pairs: ...
    def __getitem__(self, index: int | slice) -> AssemblyPair | Pairs:
        if isinstance(index, slice):
            return replace(self, rows=self.rows[index])
        i = self.rows[index]
        return self.make(i, seeded_generator(self.name, self.split, self.seed, i))


def reseed(pairs: Sequence[AssemblyPair], seed: int) -> Sequence[AssemblyPair]:
    """The same pairs sampled anew, as if opened with that seed; pairs from files stay as they are."""
    return replace(pairs, seed=seed) if isinstance(pairs, Pairs) else pairs


def seeded_generator(name: str, split: str, seed: int, i: int) -> np.random.Generator:
    """An independent random stream for each combination of arguments, the same on every machine."""
    key = zlib.crc32(f"{name}/{split}".encode())
    return np.random.default_rng(np.random.SeedSequence([key, seed, i]))
