"""Scans of places with their poses, in the formats of published data sets.

npz files, ASL's and libpointmatcher's csv tables, KITTI odometry, fragments of 3DMatch, and depth images as
7-Scenes and 3DMatch record them.
"""

from __future__ import annotations

import _codecs
import csv
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64

from bitr.data.poses import Matrix, Points, Pose, inverse, nearest_pose, pose_of_numbers, read_text
from bitr.data.storage import open_npz
from bitr.data.transforms import sample_grid
from bitr.errors import InputError, require
from bitr.io import Geometry, check, join, read

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


def read_packed(path: Path) -> list[Scan]:
    """Scans of an npz file: all ``points``, ``offsets`` of their beginnings, ``poses`` and ``ids``."""
    with open_npz(path, "points", "offsets", "poses", "ids") as arrays:
        points, offsets = arrays["points"].astype(np.float64), arrays["offsets"]
        poses, ids = arrays["poses"].astype(np.float64), arrays["ids"]
    found = f"{len(ids)} ids, {len(poses)} poses, {len(offsets)} offsets that end at {offsets[-1]}"
    fits = len(offsets) == len(ids) + 1 and len(poses) == len(ids) and offsets[-1] == len(points)
    require(fits, f"{path}: {found}, and {len(points)} points do not fit together")
    scans = []
    for number, (start, stop), matrix in zip(ids, pairwise(offsets), poses, strict=True):
        cloud = partial(Geometry, points[start:stop], name=f"{path.stem}/{number}")
        scans.append(Scan(int(number), cloud, nearest_pose(matrix, f"{path}, scan {number}")))
    return scans


def read_asl(folder: Path) -> list[Scan]:
    """ASL's scans Hokuyo_N.csv of a place, with the poses of the columns poseId and T00 to T33 of a table."""
    path = next((p for place in LEICA_PLACES if (p := folder / place / LEICA).is_file()), None)
    if path is None:
        raise InputError(f"{folder}: holds scans but no {LEICA}, nor do the folders beside it")
    poses = {_whole_number(value, at): matrix for at, value, matrix in _read_poses(path, "poseId", "T")}
    files = sorted(folder.glob("Hokuyo_*.csv"), key=_number)
    for file in files:
        missing = f"{path}: has no pose for {file.name}; expected one for each scan"
        require(_number(file) in poses, missing)
    return [Scan(_number(file), partial(read, file), poses[_number(file)]) for file in files]


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


def _whole_number(text: str, at: str) -> int:
    try:
        return int(float(text))
    except ValueError as error:
        raise InputError(f"{at}: found {text[:40]!r}, expected the number of a scan") from error


def _number(path: Path) -> int:
    found = re.search(r"(\d+)$", path.stem)
    if found is None:
        raise InputError(f"{path}: its name has no number, expected Hokuyo_0.csv and so on")
    return int(found[1])


def read_kitti_sequence(folder: Path) -> list[Scan]:
    """The scans velodyne/*.bin of a sequence of KITTI odometry; line i of the poses belongs to frame i.

    The poses are those of the left camera; the scans get ``world_from_velodyne``.
    """
    path, other = folder / "poses.txt", folder.parent.parent / "poses" / f"{folder.name}.txt"
    if not path.is_file():
        require(other.is_file(), f"{folder}: has no poses, expected {path} or {other}")
        path = other
    lines = read_text(path, "poses").splitlines()
    poses = [pose_of_numbers(line, f"{path}, line {i}") for i, line in enumerate(lines, 1) if line.strip()]
    camera_from_velodyne = _read_calibration(folder / "calib.txt")
    scans = []
    for file in sorted((folder / "velodyne").glob("*.bin")):
        number, has = int(file.stem), f"there are poses for {len(poses)} frames only"
        require(number < len(poses), f"{file}: frame {number}, but {has}")
        scans.append(Scan(number, partial(read, file), poses[number] @ camera_from_velodyne))
    return scans


def _read_calibration(path: Path) -> Pose:
    """``camera_from_velodyne``: the row Tr of the calibration."""
    for line in read_text(path, "the calibration of the sequence, with a row Tr:").splitlines():
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
        numbers = read_text(info, "the pose of a fragment").partition("\n")[2]
        scans.append(Scan(number, partial(read_fragment, path), pose_of_numbers(numbers, str(info))))
    return scans


def read_fragment(path: Path) -> Geometry:
    """The points that ``torch.save`` wrote, as a tensor or a numpy array; nothing that would run code."""
    # the types that a numpy array is rebuilt from; numpy 1 and 2 name the first differently
    rebuild = np.zeros(1).__reduce__()[0]
    names = [f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")]
    kinds = [type(np.dtype(kind)) for kind in (np.float32, np.float64)]
    parts = [*((rebuild, name) for name in names), np.ndarray, np.dtype, *kinds, _codecs.encode]
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
    return pose_of_numbers(read_text(path, f"the pose of {depth.name}"), str(path))


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
