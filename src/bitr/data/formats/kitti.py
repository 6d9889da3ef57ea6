"""KITTI odometry: ``sequences/NN/velodyne/*.bin`` with ``calib.txt``, and the poses of the left camera."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from bitr.data.poses import pose_of_numbers
from bitr.data.scans import Scan
from bitr.errors import InputError
from bitr.io import read


def read_kitti_sequence(folder: Path) -> list[Scan]:
    """The scans of a sequence, with ``world_from_velodyne``; line i of the poses belongs to frame i."""
    poses = _camera_poses(folder)
    camera_from_velodyne = _calibration(folder / "calib.txt")
    scans = []
    for path in sorted((folder / "velodyne").glob("*.bin")):
        number = int(path.stem)
        if number >= len(poses):
            raise InputError(f"{path}: frame {number}, but there are poses for {len(poses)} frames only")
        scans.append(Scan(number, partial(read, path), poses[number] @ camera_from_velodyne))
    return scans


def _camera_poses(folder: Path) -> list[Float64[np.ndarray, "4 4"]]:
    """From ``poses.txt`` in the sequence, or ``poses/NN.txt`` beside the folder of sequences."""
    places = (folder / "poses.txt", folder.parent.parent / "poses" / f"{folder.name}.txt")
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise InputError(f"{folder}: has no poses, expected {places[0]} or {places[1]}")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [pose_of_numbers(line, f"{path}, line {i}") for i, line in enumerate(lines, 1) if line.strip()]


def _calibration(path: Path) -> Float64[np.ndarray, "4 4"]:
    """``camera_from_velodyne``: the row Tr of the calibration."""
    if not path.is_file():
        raise InputError(f"{path}: no such file, expected the calibration of the sequence, with a row Tr:")
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() in ("Tr", "Tr_velo_to_cam"):
            return pose_of_numbers(numbers, f"{path}, {name}")
    raise InputError(f"{path}: has no row Tr:, expected the motion from the scanner to the camera")
