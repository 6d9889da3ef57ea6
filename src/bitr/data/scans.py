"""Pairs of scans of one place: rooms (Sec. 6.5) and laser scans outdoors (App. D.8).

Read from npz files, ASL's and libpointmatcher's csv tables, KITTI odometry, fragments of 3DMatch, and depth
images as 7-Scenes and 3DMatch record them.
"""

from __future__ import annotations

import _codecs
import csv
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from scipy.spatial import cKDTree

from bitr.data import poses
from bitr.data.poses import AssemblyPair, Matrix, Pairs, Points, Pose, inverse, nearest_pose, pose_of_numbers
from bitr.data.storage import SPLITS, find_below, frozen_splits, open_npz, split_of
from bitr.data.transforms import both, crop, move_randomly, sample_grid
from bitr.errors import InputError, require
from bitr.io import Geometry, check, join, read

INDOOR_PACKED = "indoor_3dmatch/*_grid0.1.npz"
FRAGMENTS = "indoor_3dmatch/**/cloud_bin_*.pth"
DEPTH = ("7scenes/*/seq-*/frame-000000.depth.png", "indoor_3dmatch/*/seq-*/frame-000000.depth.png")
INDOOR_GRID, INDOOR_SHIFT = 0.1, 1.0  # grid, and standard deviation of the random translation, in metres

OUTDOOR_PACKED, LISTS = "outdoor_lidar/*_grid*.npz", "outdoor_lidar/*CloudList.csv"
ASL = ("asl/*/*/Hokuyo_0.csv", "asl/*/Hokuyo_0.csv")
KITTI = "kitti/sequences/*/velodyne"
FIRST_TEST = 20
"""Earlier frames are for training, as in the paper, but the last four of them are for validation."""

LEICA = "pose_scanner_leica.csv"
LEICA_PLACES = (".", "..", "../global_frame", "../csv_global", "../leica")
"""Possible places of ASL's poses, seen from the folder of the scans."""
FRAMES = 50  # length of a run of depth images that makes a fragment, as in 3DMatch
KINECT = np.array([[585.0, 0.0, 320.0], [0.0, 585.0, 240.0], [0.0, 0.0, 1.0]])
"""Intrinsics that 7-Scenes states for all its scenes; a file camera-intrinsics.txt goes first."""


@dataclass(frozen=True, eq=False)
class Scan:
    """One scan: its number at its place, a function that loads its points, and its pose."""

    number: int
    load: Callable[[], Geometry]
    world_from_scan: Pose


Places = Mapping[str, Sequence[Scan]]  # the scans of each place, in order


def read_packed(path: Path) -> list[Scan]:
    """Scans of an npz file: all ``points``, ``offsets`` of their beginnings, ``poses`` and ``ids``."""
    with open_npz(path, "points", "offsets", "poses", "ids") as arrays:
        points, offsets = arrays["points"].astype(np.float64), arrays["offsets"]
        matrices, ids = arrays["poses"].astype(np.float64), arrays["ids"]
    found = f"{len(ids)} ids, {len(matrices)} poses, {len(offsets)} offsets that end at {offsets[-1]}"
    fits = len(offsets) == len(ids) + 1 and len(matrices) == len(ids) and offsets[-1] == len(points)
    require(fits, f"{path}: {found}, and {len(points)} points do not fit together")
    scans = []
    for number, (start, stop), matrix in zip(ids, pairwise(offsets), matrices, strict=True):
        cloud = partial(Geometry, points[start:stop], name=f"{path.stem}/{number}")
        scans.append(Scan(int(number), cloud, nearest_pose(matrix, f"{path}, scan {number}")))
    return scans


