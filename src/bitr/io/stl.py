"""STL: triangles without shared corners, in text or binary."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

from bitr.io.geometry import Geometry
from bitr.io.source import Source
from bitr.io.text import Lines, parse

TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def is_binary_stl(data: bytes) -> bool:
    """Whether the size is just what the number of faces in the header asks for: text never fits that."""
    return len(data) >= 84 and len(data) == 84 + TRIANGLE.itemsize * int.from_bytes(data[80:84], "little")


def read_stl(source: Source) -> Geometry:
    """The mesh of an stl file; corners at exactly the same place become one vertex."""
    text = source.data.lstrip()[:5].lower() == b"solid" and not is_binary_stl(source.data)
    corners = _ascii(source) if text else _binary(source)
    if not len(corners):
        raise source.error("the stl file has no faces, expected a mesh")
    places, vertex = _merged(corners)
    return Geometry(places, faces=vertex.reshape(-1, 3), name=str(source.path))


def _merged(
    corners: Float64[np.ndarray, "n 3"],
) -> tuple[Float64[np.ndarray, "m 3"], Int64[np.ndarray, " n"]]:
    """The different places, in the order of the file, and which of them each corner is at."""
    order = np.lexsort(corners.T)
    new = np.ones(len(corners), dtype=bool)
    new[1:] = (corners[order[1:]] != corners[order[:-1]]).any(axis=1)
    first = order[new]  # the sort is stable: the first corner at each place
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    vertex = np.empty(len(corners), dtype=np.int64)
    vertex[order] = rank[np.cumsum(new) - 1]
    return corners[np.sort(first)], vertex


def _binary(source: Source) -> Float64[np.ndarray, "n 3"]:
    if len(source.data) < 84:
        raise source.error(f"truncated: a binary stl header has 84 bytes, found {len(source.data)}")
    count, left = int.from_bytes(source.data[80:84], "little"), len(source.data) - 84
    if count * TRIANGLE.itemsize > left:
        raise source.error(
            f"truncated or not an stl file: the header claims {count} faces of {TRIANGLE.itemsize} bytes, "
            f"found {left} bytes"
        )
    return np.frombuffer(source.data, TRIANGLE, count, 84)["corners"].reshape(-1, 3).astype(np.float64)


def _ascii(source: Source) -> Float64[np.ndarray, "n 3"]:
    lines = source.data.lower().splitlines()
    at = [i for i, line in enumerate(lines) if line.lstrip().startswith(b"vertex")]
    if len(at) % 3 or not any(line.lstrip().startswith(b"endsolid") for line in lines):
        raise source.error(
            f"truncated: {len(at)} corners of triangles, expected three for each and 'endsolid'"
        )
    rows = Lines([lines[i].split(b"vertex", 1)[1] for i in at], [i + 1 for i in at])
    table = parse(source, rows)
    if len(at) and table.shape != (len(at), 3):
        raise source.error(f"corners of {table.shape[1]} coordinates, expected 3")
    return table.reshape(-1, 3)
