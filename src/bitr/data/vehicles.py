"""Inter-class placing of Sec. 6.3.2: a car beside a motorbike, heading the same way, at distance 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bitr.data.airplane import keep_of
from bitr.data.formats.shapenet import CAR, MOTORBIKE, shapenet_models, shapenet_splits
from bitr.data.info import DatasetInfo
from bitr.data.packed import read_shapes
from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs
from bitr.data.poses import pose
from bitr.data.root import below
from bitr.data.splits import SPLITS, split_of
from bitr.data.transforms import (
    both,
    crop,
    move_randomly,
    sample_by_area,
    sample_uniform,
    with_normals,
)
from bitr.io import Geometry

NAME = "car-motorbike"
PACKED = "vehicles/*.npz"
NUM_POINTS, KEEP = 1024, 1.0
CAR_AT = np.array([0.0, 0.0, 1.0])
"""On the motorbike's right: forward is +x, up is +y."""

Vehicles = Mapping[str, Callable[[], Geometry]]
"""Ids begin with "car/" or "motorbike/". Shapes of radius 1 about the origin, all heading the same way."""


@dataclass(frozen=True)
class _Placed:
    """Every car with every motorbike; the car is the one that is moved."""

    shapes: Vehicles
    cars: tuple[str, ...]
    motorbikes: tuple[str, ...]
    keep: float

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        bike, car = self.motorbikes[i // len(self.cars)], self.cars[i % len(self.cars)]
        source, reference = (_cloud(self.shapes[name](), rng) for name in (car, bike))
        placed = AssemblyPair(source, reference, pose(np.eye(3), CAR_AT), f"{car}+{bike}")
        pair = both(placed, lambda side: crop(side, self.keep, rng))
        return move_randomly(both(pair, with_normals), rng)


def _cloud(shape: Geometry, rng: np.random.Generator) -> Geometry:
    sample = sample_uniform if shape.faces is None else sample_by_area
    return sample(shape, NUM_POINTS, rng)


def vehicles(root: Path | None) -> Vehicles:
    """All cars and motorbikes below the root: those of npz files, or else ShapeNetCore's."""
    shapes: dict[str, Callable[[], Geometry]] = {}
    for path in below(root, PACKED):
        packed = read_shapes(path, "cls")
        shapes |= {
            name.replace("motorcycle/", "motorbike/"): partial(packed.shape, i)
            for i, name in enumerate(packed.names)
        }
    return shapes or {
        f"{kind}/{model.id}": model.load
        for kind, synset in (("car", CAR), ("motorbike", MOTORBIKE))
        for model in shapenet_models(root, synset)
    }


def _open(keep: float, split: str, root: Path | None, seed: int) -> Pairs:
    shapes, official = vehicles(root), shapenet_splits(root)

    def of_split(kind: str) -> tuple[str, ...]:
        ids = (id for id in sorted(shapes) if id.startswith(kind))
        return tuple(i for i in ids if (official.get(i.removeprefix(kind)) or split_of(NAME, i)) == split)

    cars, motorbikes = of_split("car/"), of_split("motorbike/")
    make = _Placed(shapes, cars, motorbikes, keep)
    return Pairs(NAME, split, seed, make, range(len(cars) * len(motorbikes)))


def _present(root: Path | None) -> bool:
    return bool(below(root, PACKED)) or all(
        any(True for _ in shapenet_models(root, synset)) for synset in (CAR, MOTORBIKE)
    )


def cropped(keep: float) -> DatasetInfo:
    """The data set with a share ``keep`` of each cloud."""
    return DatasetInfo(
        name=NAME if keep == KEEP else f"{NAME}:{keep:g}",
        title=f"a car to the right of a motorbike, a share {keep:g} of either kept",
        section="Sec. 6.3.2",
        licence="research use; those of TORCS GPL-2+; ShapeNet: its terms of use",
        source="ShapeNetCore, https://shapenet.org (needs an account): unpack 02958343.zip and 03790512.zip "
        "into shapenet/",
        splits=SPLITS,
        present=_present,
        open=partial(_open, keep),
        joints=("model",),
    )


def variant(option: str) -> DatasetInfo:
    """``car-motorbike:0.7`` keeps 70% of each cloud."""
    return cropped(keep_of(NAME, option))


INFO = cropped(KEEP)
