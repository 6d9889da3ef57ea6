"""Wavefront OBJ: vertices, normals and polygons; materials are left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import NDArray

from bitr.errors import InputError
from bitr.io.columns import with_colors
from bitr.io.faces import Polygons
from bitr.io.geometry import Geometry
from bitr.io.source import Source
from bitr.io.text import Lines, parse

BLOCK = 20_000
"""Faces that are taken apart at a time: as Python objects they need much more memory than as numbers."""


def read_obj(source: Source) -> Geometry:
    """The mesh of an obj file, all objects as one; its vertices as points where it has no faces.

    Vertices keep their normals where each of them has just one.
    """
    lines = _lines(source)
    vertices = _numbers(source, lines["v"], (3, 4, 6, 7))
    if not len(vertices):
        raise source.error("the obj file has no vertices (lines 'v x y z'), expected points or a mesh")
    geometry = Geometry(np.ascontiguousarray(vertices[:, :3]), name=str(source.path))
    if vertices.shape[1] >= 6:
        geometry = with_colors(geometry, vertices[:, 3:6])
    normals = _numbers(source, lines["vn"], (3,))
    if not len(lines["f"]):
        return replace(geometry, normals=normals) if len(normals) == len(vertices) else geometry
    corners, normal_of, lengths = _corners(source, lines["f"])
    # A number below 0 counts back from what stands above the face in the file.
    faces_at, vertices_at, normals_at = (
        np.array(lines[key].numbers, dtype=np.int64) for key in ("f", "v", "vn")
    )
    corners = _absolute(corners, np.repeat(np.searchsorted(vertices_at, faces_at), lengths))
    normal_of = _absolute(normal_of, np.repeat(np.searchsorted(normals_at, faces_at), lengths))
    shared = _one_normal_each(corners, normal_of, normals, len(vertices))
    return replace(geometry, faces=Polygons(corners, lengths).fans(), normals=shared)


def _lines(source: Source) -> dict[str, Lines]:
    """What follows the words v, vn and f, each with the numbers of its lines."""
    data = source.data
    if b"\\" in data:  # a line that goes on in the next one
        data = data.replace(b"\\\r\n", b" ").replace(b"\\\n", b" ")
    found: dict[bytes, tuple[list[bytes], list[int]]] = {b"v": ([], []), b"vn": ([], []), b"f": ([], [])}
    for number, row in enumerate(data.splitlines(), 1):
        parts = row.split(None, 1)
        if parts and parts[0] in found:
            rows, numbers = found[parts[0]]
            rows.append(parts[1] if len(parts) > 1 else b"")
            numbers.append(number)
    return {key.decode(): Lines(rows, numbers) for key, (rows, numbers) in found.items()}


def _numbers(source: Source, lines: Lines, widths: tuple[int, ...]) -> Float64[np.ndarray, "n c"]:
    table = parse(source, lines)
    if len(lines) and table.shape[1] not in widths:
        flat = "two dimensions only: " if table.shape[1] == 2 else ""
        raise source.error(
            f"{flat}line {lines.numbers[0]}: found {table.shape[1]} numbers, expected {widths[0]}"
        )
    return table


def _corners(
    source: Source, lines: Lines
) -> tuple[Int64[np.ndarray, " c"], Int64[np.ndarray, " c"], Int64[np.ndarray, " p"]]:
    """Vertex and normal of each corner as numbered in the file (0: no normal), and corners of each face."""
    blocks: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
    for start in range(0, len(lines), BLOCK):
        block = lines.part(start, start + BLOCK)
        faces = [row.split(b"#")[0].split() for row in block.rows]
        length = np.array([len(face) for face in faces], dtype=np.int64)
        try:
            tokens = [corner for face in faces for corner in face]
            corners = np.array([int(t.partition(b"/")[0]) for t in tokens], dtype=np.int64)
            normals = np.array(
                [int(t.split(b"/")[2] or 0) if t.count(b"/") > 1 else 0 for t in tokens], np.int64
            )
        except (ValueError, OverflowError) as error:
            wrong = next(i for i, face in enumerate(faces) if not all(_is_corner(corner) for corner in face))
            raise _not_a_face(source, block, wrong) from error
        if length.min() < 3:
            raise _not_a_face(source, block, int(np.argmax(length < 3)))
        if not corners.all():
            zero = int(np.argmin(corners != 0))
            raise _not_a_face(source, block, int(np.searchsorted(np.cumsum(length), zero, "right")))
        blocks.append((corners, normals, length))
    vertex, normal, lengths = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    return vertex, normal, lengths


def _is_corner(corner: bytes) -> bool:
    try:
        return (
            all(abs(int(part)) < 1 << 63 for part in corner.split(b"/")[::2] if part) and corner[:1] != b"/"
        )
    except ValueError:
        return False


def _not_a_face(source: Source, lines: Lines, index: int) -> InputError:
    found = lines.rows[index][:40].decode("latin-1")
    return source.error(
        f"line {lines.numbers[index]}: found {'f ' + found!r}, expected three or more vertices, such as "
        "f 1 2 3, counted from 1"
    )


def _absolute(numbers: Int64[np.ndarray, " c"], above: Int64[np.ndarray, " c"]) -> Int64[np.ndarray, " c"]:
    """Counted from 0; what points before the first stays negative."""
    return np.where(numbers < 0, above + numbers, numbers - 1)


def _one_normal_each(
    vertex: Int64[np.ndarray, " c"],
    normal: Int64[np.ndarray, " c"],
    normals: Float64[np.ndarray, "m _"],
    n: int,
) -> Float64[np.ndarray, "n 3"] | None:
    """The normal of every vertex, if every vertex has one and always the same."""
    if not len(normals) or normal.min() < 0 or normal.max() >= len(normals):
        return None
    if vertex.min() < 0 or vertex.max() >= n:
        return None  # told later, when faces are checked
    chosen = np.full(n, -1)
    chosen[vertex] = normal
    if (chosen < 0).any() or not np.array_equal(normals[chosen[vertex]], normals[normal]):
        return None
    return normals[chosen]
