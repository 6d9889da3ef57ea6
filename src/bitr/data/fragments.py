"""Fragment reassembly of Sec. 6.4: a broken bottle in two pieces, from Breaking Bad."""

from __future__ import annotations

import hashlib
import logging
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int8

from bitr.data.formats.breaking_bad import Fracture, folder_fractures, packed_fractures
from bitr.data.generated.cache import cache_folder
from bitr.data.info import DatasetInfo
from bitr.data.packed import opened
from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs
from bitr.data.splits import SPLITS, split_of
from bitr.data.transforms import assembled, move_randomly, sample_by_area, sample_grid, sample_uniform
from bitr.errors import InputError
from bitr.files import whole_file
from bitr.io import Geometry

log = logging.getLogger("bitr")

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


STEPS = 127
"""Of a normal's coordinates, which are stored in a byte each: to 0.3°."""


@dataclass(frozen=True)
class _Surface:
    """A fragment on the grid, as it is stored."""

    points: Float32[np.ndarray, "n 3"]
    normals: Int8[np.ndarray, "n 3"]
    """Of the closed surface, outward; in units of 1/127."""


@dataclass(frozen=True, eq=False)
class _Broken:
    fractures: Sequence[Fracture]
    folder: Path
    """Of stored surfaces: the same for every seed, and they take a hundred times as long as the rest."""
    known: dict[int, tuple[_Surface, _Surface]] = field(default_factory=dict)

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        if i not in self.known:
            self.known[i] = _stored(self.fractures[i], self.folder)
        source, reference = (_some(surface, rng) for surface in self.known[i])
        return move_randomly(assembled(source, reference, self.fractures[i].id), rng)


def _stored(fracture: Fracture, folder: Path) -> tuple[_Surface, _Surface]:
    """Both surfaces: of a file, or else made and stored for the next time."""
    path = folder / f"{hashlib.sha256(fracture.id.encode()).hexdigest()[:16]}.npz"
    names = [f"{side}_{part}" for side in "ab" for part in ("points", "normals")]
    with suppress(InputError), opened(path, *names) as arrays:  # not there, or damaged
        a_points, a_normals, b_points, b_normals = (arrays[name] for name in names)
        return _Surface(a_points, a_normals), _Surface(b_points, b_normals)
    a, b = (_on_grid(side, fracture.id) for side in fracture.load())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(path, force=True) as temporary, temporary.open("wb") as file:
            values = (a.points, a.normals, b.points, b.normals)
            np.savez(file, allow_pickle=False, **dict(zip(names, values, strict=True)))
    except OSError as error:
        log.warning("%s: cannot be stored (%s), and is made anew the next time", path, error.strerror)
    return a, b


def _on_grid(mesh: Geometry, id: str) -> _Surface:
    """The surface, by one point for each cube of the grid that it runs through."""
    rng = np.random.default_rng(zlib.crc32(id.encode()))
    dense = sample_by_area(mesh, max(16, round(PER_CELL * _area(mesh) / GRID**2)), rng)
    grid = sample_grid(dense, GRID)
    assert grid.normals is not None
    return _Surface(grid.points.astype(np.float32), np.rint(STEPS * grid.normals).astype(np.int8))


def _area(mesh: Geometry) -> float:
    assert mesh.faces is not None
    a, b, c = (mesh.points[mesh.faces[:, i]] for i in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()) / 2


def _some(surface: _Surface, rng: np.random.Generator) -> Geometry:
    normals = surface.normals.astype(np.float64)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    cloud = Geometry(surface.points.astype(np.float64), normals=normals, name="fragment")
    return sample_uniform(cloud, max(1, round(SHARE * len(cloud.points))), rng)


def fractures(name: str, root: Path | None) -> list[Fracture]:
    """All two-fragment pairs of a class: of the npz file, or else of Breaking Bad's folders."""
    return packed_fractures(root, name) or folder_fractures(root, CLASSES[name][0])


def _open(name: str, others: bool, split: str, root: Path | None, seed: int) -> Pairs:
    classes = CLASSES if others and split == "train" else (name,)
    found = [f for each in classes for f in fractures(each, root) if split_of(each, f.shape) == split]
    made_of = hashlib.sha256(f"{Path(root or '').resolve()} {GRID} {PER_CELL}".encode()).hexdigest()[:12]
    surfaces = cache_folder(None).parent / "surfaces" / made_of
    return Pairs(name, split, seed, _Broken(found, surfaces), range(len(found)))


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
