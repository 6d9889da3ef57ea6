"""Indoor scenes of Sec. 6.5: neighbouring fragments of 7-Scenes and 3DMatch, or those that overlap little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from bitr.data.formats.depth import read_depth_scene
from bitr.data.formats.match3d import read_fragments
from bitr.data.info import DatasetInfo
from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs
from bitr.data.root import below
from bitr.data.scans import Places, Scan, ScanPair, pairs_in_step, read_packed_scans
from bitr.data.splits import SPLITS, split_of
from bitr.data.transforms import both, crop, move_randomly, sample_grid
from bitr.errors import InputError

PACKED, FRAGMENTS = "indoor_3dmatch/*_grid0.1.npz", "indoor_3dmatch/**/cloud_bin_*.pth"
DEPTH = ("7scenes/*/seq-*/frame-000000.depth.png", "indoor_3dmatch/*/seq-*/frame-000000.depth.png")
GRID = 0.1
LEAST_KEPT = 0.5
"""In training each cloud is cropped by a plane to a share between this and 1."""
LITTLE = (0.1, 0.3)
"""Least and greatest overlap of the pairs of ``indoor:low``."""
WITHIN = 2 * GRID
"""Distance up to which a point counts as overlapping."""
MOST = 100
"""Pairs of a split of ``indoor:low``."""
SHIFT = 1.0
"""Standard deviation of the random translation, in metres."""


@dataclass(frozen=True, eq=False)
class _Moved:
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
    return Pairs("indoor", split, seed, _Moved(pairs, split == "train"), range(len(pairs)))


def pairs_of_low_overlap(places: Places) -> list[ScanPair]:
    """Of all pairs of scans of one place, those that overlap little; at most 100, evenly chosen."""
    found = [pair for place in sorted(places) for pair in _little(place, places[place])]
    rows = np.unique(np.linspace(0, len(found) - 1, min(MOST, len(found))).round().astype(int))
    return [found[int(row)] for row in rows]


def _little(place: str, scans: Sequence[Scan]) -> list[ScanPair]:
    """Overlap is the share of the smaller scan's points that have one of the other within two grid steps."""
    by_number = sorted(scans, key=lambda scan: scan.number)
    clouds = [
        sample_grid(scan.load(), GRID).moved(scan.world_from_scan).points.astype(np.float32)
        for scan in by_number
    ]
    trees = [cKDTree(cloud) for cloud in clouds]
    found = []
    for i, j in combinations(range(len(clouds)), 2):
        small, large = (i, j) if len(clouds[i]) <= len(clouds[j]) else (j, i)
        near = trees[large].query(clouds[small], distance_upper_bound=WITHIN)[0] < np.inf
        if LITTLE[0] <= near.mean() <= LITTLE[1]:
            found.append(ScanPair(place, by_number[i], by_number[j]))
    return found


@lru_cache(maxsize=len(SPLITS))
def _low(split: str, root: Path | None) -> tuple[ScanPair, ...]:
    return tuple(pairs_of_low_overlap(scenes(root, split)))


def _open_low(split: str, root: Path | None, seed: int) -> Pairs:
    pairs = _low(split, root)
    return Pairs("indoor:low", split, seed, _Moved(pairs, cropped=False), range(len(pairs)))


def variant(option: str) -> DatasetInfo:
    """``indoor:low`` has fragments of one room that overlap by 10 to 30%, neighbours or not."""
    if option != "low":
        raise InputError(f"indoor:{option}: expected indoor:low")
    title = "fragments of rooms that overlap by 10 to 30%, 7-Scenes' kitchen to test"
    return replace(INFO, name="indoor:low", title=title, section="", open=_open_low)


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
