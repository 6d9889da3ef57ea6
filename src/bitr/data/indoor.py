"""Indoor scenes of Sec. 6.5: neighbouring fragments of 7-Scenes and 3DMatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitr.data.formats.depth import read_depth_scene
from bitr.data.formats.match3d import read_fragments
from bitr.data.info import DatasetInfo
from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs
from bitr.data.root import below
from bitr.data.scans import Places, Scan, ScanPair, pairs_in_step, read_packed_scans
from bitr.data.splits import SPLITS, split_of
from bitr.data.transforms import both, crop, move_randomly

PACKED, FRAGMENTS = "indoor_3dmatch/*_grid0.1.npz", "indoor_3dmatch/**/cloud_bin_*.pth"
DEPTH = ("7scenes/*/seq-*/frame-000000.depth.png", "indoor_3dmatch/*/seq-*/frame-000000.depth.png")
GRID = 0.1
LEAST_KEPT = 0.5
"""In training each cloud is cropped by a plane to a share between this and 1."""
SHIFT = 1.0
"""Standard deviation of the random translation, in metres."""


@dataclass(frozen=True, eq=False)
class _Neighbours:
    pairs: Sequence[ScanPair]
    cropped: bool

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        pair = self.pairs[i].assembly(GRID)
        if self.cropped:
            pair = both(pair, lambda side: crop(side, rng.uniform(LEAST_KEPT, 1.0), rng))
        return move_randomly(pair, rng, SHIFT)


def scenes(root: Path | None, split: str) -> Places:
    """The scenes of a split: from npz files, from fragments, or fused from depth images, in this order."""
    found: dict[str, list[Scan]] = {}
    readers = (
        ({_name(path): path for path in below(root, PACKED)}, read_packed_scans),
        ({path.parent.name: path.parent for path in below(root, FRAGMENTS)}, read_fragments),
        ({path.parents[1].name: path.parents[1] for path in below(root, *DEPTH)}, read_depth_scene),
    )
    for places, read_place in readers:
        for name, path in places.items():
            if name not in found and split_of("indoor", name) == split:
                found[name] = read_place(path)
    return found


def _name(path: Path) -> str:
    return path.name.removesuffix("_grid0.1.npz")


def _open(split: str, root: Path | None, seed: int) -> Pairs:
    pairs = pairs_in_step(scenes(root, split), 1)
    return Pairs("indoor", split, seed, _Neighbours(pairs, split == "train"), range(len(pairs)))


INFO = DatasetInfo(
    name="indoor",
    title="neighbouring fragments of rooms, 7-Scenes' kitchen to test",
    section="Sec. 6.5",
    licence="7-Scenes: Microsoft Research, non-commercial; SUN3D: research",
    source="3DMatch's fragments, bitr data fetch indoor, or 7-Scenes unpacked into 7scenes/SCENE/seq-NN/",
    splits=SPLITS,
    present=lambda root: bool(below(root, PACKED, FRAGMENTS, *DEPTH)),
    open=_open,
)
