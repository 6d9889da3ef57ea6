"""Single shapes of Sec. 6.3.1: two samples of an airplane, each cropped by a plane of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bitr.data.formats.shapenet import AIRPLANE, shapenet_models, shapenet_splits
from bitr.data.info import DatasetInfo
from bitr.data.packed import read_shapes
from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs
from bitr.data.root import below
from bitr.data.splits import SPLITS, split_of
from bitr.data.transforms import assembled, both, crop, move_randomly, two_samples, with_normals
from bitr.errors import InputError
from bitr.io import Geometry

PACKED = "airplane/*.npz"
NUM_POINTS, KEEP = 1024, 0.7

Shapes = Mapping[str, Callable[[], Geometry]]
"""Shapes of radius 1 by their ids, read when they are asked for."""


@dataclass(frozen=True)
class _Crops:
    shapes: Shapes
    ids: tuple[str, ...]
    keep: float

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        source, reference = two_samples(self.shapes[self.ids[i]](), NUM_POINTS, rng)
        pair = both(assembled(source, reference, self.ids[i]), lambda side: crop(side, self.keep, rng))
        return move_randomly(both(pair, with_normals), rng)


def airplanes(root: Path | None) -> Shapes:
    """All airplanes below the root: those of npz files, or else ShapeNetCore's."""
    shapes: dict[str, Callable[[], Geometry]] = {}
    for path in below(root, PACKED):
        packed = read_shapes(path)
        shapes |= {f"{path.stem}:{name}": partial(packed.shape, i) for i, name in enumerate(packed.names)}
    return shapes or {model.id: model.load for model in shapenet_models(root, AIRPLANE)}


def _open(keep: float, split: str, root: Path | None, seed: int) -> Pairs:
    shapes, official = airplanes(root), shapenet_splits(root)
    ids = tuple(id for id in sorted(shapes) if (official.get(id) or split_of("airplane", id)) == split)
    return Pairs("airplane", split, seed, _Crops(shapes, ids, keep), range(len(ids)))


def _present(root: Path | None) -> bool:
    return bool(below(root, PACKED)) or any(True for _ in shapenet_models(root, AIRPLANE))


def cropped(keep: float) -> DatasetInfo:
    """The data set with a share ``keep`` of each cloud."""
    return DatasetInfo(
        name="airplane" if keep == KEEP else f"airplane:{keep:g}",
        title=f"airplanes, two samples of each, a share {keep:g} of either kept",
        section="Sec. 6.3.1",
        licence="research use; those of FlightGear GPL-2+; ShapeNet: its terms of use",
        source="ShapeNetCore, https://shapenet.org (needs an account): unpack 02691156.zip into shapenet/",
        splits=SPLITS,
        present=_present,
        open=partial(_open, keep),
    )


def variant(option: str) -> DatasetInfo:
    """``airplane:0.5`` keeps half of each cloud."""
    return cropped(keep_of("airplane", option))


def keep_of(name: str, option: str) -> float:
    try:
        keep = float(option)
    except ValueError:
        keep = 0.0
    if not 0 < keep <= 1:
        raise InputError(f"{name}:{option}: expected the share of each cloud to keep, as in {name}:0.5")
    return keep


INFO = cropped(KEEP)
