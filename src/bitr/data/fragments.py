"""Fragment reassembly of Sec. 6.4: a broken bottle in two pieces, from Breaking Bad."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from bitr.data.formats.breaking_bad import Fracture, folder_fractures, packed_fractures
from bitr.data.info import DatasetInfo
from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs
from bitr.data.splits import SPLITS, split_of
from bitr.data.transforms import assembled, move_randomly, sample_by_area, sample_grid, sample_uniform
from bitr.errors import InputError
from bitr.io import Geometry

GRID, SHARE = 0.005, 0.05
PER_CELL = 8
"""Points drawn for each face of a cube, so that few cubes that the surface runs through are missed."""
CLASSES = {
    "winebottle": ("WineBottle", "wine bottles in two fragments", "Sec. 6.4"),
    "beerbottle": ("BeerBottle", "beer bottles in two fragments, for tests across classes", ""),
    "bottle": ("Bottle", "other bottles in two fragments, for tests across classes", ""),
    "drinkbottle": ("DrinkBottle", "drink bottles in two fragments, for tests across classes", ""),
}
"""What the class is called in Breaking Bad, a title, and where the paper uses it."""


@dataclass(frozen=True, eq=False)
class _Broken:
    fractures: Sequence[Fracture]
    raw: dict[int, tuple[Float32[np.ndarray, "n 3"], Float32[np.ndarray, "m 3"]]] = field(
        default_factory=dict
    )
    """Surfaces on the grid that were computed already: the same for every seed, and slower than the rest."""

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        if i not in self.raw:
            a, b = (_on_grid(side, self.fractures[i].id) for side in self.fractures[i].load())
            self.raw[i] = (a, b)
        source, reference = (_some(points, rng) for points in self.raw[i])
        return move_randomly(assembled(source, reference, self.fractures[i].id), rng)


def _on_grid(mesh: Geometry, id: str) -> Float32[np.ndarray, "n 3"]:
    """The surface, by one point for each cube of the grid that it runs through."""
    rng = np.random.default_rng(zlib.crc32(id.encode()))
    dense = sample_by_area(mesh, max(16, round(PER_CELL * _area(mesh) / GRID**2)), rng)
    return sample_grid(dense, GRID).points.astype(np.float32)


def _area(mesh: Geometry) -> float:
    assert mesh.faces is not None
    a, b, c = (mesh.points[mesh.faces[:, i]] for i in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()) / 2


def _some(points: Float32[np.ndarray, "n 3"], rng: np.random.Generator) -> Geometry:
    cloud = Geometry(points.astype(np.float64), name="fragment")
    return sample_uniform(cloud, max(1, round(SHARE * len(points))), rng)


def fractures(name: str, root: Path | None) -> list[Fracture]:
    """All two-fragment pairs of a class: of the npz file, or else of Breaking Bad's folders."""
    return packed_fractures(root, name) or folder_fractures(root, CLASSES[name][0])


def _open(name: str, others: bool, split: str, root: Path | None, seed: int) -> Pairs:
    classes = CLASSES if others and split == "train" else (name,)
    found = [f for each in classes for f in fractures(each, root) if split_of(each, f.shape) == split]
    return Pairs(name, split, seed, _Broken(found), range(len(found)))


def variant(option: str) -> DatasetInfo:
    """``winebottle:all`` trains with bottles of all four classes, and is tested on wine bottles."""
    if option != "all":
        raise InputError(f"winebottle:{option}: no such option, expected winebottle:all")
    return _info("winebottle", others=True)


def _info(name: str, others: bool = False) -> DatasetInfo:
    folder, title, section = CLASSES[name]
    return DatasetInfo(
        name=f"{name}:all" if others else name,
        title=f"{title}, other bottles among those to train with" if others else title,
        section=section,
        licence="shapes of PartNet and ShapeNet: research, no redistribution",
        source="Breaking Bad from https://breaking-bad-dataset.github.io: unpack its everyday part into "
        f"breaking_bad/, so that breaking_bad/everyday/{folder}/ is there",
        splits=SPLITS,
        present=lambda root: bool(fractures(name, root)),
        open=partial(_open, name, others),
    )


INFOS = {name: _info(name) for name in CLASSES}
