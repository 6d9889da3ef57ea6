"""Pairs whose pieces do not belong together: a program should say that they do not fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bitr.data import openshapes, scans
from bitr.data.generated.dataset import MIXES, ShapesConfig, num_solids, shapes
from bitr.data.openshapes import DrawPairs, draw_pairs
from bitr.data.pair import AssemblyPair, Make, Pairs
from bitr.data.scans import INDOOR_GRID, INDOOR_SHIFT, Places, indoor_scenes
from bitr.data.transforms import assembled, move_randomly, sample_grid
from bitr.errors import require
from bitr.io import Geometry

NAME = "unrelated"
KINDS = ("open", "generated", "rooms", "mixed")
"""Halves of two open shapes, of two generated shapes, fragments of two scenes, and half of a generated with
half of an open shape; in turn."""
COUNTS = {"train": 100_000, "val": 200, "test": 100}
"""Number of pairs; for training the length of an epoch."""
HALVES = ("cut", "crop")
"""Options of ``shapes`` and ``openshapes`` that either side is half of a pair of."""
RATIO = 1.35
"""Largest ratio of the two sizes, either way."""
CANDIDATES = 12
"""Fragments of the other scene to choose the one most like the first in size from."""

Sides = tuple[Geometry, Geometry]


@dataclass(frozen=True, eq=False)
class _DrawUnrelated:
    split: str
    open: tuple[DrawPairs, ...]
    """One for each of ``HALVES``, as the next."""
    generated: tuple[Make, ...]
    count: int
    """Number of generated shapes."""
    rooms: Places
    other_rooms: Places

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        kind = KINDS[i % len(KINDS)]
        id = f"{self.split}/{i}/{kind}"
        if kind == "rooms":
            pair = move_randomly(assembled(*self.two_rooms(rng), id, unit="m"), rng, INDOOR_SHIFT)
        else:
            pair = move_randomly(assembled(*self.two_shapes(kind, rng), id), rng)
        return replace(pair, ref_from_src=np.eye(4), related=False)

    def two_shapes(self, kind: str, rng: np.random.Generator) -> Sides:
        """Halves of two shapes, cut alike and of similar sizes."""
        half = int(rng.integers(len(HALVES)))
        make_open, make_generated = self.open[half], self.generated[half]
        if kind == "open":
            first = int(rng.integers(len(make_open.objects)))
            families = [make_open.family(n) for n in range(len(make_open.objects))]
            second = int(rng.choice([n for n, own in enumerate(families) if own != families[first]]))
            source, reference = make_open(first, rng).source, make_open(second, rng).reference
        elif kind == "generated":
            first, second = (int(n) for n in rng.choice(self.count, 2, replace=False))
            source, reference = make_generated(first, rng).source, make_generated(second, rng).reference
        else:
            source = make_generated(int(rng.integers(self.count)), rng).source
            reference = make_open(int(rng.integers(len(make_open.objects))), rng).reference
            source, reference = (source, reference) if rng.random() < 0.5 else (reference, source)
        ratio = RATIO ** rng.uniform(-1, 1)
        factor = ratio * _size(reference) / _size(source)
        return replace(source, points=factor * source.points), reference

    def two_rooms(self, rng: np.random.Generator) -> Sides:
        """Fragments of two scenes of similar size, not scaled: all have the same grid, in metres."""
        place = str(rng.choice(sorted(self.rooms)))
        other = str(rng.choice(sorted(name for name in self.other_rooms if name != place)))
        own, others = self.rooms[place], self.other_rooms[other]
        first = sample_grid(own[int(rng.integers(len(own)))].load(), INDOOR_GRID)
        rows = rng.permutation(len(others))[:CANDIDATES]
        found = [sample_grid(others[int(row)].load(), INDOOR_GRID) for row in rows]
        second = min(found, key=lambda piece: abs(np.log(_size(piece) / _size(first))))
        return (first, second) if rng.random() < 0.5 else (second, first)


def _size(piece: Geometry) -> float:
    return float(np.linalg.norm(piece.points - piece.points.mean(axis=0), axis=1).max())


def _open(split: str, root: Path | None, seed: int) -> Pairs:
    configs = [MIXES[half][0] for half in HALVES]
    rooms = indoor_scenes(root, split)
    # validation and test have one scene each: its fragments are paired with those of training scenes
    others = rooms if len(rooms) > 1 else indoor_scenes(root, "train")
    names = ", ".join(sorted({*rooms, *others})) or "none"
    is_enough = rooms and len({*rooms, *others}) >= 2
    require(is_enough, f"{NAME}: the scenes of {split} are {names}, expected two or more")
    make = _DrawUnrelated(
        split,
        tuple(draw_pairs(split, root, config) for config in configs),
        tuple(shapes(split, root, config=config).make for config in configs),
        num_solids(split, ShapesConfig()),
        rooms,
        others,
    )
    return Pairs(NAME, split, seed, make, range(COUNTS[split]))


OPEN = {NAME: _open}
PRESENT = {NAME: lambda root: openshapes.PRESENT["openshapes"](root) and scans.PRESENT["indoor"](root)}
