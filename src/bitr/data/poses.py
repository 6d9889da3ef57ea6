"""Rigid motions as 4×4 matrices, and the pairs and puzzles whose answers they are."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar, overload

import numpy as np
import torch
from jaxtyping import Float64
from scipy.spatial.transform import Rotation

from bitr.errors import InputError, require
from bitr.groups import nearest_rotation
from bitr.io import Geometry

T = TypeVar("T")
Pose = Float64[np.ndarray, "4 4"]
Vector = Float64[np.ndarray, " 3"]
Matrix = Float64[np.ndarray, "3 3"]
Points = Float64[np.ndarray, "n 3"]


def pose(rotation: Matrix, translation: Vector) -> Pose:
    """The motion x ↦ rotation·x + translation."""
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation, translation
    return matrix


def move_points(motion: Pose, points: Points) -> Points:
    """Apply a motion to points."""
    return points @ motion[:3, :3].T + motion[:3, 3]


def inverse(a_from_b: Float64[np.ndarray, "*s 4 4"]) -> Float64[np.ndarray, "*s 4 4"]:
    """``b_from_a``, for one motion or many."""
    back = np.zeros_like(a_from_b)
    back[..., :3, :3] = a_from_b[..., :3, :3].swapaxes(-1, -2)
    back[..., :3, 3] = -np.einsum("...ij,...j->...i", back[..., :3, :3], a_from_b[..., :3, 3])
    back[..., 3, 3] = 1
    return back


def turn_about(axis: Float64[np.ndarray, "2 3"], angle: float) -> Pose:
    """The right-handed turn by an angle, in radians, about the line from the first point to the second."""
    along = axis[1] - axis[0]
    rotation = Rotation.from_rotvec(angle * along / np.linalg.norm(along)).as_matrix()
    return pose(rotation, axis[0] - rotation @ axis[0])


def random_pose(rng: np.random.Generator, size: float) -> Pose:
    """A uniform rotation, and a normal translation of standard deviation ``size`` per axis."""
    rotation = Rotation.from_quat(rng.normal(size=4)).as_matrix()
    return pose(rotation, size * rng.normal(size=3))


def nearest_pose(matrix: Pose, name: str) -> Pose:
    """Project a rotation of few digits to SO(3); raise, naming it, if the matrix is no rigid motion."""
    check_rigid(matrix, f"{name}: the pose", 1e-2)  # 7-Scenes' poses are off by 6e-4
    rotation = torch.from_numpy(np.ascontiguousarray(matrix[:3, :3]))
    return pose(nearest_rotation(rotation).numpy(), matrix[:3, 3])


def check_rigid(matrix: Pose, what: str, most: float) -> None:
    """Raise unless this is a rotation and a translation, with RᵀR − I at most ``most``."""
    rotation = matrix[:3, :3]
    off = np.abs(rotation.T @ rotation - np.eye(3)).max() if np.isfinite(matrix).all() else np.inf
    fits = off <= most and np.linalg.det(rotation) > 0 and np.allclose(matrix[3], (0, 0, 0, 1), atol=1e-9)
    found = f"its rotation is off by {off:.1e}, its last row is {matrix[3].tolist()}"
    require(fits, f"{what} is no rigid motion ({found}), expected a rotation, a translation and 0 0 0 1")


def pose_of_numbers(text: str, name: str) -> Pose:
    """Parse a pose of 16 numbers, or 12 without the last row, separated by blanks, commas or line breaks."""
    words = text.replace(",", " ").replace(";", " ").split()
    try:
        numbers = np.array([float(word) for word in words])
    except ValueError as error:
        raise InputError(f"{name}: found {str(error)[-40:]}, expected the numbers of a 4×4 pose") from error
    require(numbers.size in (12, 16), f"{name}: found {numbers.size} numbers, expected 16 of a 4×4 pose")
    last = () if numbers.size == 16 else (0.0, 0.0, 0.0, 1.0)
    return nearest_pose(np.append(numbers, last).reshape(4, 4), name)


def read_text(path: Path, expected: str, at: str = "") -> str:
    """Read the text of a file; ``at`` is the place that names it, for errors."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "cannot be read as text" if path.is_file() else "no such file"
        raise InputError(f"{at}{path}: {why}, expected {expected}") from error


def read_pose(path: Path) -> Pose:
    """Read a pose from a text file of numbers, or from the JSON of an answer."""
    text = read_text(path, "a 4×4 pose")
    if path.suffix.lower() != ".json":
        return pose_of_numbers(text, str(path))
    try:
        matrix = np.array(json.loads(text)["transformation"], dtype=np.float64)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{path}: found no 4×4 list under the key transformation") from error
    require(matrix.shape == (4, 4), f"{path}: the transformation is {matrix.shape}, expected (4, 4)")
    return nearest_pose(matrix, str(path))


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


@dataclass(frozen=True, eq=False)
class Items(Sequence[T], Generic[T]):
    """A lazy sequence whose item i depends on (name, split, seed, i) alone; slices are such sequences too."""

    name: str
    split: str
    seed: int
    make: Callable[[int, np.random.Generator], T]
    rows: range

    def __post_init__(self) -> None:
        require(self.seed >= 0, f"{self.name}: seed = {self.seed}, expected 0 or more")

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Items[T]: ...
    def __getitem__(self, index: int | slice) -> T | Items[T]:
        if isinstance(index, slice):
            return replace(self, rows=self.rows[index])
        i = self.rows[index]
        return self.make(i, seeded_generator(self.name, self.split, self.seed, i))


class Pairs(Items[AssemblyPair]):
    """A lazy sequence of pairs."""


def reseed(pairs: Sequence[AssemblyPair], seed: int) -> Sequence[AssemblyPair]:
    """Sample the same pairs anew, as if opened with that seed; pairs from files stay as they are."""
    return replace(pairs, seed=seed) if isinstance(pairs, Pairs) else pairs


def seeded_generator(name: str, split: str, seed: int, i: int) -> np.random.Generator:
    """Make an independent random stream for each combination of arguments, the same on every machine."""
    key = zlib.crc32(f"{name}/{split}".encode())
    return np.random.default_rng(np.random.SeedSequence([key, seed, i]))
