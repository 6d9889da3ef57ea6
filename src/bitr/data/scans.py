"""Scans of places with the poses they were taken from, and the pairs of those that follow each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from bitr.data.packed import opened
from bitr.data.pair import AssemblyPair
from bitr.data.poses import inverse, nearest_pose
from bitr.data.transforms import sample_grid
from bitr.errors import InputError
from bitr.io import Geometry


@dataclass(frozen=True, eq=False)
class Scan:
    """One scan: its number among those of its place, its points when asked for, and its pose."""

    number: int
    load: Callable[[], Geometry]
    world_from_scan: Float64[np.ndarray, "4 4"]


Places = Mapping[str, Sequence[Scan]]
"""The scans of each place, in order."""


@dataclass(frozen=True)
class InMemory:
    """A cloud that is there already."""

    cloud: Geometry

    def __call__(self) -> Geometry:
        return self.cloud


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


def pairs_in_step(places: Places, step: int) -> list[ScanPair]:
    """Each scan with the one whose number is ``step`` larger, where both are there."""
    found = []
    for place in sorted(places):
        by_number = {scan.number: scan for scan in places[place]}
        found += [
            ScanPair(place, scan, by_number[number + step])
            for number, scan in sorted(by_number.items())
            if number + step in by_number
        ]
    return found


def read_packed_scans(path: Path) -> list[Scan]:
    """The scans of an npz file: all ``points``, ``offsets`` where each begins, ``poses`` and ``ids``."""
    with opened(path, "points", "offsets", "poses", "ids") as arrays:
        points, offsets = arrays["points"].astype(np.float64), arrays["offsets"]
        poses, ids = arrays["poses"].astype(np.float64), arrays["ids"]
    if len(offsets) != len(ids) + 1 or len(poses) != len(ids) or offsets[-1] != len(points):
        raise InputError(
            f"{path}: {len(ids)} ids, {len(poses)} poses, {len(offsets)} offsets that end at {offsets[-1]}, "
            f"and {len(points)} points do not fit together"
        )
    return [
        Scan(
            int(number),
            InMemory(Geometry(points[start:stop], name=f"{path.stem}/{number}")),
            nearest_pose(matrix, f"{path}, scan {number}"),
        )
        for number, start, stop, matrix in zip(ids, offsets[:-1], offsets[1:], poses, strict=True)
    ]
