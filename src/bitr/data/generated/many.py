"""Puzzles of many pieces: generated objects cut by planes or broken, with foreign and missing pieces.

``shapes:many`` is endless and needs no download; item i depends on (split, seed, i) alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

import numpy as np

from bitr.data.generated.dataset import COUNTS, HELD_OUT, ShapesConfig, num_solids
from bitr.data.generated.fracture import FIRST, WHOLE, ShapeCache, cache_folder
from bitr.data.pair import PuzzleCase, seeded_generator
from bitr.data.poses import inverse, random_pose
from bitr.data.storage import SPLITS
from bitr.data.transforms import jitter, sample_by_area, split, take
from bitr.errors import InputError
from bitr.io import Geometry

KINDS = ("cut", "fracture")
SHARE = (0.35, 0.65)
"""Range of the share of a piece's points on the first side of a cut."""
NAME = "shapes:many"


@dataclass(frozen=True)
class ManyConfig:
    """Settings of a puzzle; lengths are in a unit in which every shape fits a ball of radius 1."""

    kind: str | None = None
    """``cut``: the surface of a solid, cut by planes; ``fracture``: the solid, broken; None: in turns."""
    pieces: tuple[int, int] = (3, 10)
    """Fewest and most pieces of the object."""
    foreign: int | None = None
    """Pieces of another object that was cut alike; None: one in every third puzzle."""
    missing: int | None = None
    """Pieces that are taken away; None: one in every third puzzle of four pieces or more."""
    points: int = 1000
    """Mean number of points of a piece."""
    noise: float = 0.0025
    """Standard deviation of each coordinate."""

    def __post_init__(self) -> None:
        low, high = self.pieces
        rules = {
            "kind": self.kind is None or self.kind in KINDS,
            "pieces": 2 <= low <= high <= 10,
            "foreign": self.foreign is None or 0 <= self.foreign <= low,
            "missing": self.missing is None or 0 <= self.missing <= low - 2,
            "points": self.points >= 50,
            "noise": self.noise >= 0,
        }
        for name, is_kept in rules.items():
            if not is_kept:
                raise InputError(f"ManyConfig: {name} = {getattr(self, name)!r} is out of range")


@dataclass(frozen=True, eq=False)
class Puzzles(Sequence[PuzzleCase]):
    """A lazy sequence of puzzles; consecutive ones are of different objects."""

    split: str
    seed: int
    config: ManyConfig
    folder: Path
    rows: range

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> PuzzleCase: ...
    @overload
    def __getitem__(self, index: slice) -> Puzzles: ...
    def __getitem__(self, index: int | slice) -> PuzzleCase | Puzzles:
        if isinstance(index, slice):
            return replace(self, rows=self.rows[index])
        i = self.rows[index]
        return self._make(i, seeded_generator(NAME, self.split, self.seed, i))

    def _make(self, i: int, rng: np.random.Generator) -> PuzzleCase:
        config, solids = self.config, num_solids(self.split, ShapesConfig())
        kind = config.kind or KINDS[i % len(KINDS)]
        count = int(rng.integers(config.pieces[0], config.pieces[1] + 1))
        missing, foreign = config.missing, config.foreign
        if missing is None:
            missing = int(count >= 4 and rng.random() < 1 / 3)
        if foreign is None:
            foreign = int(rng.random() < 1 / 3)
        own = self._pieces(i % solids, kind, count, rng)
        chosen = rng.permutation(len(own))[: len(own) - missing]
        listed = [(own[int(k)], 0) for k in chosen]
        if foreign:
            other = self._pieces((i + HELD_OUT // 2) % solids, kind, count, rng)
            listed += [(other[int(k)], 1) for k in rng.permutation(len(other))[:foreign]]
        listed = [listed[int(k)] for k in rng.permutation(len(listed))]
        motions = [random_pose(rng, 1.0) for _ in listed]
        pieces = [
            replace(jitter(piece, config.noise, rng).moved(motion), name=f"piece-{k}")
            for k, ((piece, _), motion) in enumerate(zip(listed, motions, strict=True))
        ]
        id = f"{self.split}/{i}/{kind}-{len(listed)}"
        places = np.stack([inverse(motion) for motion in motions])
        return PuzzleCase(tuple(pieces), places, tuple(number for _, number in listed), id)

    def _pieces(self, number: int, kind: str, count: int, rng: np.random.Generator) -> list[Geometry]:
        """The pieces of an object, in place."""
        seed = FIRST[self.split] + number
        if kind == "fracture":
            broken = ShapeCache(self.folder, (count, count)).get(seed)
            return [sample_by_area(broken.surface(node), self.config.points, rng) for node in broken.pieces]
        whole = ShapeCache(self.folder, ShapesConfig().pieces).get(seed).surface(WHOLE)
        cloud = sample_by_area(whole, count * self.config.points, rng)
        return cut_by_planes(replace(cloud, normals=None), count, rng)


def puzzles(
    split: str = "test", root: Path | None = None, seed: int = 0, config: ManyConfig | None = None
) -> Puzzles:
    """Puzzles of the objects of a split; no object is in two splits."""
    if split not in SPLITS:
        raise InputError(f"{NAME}: no split {split!r}, expected one of {', '.join(SPLITS)}")
    if seed < 0:
        raise InputError(f"{NAME}: seed = {seed}, expected 0 or more")
    return Puzzles(split, seed, config or ManyConfig(), cache_folder(root), range(COUNTS[split]))


def cut_by_planes(cloud: Geometry, count: int, rng: np.random.Generator) -> list[Geometry]:
    """Cut a cloud into ``count`` pieces, always through the piece with the most points."""
    pieces = [take(cloud, np.arange(len(cloud.points)))]
    while len(pieces) < count:
        largest = max(range(len(pieces)), key=lambda k: len(pieces[k].points))
        pieces[largest : largest + 1] = split(pieces[largest], rng.uniform(*SHARE), rng)
    return pieces
