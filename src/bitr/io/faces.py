"""Polygons, how they become triangles, and how large those are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import NDArray

from bitr.io.source import Source
from bitr.io.text import Lines, is_number, parse


@dataclass(frozen=True)
class Polygons:
    """The corners of all polygons, one after the other, and how many each of them has."""

    corners: Int64[np.ndarray, " c"]
    lengths: Int64[np.ndarray, " p"]

    @classmethod
    def of_one_size(cls, table: NDArray[np.integer]) -> Polygons:
        count, length = table.shape
        return cls(table.reshape(-1).astype(np.int64), np.full(count, length, dtype=np.int64))

    @classmethod
    def of_any_size(cls, polygons: Sequence[NDArray[np.integer]]) -> Polygons:
        corners = np.concatenate([np.zeros(0, dtype=np.int64), *polygons]).astype(np.int64)
        return cls(corners, np.array([len(p) for p in polygons], dtype=np.int64))

    def fans(self) -> Int64[np.ndarray, "f 3"]:
        """Triangles around the first corner of each polygon, in the order of the polygons."""
        triangles = np.maximum(self.lengths - 2, 0)
        first = np.repeat(np.cumsum(self.lengths) - self.lengths, triangles)
        # the how-manieth triangle of its polygon each one is
        step = np.arange(len(first)) - np.repeat(np.cumsum(triangles) - triangles, triangles)
        return np.stack(
            [self.corners[first], self.corners[first + step + 1], self.corners[first + step + 2]], 1
        )


def area_vectors(
    points: Float64[np.ndarray, "n 3"], faces: Int64[np.ndarray, "f 3"]
) -> Float64[np.ndarray, "f 3"]:
    """Normals as long as their faces are large, up to one factor for all that keeps the numbers near 1."""
    a, b, c = (points[faces[:, i]] for i in range(3))
    unit = np.ptp(points, axis=0).max()
    return np.cross((b - a) / unit, (c - a) / unit)


def parse_polygons(source: Source, lines: Lines, skip: int = 0) -> Polygons:
    """Lines of ``skip`` numbers, a number of corners and as many vertices; what follows is ignored."""
    if len({len(row.split()) for row in lines.rows}) == 1:
        table = parse(source, lines)
        corners = table[:, min(skip, table.shape[1] - 1)]
        if (corners == corners[0]).all() and 0 <= corners[0] < table.shape[1] - skip:
            return Polygons.of_one_size(_whole(source, table[:, skip + 1 : skip + 1 + int(corners[0])]))
    rows = zip(lines.rows, lines.numbers, strict=True)
    return Polygons.of_any_size([_polygon(source, row, number, skip) for row, number in rows])


def _whole(source: Source, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    whole = numbers.astype(np.int64)
    if (whole != numbers).any():
        raise source.error(f"a face uses vertex {numbers[whole != numbers][0]:g}, expected a whole number")
    return whole


def _polygon(source: Source, row: bytes, number: int, skip: int) -> Int64[np.ndarray, " k"]:
    tokens = [t.decode("latin-1") for t in row.split()]
    wrong = next((t for t in tokens if not is_number(t)), None)
    if wrong is not None:
        raise source.error(f"line {number}: found {wrong[:40]!r}, expected a number")
    values = [float(t) for t in tokens]
    corners = values[skip] if len(values) > skip else 0.0
    if not (corners.is_integer() and 0 <= corners <= len(values) - skip - 1):
        raise source.error(
            f"line {number}: a face of {corners:g} corners, found {len(values) - skip - 1} numbers for them"
        )
    return _whole(source, np.array(values[skip + 1 : skip + 1 + int(corners)], dtype=np.float64))
