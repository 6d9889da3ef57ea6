"""Generated shapes as a data set: endless for training, with shapes of its own for each split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from bitr.data.generated.cache import FIRST, ShapeCache, cache_folder
from bitr.data.generated.config import ShapesConfig
from bitr.data.generated.drawing import draw
from bitr.data.generated.meshes import MESHES, MESHES_INFO
from bitr.data.info import DatasetInfo
from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs
from bitr.data.splits import SPLITS
from bitr.errors import InputError

COUNTS = {"train": 100_000, "val": 1000, "test": 1000}
"""For training only a name for an epoch: another seed gives as many others, of the same shapes."""
MIXES = {
    "fracture": (ShapesConfig(mix=(1.0, 0.0, 0.0)), "broken"),
    "cut": (ShapesConfig(mix=(0.0, 1.0, 0.0)), "cut in two by a plane"),
    "crop": (ShapesConfig(mix=(0.0, 0.0, 1.0)), "cropped twice, so that the crops overlap"),
    "apart": (ShapesConfig(mix=(0.5, 0.5, 0.0)), "broken or cut: pieces that do not overlap"),
    "outliers": (ShapesConfig(mix=(0.0, 1.0, 0.0), outliers=0.03), "cut in two by a plane, with outliers"),
    "noisy": (
        ShapesConfig(mix=(0.0, 0.0, 1.0), noise=0.01, least_noise=0.01),
        "cropped twice, so that the crops overlap, with noise of 1% of the radius",
    ),
}
"""Options of the data set: what is drawn, and that in words."""
HELD_OUT = 200
"""Different shapes of the splits that are not trained on."""


@dataclass(frozen=True)
class _Drawn:
    cache: ShapeCache
    config: ShapesConfig
    split: str

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        number = i % solids(self.split, self.config)
        return draw(self.cache.get(FIRST[self.split] + number), self.config, f"{self.split}/{i}", rng)


def shapes(split: str, root: Path | None = None, seed: int = 0, config: ShapesConfig | None = None) -> Pairs:
    """Pairs of generated shapes; consecutive pairs are of different shapes.

    Shapes are stored below ``root``, if that has a folder ``generated``, or among the user's cached files.
    """
    if split not in SPLITS:
        raise InputError(f"shapes: no split {split!r}, expected one of {', '.join(SPLITS)}")
    config = config or ShapesConfig()
    made = _Drawn(ShapeCache(cache_folder(root), config.pieces), config, split)
    return Pairs("shapes", split, seed, made, range(COUNTS[split]))


def solids(split: str, config: ShapesConfig) -> int:
    """How many different shapes a split has."""
    return config.solids if split == "train" else HELD_OUT


def variant(option: str) -> DatasetInfo:
    """``shapes:crop`` has pairs of one kind alone, ``shapes:apart`` those that do not overlap,
    ``shapes:outliers`` cuts with points that belong to nothing, ``shapes:noisy`` noisy crops;
    ``shapes:meshes`` cuts and crops the user's own meshes."""
    if option == MESHES:
        return MESHES_INFO
    if option not in MIXES:
        raise InputError(f"shapes:{option}: expected one of {', '.join((*MIXES, MESHES))}")
    config, words = MIXES[option]
    return replace(
        INFO,
        name=f"shapes:{option}",
        title=f"generated objects, {words}",
        open=partial(shapes, config=config),
    )


INFO = DatasetInfo(
    name="shapes",
    title="generated objects, broken, cut or cropped; endless",
    section="",
    licence="MIT, as this package",
    source='made here, and stored as they are needed; making them needs pip install "bitr[data]"',
    splits=SPLITS,
    present=lambda root: True,
    open=shapes,
)
