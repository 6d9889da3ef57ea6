"""Pairs of scans of one place: rooms (Sec. 6.5) and laser scans outdoors (App. D.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from bitr.data import scan_formats as formats
from bitr.data.poses import AssemblyPair, Pairs, PuzzleCase, inverse, random_pose, seeded_generator
from bitr.data.registry import DatasetInfo
from bitr.data.scan_formats import Scan
from bitr.data.storage import SPLITS, find_below, frozen_splits, split_of
from bitr.data.transforms import both, crop, move_randomly, sample_grid
from bitr.errors import require

INDOOR_PACKED = "indoor_3dmatch/*_grid0.1.npz"
FRAGMENTS = "indoor_3dmatch/**/cloud_bin_*.pth"
DEPTH = ("7scenes/*/seq-*/frame-000000.depth.png", "indoor_3dmatch/*/seq-*/frame-000000.depth.png")
INDOOR_GRID, INDOOR_SHIFT = 0.1, 1.0  # grid, and standard deviation of the random translation, in metres

OUTDOOR_PACKED, LISTS = "outdoor_lidar/*_grid*.npz", "outdoor_lidar/*CloudList.csv"
ASL = ("asl/*/*/Hokuyo_0.csv", "asl/*/Hokuyo_0.csv")
KITTI = "kitti/sequences/*/velodyne"
FIRST_TEST = 20
"""Earlier frames are for training, as in the paper, but the last four of them are for validation."""

Places = Mapping[str, Sequence[Scan]]  # the scans of each place, in order


@dataclass(frozen=True, eq=False)
class ScanPair:
    """Two scans of one place; the first is the source."""

    place: str
    source: Scan
    reference: Scan

    @property
    def id(self) -> str:
        return f"{self.place}/{self.source.number}-{self.reference.number}"


def _make(
    pairs: Sequence[ScanPair], grid: float, shift: float, keep: float, i: int, rng: np.random.Generator
) -> AssemblyPair:
    """The two scans of a pair on a grid, each cropped by a plane to a share of ``keep`` to 1, and moved."""
    scans = pairs[i].source, pairs[i].reference
    ref_from_src = inverse(scans[1].world_from_scan) @ scans[0].world_from_scan
    ref_from_src[3] = (0, 0, 0, 1)
    source, reference = (sample_grid(scan.load(), grid) for scan in scans)
    pair = AssemblyPair(source, reference, ref_from_src, pairs[i].id, unit="m")
    if keep < 1:
        pair = both(pair, lambda side: crop(side, rng.uniform(keep, 1.0), rng))
    return move_randomly(pair, rng, shift)


def pairs_in_step(places: Places, step: int) -> list[ScanPair]:
    """Each scan with the one whose number is ``step`` larger, if both are there."""
    numbered = {place: {scan.number: scan for scan in places[place]} for place in sorted(places)}
    return [
        ScanPair(place, scans[number], scans[number + step])
        for place, scans in numbered.items()
        for number in sorted(scans)
        if number + step in scans
    ]


def indoor_scenes(root: Path | None, split: str) -> Places:
    """The scenes of a split: from npz files, from fragments, or fused from depth images, in this order."""
    found: dict[str, list[Scan]] = {}
    packed = {path.name.removesuffix("_grid0.1.npz"): path for path in find_below(root, INDOOR_PACKED)}
    fragments = {path.parent.name: path.parent for path in find_below(root, FRAGMENTS)}
    images = {path.parents[1].name: path.parents[1] for path in find_below(root, *DEPTH)}
    readers = formats.read_packed, formats.read_fragments, formats.read_depth_scene
    for places, read_place in zip((packed, fragments, images), readers, strict=True):
        for name, path in places.items():
            if name not in found and split_of("indoor", name) == split:
                found[name] = read_place(path)
    return found


def _open_indoor(split: str, root: Path | None, seed: int) -> Pairs:
    pairs = pairs_in_step(indoor_scenes(root, split), 1)
    make = partial(_make, pairs, INDOOR_GRID, INDOOR_SHIFT, 0.5 if split == "train" else 1.0)
    return Pairs("indoor", split, seed, make, range(len(pairs)))


def pairs_of_low_overlap(places: Places) -> tuple[ScanPair, ...]:
    """Choose up to 100 pairs of scans of one place that share 10 to 30% of the smaller one, within 0.2 m."""
    found = []
    for place in sorted(places):
        scans = sorted(places[place], key=lambda scan: scan.number)
        moved = [sample_grid(scan.load(), INDOOR_GRID).moved(scan.world_from_scan) for scan in scans]
        clouds = [cloud.points.astype(np.float32) for cloud in moved]
        trees = [cKDTree(cloud) for cloud in clouds]
        for i, j in combinations(range(len(clouds)), 2):
            small, large = (i, j) if len(clouds[i]) <= len(clouds[j]) else (j, i)
            near = trees[large].query(clouds[small], distance_upper_bound=2 * INDOOR_GRID)[0] < np.inf
            if 0.1 <= near.mean() <= 0.3:
                found.append(ScanPair(place, scans[i], scans[j]))
    rows = np.unique(np.linspace(0, len(found) - 1, min(100, len(found))).round().astype(int))
    return tuple(found[int(row)] for row in rows)


@lru_cache(maxsize=len(SPLITS))
def _low_pairs(split: str, root: Path | None) -> tuple[ScanPair, ...]:
    return pairs_of_low_overlap(indoor_scenes(root, split))


def _open_low(split: str, root: Path | None, seed: int) -> Pairs:
    pairs = _low_pairs(split, root)
    make = partial(_make, pairs, INDOOR_GRID, INDOOR_SHIFT, 1.0)
    return Pairs("indoor:low", split, seed, make, range(len(pairs)))


def room_puzzle(root: Path | None, place: str, first: int, count: int, seed: int = 0) -> PuzzleCase:
    """Consecutive fragments of a room of the test split, each moved at random."""
    scans = {scan.number: scan for scan in indoor_scenes(root, "test").get(place, ())}
    numbers = range(first, first + count)
    wanted = f"{place}: has {len(scans)} fragments here, expected {first} to {first + count - 1}"
    require(set(numbers) <= set(scans), wanted)
    rng = seeded_generator("indoor:many", place, seed, first)
    motions = [random_pose(rng, INDOOR_SHIFT) for _ in numbers]
    pieces = [
        replace(sample_grid(scans[n].load(), INDOOR_GRID).moved(motion), name=f"fragment-{n}")
        for n, motion in zip(numbers, motions, strict=True)
    ]
    world = [scans[n].world_from_scan @ inverse(motion) for n, motion in zip(numbers, motions, strict=True)]
    return PuzzleCase(tuple(pieces), np.stack(world), (0,) * count, f"{place}/{first}-{numbers[-1]}", "m")


def outdoor_sequences(root: Path | None) -> Places:
    """Read the scans of ASL's and KITTI's laser scanners below the root, by sequence."""
    found = {path.stem.split("_")[0]: formats.read_packed(path) for path in find_below(root, OUTDOOR_PACKED)}
    for folder in (path.parent for path in find_below(root, *ASL)):
        place = folder.parent if folder.name in ("local_frame", "csv_local") else folder
        found[place.name] = formats.read_asl(folder)
    for path in find_below(root, LISTS):
        found[path.stem.removesuffix("CloudList")] = formats.read_cloud_list(path)
    for folder in (path.parent for path in find_below(root, KITTI)):
        if f"kitti{folder.name}" not in found:
            found[f"kitti{folder.name}"] = formats.read_kitti_sequence(folder)
    return found


def outdoor_split(places: Places, split: str) -> dict[str, list[Scan]]:
    """The scans of a split: as listed, or else by their numbers; no scan is in two splits."""
    listed = frozen_splits("outdoor")
    chosen: dict[str, list[Scan]] = {}
    for place, scans in places.items():
        early = [scan.number for scan in scans if scan.number < FIRST_TEST]
        by_number = {n: "val" if n in early[-4:] else "train" for n in early}
        homes = [listed.get(f"{place}/{s.number}", by_number.get(s.number, "test")) for s in scans]
        chosen[place] = [scan for scan, home in zip(scans, homes, strict=True) if home == split]
    return chosen


def _open_outdoor(split: str, root: Path | None, seed: int) -> Pairs:
    """Pairs two frames apart; a place that has none gives those that are one frame apart."""
    pairs: list[ScanPair] = []
    for place, scans in sorted(outdoor_split(outdoor_sequences(root), split).items()):
        pairs += pairs_in_step({place: scans}, 2) or pairs_in_step({place: scans}, 1)
    return Pairs("outdoor", split, seed, partial(_make, pairs, 0.9, 5.0, 1.0), range(len(pairs)))


def _variant(base: DatasetInfo, option: str) -> DatasetInfo:
    """``indoor:low`` has fragments of one room that overlap by 10 to 30%, neighbours or not."""
    require(option == "low", f"indoor:{option}: expected indoor:low")
    title = "fragments of rooms that overlap by 10 to 30%, 7-Scenes' kitchen to test"
    return replace(base, name="indoor:low", title=title, section="", open=_open_low)


OPEN = {"indoor": _open_indoor, "outdoor": _open_outdoor}
VARIANTS = {"indoor": _variant}
