"""ASL's laser registration data: ``Hokuyo_N.csv``, each in its own frame, and ``pose_scanner_leica.csv``."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from bitr.data.poses import nearest_pose
from bitr.data.scans import Scan
from bitr.errors import InputError
from bitr.io import read

POSES = "pose_scanner_leica.csv"
PLACES = (".", "..", "../global_frame", "../csv_global", "../leica")
"""Where the poses may lie, seen from the folder of the scans."""


def read_asl(folder: Path) -> list[Scan]:
    """The scans of a place, in the order of their numbers."""
    path = next((folder / place / POSES for place in PLACES if (folder / place / POSES).is_file()), None)
    if path is None:
        raise InputError(f"{folder}: holds scans but no {POSES}, nor do the folders beside it")
    poses = read_poses(path)
    files = sorted(folder.glob("Hokuyo_*.csv"), key=_number)
    missing = [file.name for file in files if _number(file) not in poses]
    if missing:
        raise InputError(f"{path}: has no pose for {missing[0]}; expected one for each scan")
    return [Scan(_number(file), partial(read, file), poses[_number(file)]) for file in files]


def read_poses(path: Path) -> dict[int, Float64[np.ndarray, "4 4"]]:
    """``world_from_scan`` by the number of the scan: columns poseId and T00 to T33."""
    return {_whole(value, at): matrix for at, value, matrix in _table(path, "poseId", "T")}


def read_cloud_list(path: Path) -> list[Scan]:
    """The scans of a list of libpointmatcher's: columns reading, a file beside the list, and gT00 to gT33."""
    rows = _table(path, "reading", "gT")
    scans = [(path.parent / value.strip(), matrix) for _, value, matrix in rows]
    return [Scan(_number(file), partial(read, file), matrix) for file, matrix in scans]


def _table(path: Path, key: str, entry: str) -> Iterator[tuple[str, str, Float64[np.ndarray, "4 4"]]]:
    """Where each row stands, what it is called, and its pose."""
    entries = [f"{entry}{i}{j}" for i in range(4) for j in range(4)]
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, skipinitialspace=True)
        names = {name.strip().lower(): name for name in rows.fieldnames or ()}
        missing = [name for name in (key, *entries) if name.lower() not in names]
        if missing:
            raise InputError(
                f"{path}: has no column {missing[0]}, expected {key} and {entries[0]} to {entries[-1]}"
            )
        for row in rows:
            at = f"{path}, line {rows.line_num}"
            try:
                matrix = np.array([float(row[names[name.lower()]]) for name in entries]).reshape(4, 4)
            except (TypeError, ValueError) as error:
                raise InputError(f"{at}: {str(error)[:60]}, expected numbers") from error
            yield at, str(row[names[key.lower()]]), nearest_pose(matrix, at)


def _whole(text: str, at: str) -> int:
    try:
        return int(float(text))
    except ValueError as error:
        raise InputError(f"{at}: found {text[:40]!r}, expected the number of a scan") from error


def _number(path: Path) -> int:
    found = re.search(r"(\d+)$", path.stem)
    if found is None:
        raise InputError(f"{path}: its name has no number, expected Hokuyo_0.csv and so on")
    return int(found[1])
