"""Outdoor scans of App. D.8: the i-th onto the (i+2)-th, from ASL's and KITTI's laser scanners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitr.data.formats.asl import read_asl, read_cloud_list
from bitr.data.formats.kitti import read_kitti_sequence
from bitr.data.info import DatasetInfo
from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs
from bitr.data.root import below
from bitr.data.scans import Places, Scan, ScanPair, pairs_in_step, read_packed_scans
from bitr.data.splits import SPLITS, frozen_splits
from bitr.data.transforms import move_randomly

PACKED = "outdoor_lidar/*_grid*.npz"
LISTS = "outdoor_lidar/*CloudList.csv"
ASL = ("asl/*/*/Hokuyo_0.csv", "asl/*/Hokuyo_0.csv")
KITTI = "kitti/sequences/*/velodyne"
GRID, STEP = 0.9, 2
FIRST = 20
"""The frames before this are for training, as in the paper, but the last four of them are for validation."""
SHIFT = 5.0
"""Standard deviation of the random translation, in metres."""


@dataclass(frozen=True, eq=False)
class _Apart:
    pairs: Sequence[ScanPair]

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        return move_randomly(self.pairs[i].assembly(GRID), rng, SHIFT)


def sequences(root: Path | None) -> Places:
    """The scans below the root, by the sequence they belong to."""
    found: dict[str, list[Scan]] = {}
    found |= {path.stem.split("_")[0]: read_packed_scans(path) for path in below(root, PACKED)}
    found |= {_asl_name(path): read_asl(path.parent) for path in below(root, *ASL)}
    found |= {path.stem.removesuffix("CloudList"): read_cloud_list(path) for path in below(root, LISTS)}
    for folder in below(root, KITTI):
        name = f"kitti{folder.parent.name}"
        if name not in found:
            found[name] = read_kitti_sequence(folder.parent)
    return found


def _asl_name(path: Path) -> str:
    folder = path.parent
    return folder.parent.name if folder.name in ("local_frame", "csv_local") else folder.name


def of_split(places: Places, split: str) -> dict[str, list[Scan]]:
    """The scans of a split: as listed, or else by their numbers; no scan is in two."""
    listed = frozen_splits("outdoor")
    chosen: dict[str, list[Scan]] = {}
    for place, scans in places.items():
        early = [scan.number for scan in scans if scan.number < FIRST]
        by_number = {n: "val" if n in early[-4:] else "train" for n in early}
        chosen[place] = [
            scan
            for scan in scans
            if listed.get(f"{place}/{scan.number}", by_number.get(scan.number, "test")) == split
        ]
    return chosen


def scan_pairs(root: Path | None, split: str) -> list[ScanPair]:
    """Pairs two frames apart; a place that has none gives those that are one frame apart."""
    pairs: list[ScanPair] = []
    for place, scans in sorted(of_split(sequences(root), split).items()):
        pairs += pairs_in_step({place: scans}, STEP) or pairs_in_step({place: scans}, 1)
    return pairs


def _open(split: str, root: Path | None, seed: int) -> Pairs:
    pairs = scan_pairs(root, split)
    return Pairs("outdoor", split, seed, _Apart(pairs), range(len(pairs)))


INFO = DatasetInfo(
    name="outdoor",
    title="laser scans two frames apart, ASL's or KITTI's",
    section="App. D.8",
    licence="KITTI: CC BY-NC-SA 3.0; ASL: research",
    source="ASL's laser registration data, https://doi.org/10.3929/ethz-b-000721626, each unpacked into "
    "asl/PLACE/; or KITTI odometry, https://www.cvlibs.net/datasets/kitti (needs an account), in kitti/",
    splits=SPLITS,
    present=lambda root: bool(below(root, PACKED, LISTS, *ASL, KITTI)),
    open=_open,
)