def read_asl(folder: Path) -> list[Scan]:
    """ASL's scans Hokuyo_N.csv of a place, with the poses of the columns poseId and T00 to T33 of a table."""
    path = next((p for place in LEICA_PLACES if (p := folder / place / LEICA).is_file()), None)
    if path is None:
        raise InputError(f"{folder}: holds scans but no {LEICA}, nor do the folders beside it")
    known = {}
    for at, value, matrix in _read_poses(path, "poseId", "T"):
        whole = re.fullmatch(r"\s*(\d+)(\.0*)?\s*", value)
        if whole is None:
            raise InputError(f"{at}: found {value[:40]!r}, expected the number of a scan")
        known[int(whole[1])] = matrix
    files = sorted(folder.glob("Hokuyo_*.csv"), key=_number)
    for file in files:
        missing = f"{path}: has no pose for {file.name}; expected one for each scan"
        require(_number(file) in known, missing)
    return [Scan(_number(file), partial(read, file), known[_number(file)]) for file in files]


def read_cloud_list(path: Path) -> list[Scan]:
    """The scans of a list of libpointmatcher's: columns reading, a file beside the list, and gT00 to gT33."""
    rows = [(path.parent / name.strip(), matrix) for _, name, matrix in _read_poses(path, "reading", "gT")]
    return [Scan(_number(file), partial(read, file), matrix) for file, matrix in rows]


def _read_poses(path: Path, key: str, entry: str) -> Iterator[tuple[str, str, Pose]]:
    """The place, the key and the pose of each row of a table."""
    entries = [f"{entry}{i}{j}" for i in range(4) for j in range(4)]
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, skipinitialspace=True)
        names = {name.strip().lower(): name for name in rows.fieldnames or ()}
        for name in (key, *entries):
            expected = f"expected {key} and {entries[0]} to {entries[-1]}"
            require(name.lower() in names, f"{path}: has no column {name}, {expected}")
        for row in rows:
            at = f"{path}, line {rows.line_num}"
            numbers = " ".join(str(row[names[name.lower()]]) for name in entries)
            yield at, str(row[names[key.lower()]]), pose_of_numbers(numbers, at)


def _number(path: Path) -> int:
    found = re.search(r"(\d+)$", path.stem)
    if found is None:
        raise InputError(f"{path}: its name has no number, expected Hokuyo_0.csv and so on")
    return int(found[1])


def read_kitti_sequence(folder: Path) -> list[Scan]:
    """The scans of a KITTI sequence in the world; line i of the left camera's poses belongs to frame i."""
    path, other = folder / "poses.txt", folder.parent.parent / "poses" / f"{folder.name}.txt"
    if not path.is_file():
        require(other.is_file(), f"{folder}: has no poses, expected {path} or {other}")
        path = other
    lines = poses.read_text(path, "poses").splitlines()
    known = [pose_of_numbers(line, f"{path}, line {i}") for i, line in enumerate(lines, 1) if line.strip()]
    camera_from_velodyne = _read_calibration(folder / "calib.txt")
    scans = []
    for file in sorted((folder / "velodyne").glob("*.bin")):
        number, has = int(file.stem), f"there are poses for {len(known)} frames only"
        require(number < len(known), f"{file}: frame {number}, but {has}")
        scans.append(Scan(number, partial(read, file), known[number] @ camera_from_velodyne))
    return scans


def _read_calibration(path: Path) -> Pose:
    """``camera_from_velodyne``: the row Tr of the calibration."""
    for line in poses.read_text(path, "the calibration of the sequence, with a row Tr:").splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() in ("Tr", "Tr_velo_to_cam"):
            return pose_of_numbers(numbers, f"{path}, {name}")
    raise InputError(f"{path}: has no row Tr:, expected the motion from the scanner to the camera")


def read_fragments(folder: Path) -> list[Scan]:
    """The fragments of a scene of 3DMatch, as Predator packs them: cloud_bin_N.pth and .info.txt."""
    files = folder.glob("cloud_bin_*.pth")
    scans = []
    for number, path in sorted((_number(path), path) for path in files if path.stem[10:].isdecimal()):
        info = path.with_suffix(".info.txt")
        # the pose comes after a line that names the scene, the sequence and its frames
        numbers = poses.read_text(info, "the pose of a fragment").partition("\n")[2]
        scans.append(Scan(number, partial(read_fragment, path), pose_of_numbers(numbers, str(info))))
    return scans


def read_fragment(path: Path) -> Geometry:
    """The points that ``torch.save`` wrote, as a tensor or a numpy array; nothing that would run code."""
    # the types that a numpy array is rebuilt from; numpy 1 and 2 name the first differently
    rebuild = np.zeros(1).__reduce__()[0]
    names = [f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")]
    kinds = [type(np.dtype(kind)) for kind in (np.float32, np.float64)]
    parts: list[Any] = [*((rebuild, name) for name in names), np.ndarray, np.dtype, *kinds, _codecs.encode]
    try:
        with torch.serialization.safe_globals(parts):
            points = np.asarray(torch.load(path, map_location="cpu", weights_only=True))
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, AttributeError) as error:
        reason = str(error).splitlines()[0][:100] if str(error) else type(error).__name__
        raise InputError(f"{path}: damaged, or holds more than an array of points ({reason})") from error
    fits = points.ndim == 2 and points.shape[1] == 3 and points.dtype.kind == "f"
    found = f"holds {points.dtype} of the shape {points.shape}"
    require(fits, f"{path}: {found}, expected numbers, (n, 3)")
    return check(Geometry(points.astype(np.float64), name=str(path)))


def read_depth_scene(folder: Path) -> list[Scan]:
    """The fragments of all sequences of a scene, each fused from a run of 50 frames."""
    intrinsics = _read_intrinsics(folder)
    scans: list[Scan] = []
    for sequence in sorted(folder.glob("seq-*")):
        frames = sorted(sequence.glob("frame-*.depth.png"))
        # a rest that is shorter than half a run joins the one before it
        starts = list(range(0, max(len(frames) - FRAMES // 2, 0) + 1, FRAMES))
        for start, stop in pairwise([*starts, len(frames)]):
            if run := tuple(frames[start:stop]):
                scans.append(Scan(len(scans), partial(_fuse, run, intrinsics), _frame_pose(run[0])))
    return scans


def _fuse(frames: tuple[Path, ...], intrinsics: Matrix) -> Geometry:
    """Fuse a run of frames, in the first camera's coordinates, by averaging on a grid."""
    first_from_world = inverse(_frame_pose(frames[0]))
    clouds = []
    for path in frames[::5]:  # neighbours see the same
        cloud = Geometry(back_project(_read_depth(path), intrinsics), name=str(path))
        if len(cloud.points):
            clouds.append(cloud.moved(first_from_world @ _frame_pose(path)))
    if not clouds:
        raise InputError(f"{frames[0]}: no depth in it or in the {len(frames) - 1} frames after it")
    return sample_grid(join(clouds, str(frames[0])), 0.025)


def back_project(depth: Float64[np.ndarray, "h w"], intrinsics: Matrix) -> Points:
    """The points of all pixels with a depth, in the camera's frame: z forward, y down."""
    row, column = np.nonzero((depth > 0.1) & (depth < 5.0))  # beyond, a Kinect measures mostly noise
    rays = np.stack([column, row, np.ones(len(row))], axis=1) @ np.linalg.inv(intrinsics).T
    return rays * depth[row, column, None]


def _read_depth(path: Path) -> Float64[np.ndarray, "h w"]:
    """The depths of a 16-bit image, in metres; 0 where there is none."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise InputError(f'{path}: reading depth images needs pillow: pip install -e ".[data]"') from error
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image)
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(f"{path}: damaged or not an image ({str(error)[:80]})") from error
    fits = pixels.ndim == 2 and pixels.dtype.kind in "iu" and pixels.dtype.itemsize >= 2
    found = f"{pixels.dtype} of the shape {pixels.shape}"
    require(fits, f"{path}: {found}, expected 16-bit depths in millimetres")
    return np.where(np.isin(pixels, (0, 65535)), 0, pixels) / 1000.0


def _frame_pose(depth: Path) -> Pose:
    """Read ``world_from_camera`` of a frame, from the pose file beside its depth image."""
    path = depth.with_name(depth.name.replace(".depth.png", ".pose.txt"))
    return pose_of_numbers(poses.read_text(path, f"the pose of {depth.name}"), str(path))


def _read_intrinsics(folder: Path) -> Matrix:
    path = folder / "camera-intrinsics.txt"
    if not path.is_file():
        return KINECT
    try:
        matrix = np.loadtxt(path, dtype=np.float64, ndmin=2)
    except ValueError as error:
        raise InputError(f"{path}: {str(error)[:80]}, expected a 3×3 matrix") from error
    require(matrix.shape == (3, 3), f"{path}: a matrix of the shape {matrix.shape}, expected 3×3")
    return matrix


@dataclass(frozen=True, eq=False)
class ScanPair:
    """Two scans of one place; the first is the source."""

    place: str
    source: Scan
    reference: Scan

    @property
    def id(self) -> str:
        return f"{self.place}/{self.source.number}-{self.reference.number}"

    def assembly(self, grid: float) -> AssemblyPair:
        """The pair in the scans' own frames, one point for each cube of the grid."""
        ref_from_src = inverse(self.reference.world_from_scan) @ self.source.world_from_scan
        ref_from_src[3] = (0, 0, 0, 1)
        source, reference = (sample_grid(scan.load(), grid) for scan in (self.source, self.reference))
        return AssemblyPair(source, reference, ref_from_src, self.id, unit="m")


def _make(
    pairs: Sequence[ScanPair], grid: float, shift: float, keep: float, i: int, rng: np.random.Generator
) -> AssemblyPair:
    """The two scans of a pair, each cropped by a plane to a share of ``keep`` to 1, and moved."""
    pair = pairs[i].assembly(grid)
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
    readers = read_packed, read_fragments, read_depth_scene
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


def room_puzzle(root: Path | None, place: str, first: int, count: int, seed: int = 0) -> poses.PuzzleCase:
    """Consecutive fragments of a room of the test split, each moved at random."""
    scans = {scan.number: scan for scan in indoor_scenes(root, "test").get(place, ())}
    numbers = range(first, first + count)
    wanted = f"{place}: has {len(scans)} fragments here, expected {first} to {first + count - 1}"
    require(set(numbers) <= set(scans), wanted)
    rng = poses.seeded_generator("indoor:many", place, seed, first)
    motions = [poses.random_pose(rng, INDOOR_SHIFT) for _ in numbers]
    pieces = [
        replace(sample_grid(scans[n].load(), INDOOR_GRID).moved(motion), name=f"fragment-{n}")
        for n, motion in zip(numbers, motions, strict=True)
    ]
    world = [scans[n].world_from_scan @ inverse(motion) for n, motion in zip(numbers, motions, strict=True)]
    id = f"{place}/{first}-{numbers[-1]}"
    return poses.PuzzleCase(tuple(pieces), np.stack(world), (0,) * count, id, "m")


def outdoor_sequences(root: Path | None) -> Places:
    """Read the scans of ASL's and KITTI's laser scanners below the root, by sequence."""
    found = {path.stem.split("_")[0]: read_packed(path) for path in find_below(root, OUTDOOR_PACKED)}
    for folder in (path.parent for path in find_below(root, *ASL)):
        place = folder.parent if folder.name in ("local_frame", "csv_local") else folder
        found[place.name] = read_asl(folder)
    for path in find_below(root, LISTS):
        found[path.stem.removesuffix("CloudList")] = read_cloud_list(path)
    for folder in (path.parent for path in find_below(root, KITTI)):
        if f"kitti{folder.name}" not in found:
            found[f"kitti{folder.name}"] = read_kitti_sequence(folder)
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


def _variant(title: str, option: str) -> dict[str, Any]:
    """``indoor:low`` has fragments of one room that overlap by 10 to 30%, neighbours or not."""
    require(option == "low", f"indoor:{option}: expected indoor:low")
    title = "fragments of rooms that overlap by 10 to 30%, 7-Scenes' kitchen to test"
    return {"title": title, "section": "", "open": _open_low}


OPEN = {"indoor": _open_indoor, "outdoor": _open_outdoor}
VARIANTS = {"indoor": _variant}
