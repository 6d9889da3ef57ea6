"""Readers of meshes: ply (also of clouds), obj, stl and off."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import NDArray

from bitr.io.geometry import Geometry, from_columns
from bitr.io.guard import Lines, Source

PLY_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4",
    "float": "f4", "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2",
    "int32": "i4", "uint32": "u4", "int64": "i8", "uint64": "u8", "float32": "f4", "float64": "f8",
}  # fmt: skip
PLY_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
PLY_INDICES = ("vertex_indices", "vertex_index")
PLY_END = re.compile(rb"[\r\n]end_header[ \t]*(\r\n|\n|\r)")
STRUCT_CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}
OBJ_FACE = re.compile(rb"(?:\s*-?0{0,9}[1-9]\d{0,17}(?:/-?\d{0,18}){0,2}(?=\s|$)){3,}\s*")
"""Three or more corners: vertex, vertex/texture, vertex//normal or vertex/texture/normal."""
STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
OFF_MAGIC = re.compile(rb"(C?)(N?)OFF(?=[\s\d#])")

Indices = Int64[np.ndarray, " _"]


def triangulate(corners: Indices, lengths: Indices) -> Int64[np.ndarray, "f 3"]:
    """Fans of triangles around the first corner of each polygon, in the order of the polygons."""
    triangles = np.maximum(lengths - 2, 0)
    first = np.repeat(np.cumsum(lengths) - lengths, triangles)
    step = _count_up(triangles)
    return np.stack([corners[first], corners[first + step + 1], corners[first + step + 2]], axis=1)


def _count_up(lengths: Indices) -> Indices:
    """0, 1, ... up to each length, one after the other."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _read_polygons(source: Source, lines: Lines, skip: int = 0) -> tuple[Indices, Indices]:
    """Corners and lengths of lines of ``skip`` numbers, a length and as many corners; the rest is ignored."""
    widths = np.array([len(row.split(b"#")[0].split()) for row in lines.rows], dtype=np.int64)
    tokens = lines
    if (widths != widths[0]).any():
        rows = [token for row in lines.rows for token in row.split(b"#")[0].split()]
        tokens = Lines(rows, np.repeat(np.array(lines.numbers), widths).tolist())
    flat = source.numbers(tokens).ravel()
    starts = np.cumsum(widths) - widths + skip
    room = widths - skip - 1
    lengths = np.where(room < 0, -1, flat[np.minimum(starts, len(flat) - 1)])
    wrong = ~((lengths >= 0) & (lengths <= room) & (lengths == np.floor(lengths)))
    i = int(np.argmax(wrong))
    found = f"a face of {lengths[i]:g} corners, found {max(room[i], 0)} numbers"
    source.require(not wrong.any(), f"line {lines.numbers[i]}: {found}")
    lengths = lengths.astype(np.int64)
    numbers = flat[np.repeat(starts + 1, lengths) + _count_up(lengths)]
    corners = numbers.astype(np.int64)
    if (corners != numbers).any():
        raise source.error(f"a face uses vertex {numbers[corners != numbers][0]:g}, expected a whole number")
    return corners, lengths


class _Property(NamedTuple):
    name: str
    kind: str  # NumPy type, without byte order, of the value or of the items of a list
    length: str | None  # type of the number in front of a list; None for a single value


@dataclass(frozen=True)
class _Element:
    name: str
    count: int
    properties: list[_Property]


Rows = list[tuple[_Property, NDArray[np.generic], Indices | None]]
"""For each property its values and, for lists, their lengths."""


def read_ply(source: Source) -> Geometry:
    """The vertices of a ply file, with their faces if it has some."""
    order, elements, at = _read_ply_header(source)
    body = Lines([], []) if order else source.lines(at)
    geometry: Geometry | None = None
    faces = None
    for element in elements:
        if order:
            rows, at = _ply_binary(source, order, element, at)
        else:
            source.claim(element.count, f"rows of element '{element.name}'", len(body))
            rows, body = _ply_text(source, element, body.part(0, element.count)), body.part(element.count)
        if element.name == "vertex":
            source.require(element.count, "the ply file has 0 vertices, expected points or a mesh")
            columns = [(p.name, values) for p, values, lengths in rows if lengths is None]
            geometry = from_columns(columns, source.name)
        elif element.name == "face" and element.count:
            found = [(p, values, lengths) for p, values, lengths in rows if lengths is not None]
            lists = [each for each in found if each[0].name in PLY_INDICES and each[0].kind[0] in "iu"]
            source.require(lists, f"the ply element 'face' has no list {' or '.join(PLY_INDICES)} in front")
            faces = triangulate(lists[0][1].astype(np.int64), lists[0][2])
    if geometry is None:
        raise source.error("the ply header has no element 'vertex'")
    return replace(geometry, faces=faces)


def _read_ply_header(source: Source) -> tuple[str, list[_Element], int]:
    """The byte order, the elements and the number of bytes up to the body."""
    end = PLY_END.search(source.data, 0, 1 << 20)
    if end is None:
        raise source.error("the ply header has no 'end_header': the file is truncated or damaged")
    order: str | None = None
    elements: list[_Element] = []
    for number, row in enumerate(source.data[: end.start()].splitlines(), 1):
        line = row.decode("latin-1")
        match line.split():
            case ["format", kind, *_] if kind in PLY_ORDERS:
                order = PLY_ORDERS[kind]
            case ["element", name, count] if count.isdecimal():
                elements.append(_Element(name, int(count[:18]), []))
            case ["property", "list", length, kind, name] if (
                elements and PLY_TYPES.get(length) in STRUCT_CODES and kind in PLY_TYPES
            ):
                elements[-1].properties.append(_Property(name, PLY_TYPES[kind], PLY_TYPES[length]))
            case ["property", kind, name] if elements and kind in PLY_TYPES:
                elements[-1].properties.append(_Property(name, PLY_TYPES[kind], None))
            case ["ply" | "comment" | "obj_info", *_] | []:
                continue
            case _:
                found = f"line {number}: found {line[:40]!r} in the ply header"
                raise source.error(f"{found}, expected a property")
    if order is None:
        raise source.error(f"the ply header has no line 'format' with one of {', '.join(PLY_ORDERS)}")
    return order, elements, end.end()


def _ply_text(source: Source, element: _Element, lines: Lines) -> Rows:
    """All properties or, where there are lists, the first list: the rest of the line is not needed."""
    if not element.count:
        return []
    first_list = next((i for i, p in enumerate(element.properties) if p.length is not None), None)
    if first_list is not None:
        return [(element.properties[first_list], *_read_polygons(source, lines, skip=first_list))]
    table = source.numbers(lines)
    width = len(element.properties)
    found = f"element '{element.name}' has {len(table)} rows of {table.shape[1]} numbers"
    claimed = f"the header claims {element.count} rows of {width}"
    source.require(table.shape == (element.count, width), f"{found}, {claimed}")
    return [(p, table[:, i].astype(p.kind), None) for i, p in enumerate(element.properties)]


def _ply_binary(source: Source, order: str, element: _Element, at: int) -> tuple[Rows, int]:
    """The properties of an element and the byte after it; fast where all lists are as long as the first."""
    least, left = sum(int((p.length or p.kind)[1]) for p in element.properties), len(source.data) - at
    source.claim(element.count, f"rows of element '{element.name}'", left, least)
    if not element.count or not element.properties:
        return [], at
    fields: list[tuple[str, str] | tuple[str, str, tuple[int]]] = []
    for i, p in enumerate(element.properties):
        if p.length is None:
            fields.append((f"value{i}", order + p.kind))
            continue
        place = at + np.dtype(fields).itemsize
        fits = place + int(p.length[1]) <= len(source.data)
        length = int(np.frombuffer(source.data, order + p.length, 1, place)[0]) if fits else -1
        if not 0 <= length <= 1 << 16:
            return _ply_one_by_one(source, order, element, at)
        fields += [(f"length{i}", order + p.length), (f"value{i}", order + p.kind, (length,))]
    kind = np.dtype(fields)
    if kind.itemsize * element.count > left:
        return _ply_one_by_one(source, order, element, at)
    table = np.frombuffer(source.data, kind, element.count, at)
    rows: Rows = []
    for i, p in enumerate(element.properties):
        lengths = None if p.length is None else table[f"length{i}"].astype(np.int64)
        if lengths is not None and (lengths != table[f"value{i}"].shape[1]).any():
            return _ply_one_by_one(source, order, element, at)
        rows.append((p, table[f"value{i}"].reshape(-1), lengths))
    return rows, at + table.nbytes


def _ply_one_by_one(source: Source, order: str, element: _Element, at: int) -> tuple[Rows, int]:
    found: list[list[NDArray[np.generic]]] = [[] for _ in element.properties]
    kinds = [np.dtype(order + p.kind) for p in element.properties]
    heads = [struct.Struct(order + STRUCT_CODES[p.length] if p.length else "") for p in element.properties]
    end = len(source.data)
    for row in range(element.count):
        for values, kind, head in zip(found, kinds, heads, strict=True):
            count = head.unpack_from(source.data, at)[0] if 0 < head.size <= end - at else 1
            at += head.size
            if count < 0 or at + count * kind.itemsize > end:
                where = f"truncated or damaged in row {row} of element '{element.name}'"
                raise source.error(f"{where}: {count} items claimed, found {max(end - at, 0)} bytes")
            values.append(np.frombuffer(source.data, kind, count, at))
            at += count * kind.itemsize
    rows: Rows = []
    for p, arrays in zip(element.properties, found, strict=True):
        lengths = np.array([len(a) for a in arrays], dtype=np.int64) if p.length else None
        rows.append((p, np.concatenate(arrays), lengths))
    return rows, at


def read_obj(source: Source) -> Geometry:
    """The mesh of an obj file, or its vertices; normals are kept where each vertex has just one."""
    lines = _obj_lines(source)
    vertices = _obj_numbers(source, lines["v"], (3, 4, 6, 7))
    found = "the obj file has no vertices (lines 'v x y z')"
    source.require(len(vertices), f"{found}, expected points or a mesh")
    geometry = Geometry(np.ascontiguousarray(vertices[:, :3]), name=source.name)
    if vertices.shape[1] >= 6:
        geometry = geometry.paint(vertices[:, 3:6])
    normals = _obj_numbers(source, lines["vn"], (3,))
    if not len(lines["f"]):
        return replace(geometry, normals=normals) if len(normals) == len(vertices) else geometry
    corners, normal_of, lengths = _obj_corners(source, lines["f"])
    # A number below 0 counts back from what stands above the face in the file.
    corners = _count_from_0(corners, lines["v"], lines["f"], lengths)
    normal_of = _count_from_0(normal_of, lines["vn"], lines["f"], lengths)
    shared = _one_normal_each(corners, normal_of, normals, len(vertices))
    return replace(geometry, faces=triangulate(corners, lengths), normals=shared)


def _obj_lines(source: Source) -> dict[str, Lines]:
    """The rest of each line that begins with v, vn or f, with its number."""
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


def _obj_numbers(source: Source, lines: Lines, widths: tuple[int, ...]) -> Float64[np.ndarray, "n c"]:
    table = source.numbers(lines)
    if len(lines) and table.shape[1] not in widths:
        flat = "two dimensions only: " if table.shape[1] == 2 else ""
        found = f"line {lines.numbers[0]}: found {table.shape[1]} numbers"
        raise source.error(f"{flat}{found}, expected {widths[0]}")
    return table


def _obj_corners(source: Source, lines: Lines) -> tuple[Indices, Indices, Indices]:
    """Vertex and normal of each corner as numbered in the file (0: no normal), and corners of each face."""
    rows = [row.partition(b"#")[0] for row in lines.rows]
    for row, number in zip(rows, lines.numbers, strict=True):
        if not OBJ_FACE.fullmatch(row):
            found = f"line {number}: found {(b'f ' + row[:40]).decode('latin-1')!r}"
            raise source.error(f"{found}, expected three or more vertices, such as f 1 2 3, from 1 on")
    text = b" ".join(rows)
    vertex = np.fromstring(re.sub(rb"/\S*", b"", text), dtype=np.int64, sep=" ")
    normal = np.zeros_like(vertex)
    if len(re.findall(rb"/-?\d*/-?\d", text)) == len(vertex):  # each corner has one, after the last slash
        normal = np.fromstring(re.sub(rb"\S*/", b"", text), dtype=np.int64, sep=" ")
    return vertex, normal, np.array([len(row.split()) for row in rows], dtype=np.int64)


def _count_from_0(numbers: Indices, things: Lines, faces: Lines, lengths: Indices) -> Indices:
    """Indices from the numbers of a file; whatever points before the first stays negative."""
    above = np.repeat(np.searchsorted(np.array(things.numbers), np.array(faces.numbers)), lengths)
    return np.where(numbers < 0, above + numbers, numbers - 1)


def _one_normal_each(
    vertex: Indices, normal: Indices, normals: Float64[np.ndarray, "m _"], n: int
) -> Float64[np.ndarray, "n 3"] | None:
    """The normal of every vertex, if every vertex has one and always the same."""
    numbered = ((normal, len(normals)), (vertex, n))
    if not all(count and index.min() >= 0 and index.max() < count for index, count in numbered):
        return None  # wrong vertices are told later, when faces are checked
    chosen = np.full(n, -1)
    chosen[vertex] = normal
    if (chosen < 0).any() or not np.array_equal(normals[chosen[vertex]], normals[normal]):
        return None
    return normals[chosen]


def is_binary_stl(data: bytes) -> bool:
    """The size is just right for the number of faces in the header, which no text fits."""
    return len(data) >= 84 and len(data) == 84 + STL_TRIANGLE.itemsize * int.from_bytes(data[80:84], "little")


def read_stl(source: Source) -> Geometry:
    """The mesh of an stl file; corners at exactly the same place become one vertex."""
    if source.data.lstrip()[:5].lower() == b"solid" and not is_binary_stl(source.data):
        corners = _stl_text(source)
    else:
        source.claim(1, "stl header", len(source.data), 84)
        count = int.from_bytes(source.data[80:84], "little")
        source.claim(count, "faces", len(source.data) - 84, STL_TRIANGLE.itemsize)
        triangles = np.frombuffer(source.data, STL_TRIANGLE, count, 84)
        corners = triangles["corners"].reshape(-1, 3).astype(np.float64)
    source.require(len(corners), "the stl file has no faces, expected a mesh")
    order = np.lexsort(corners.T)
    is_new = np.ones(len(corners), dtype=bool)
    is_new[1:] = (corners[order[1:]] != corners[order[:-1]]).any(axis=1)
    first = order[is_new]  # the sort is stable: the first corner at each place
    rank = np.argsort(np.argsort(first))  # in the order of the file
    vertex = np.empty(len(corners), dtype=np.int64)
    vertex[order] = rank[np.cumsum(is_new) - 1]
    return Geometry(corners[np.sort(first)], faces=vertex.reshape(-1, 3), name=source.name)


def _stl_text(source: Source) -> Float64[np.ndarray, "n 3"]:
    lines = source.data.lower().splitlines()
    at = [i for i, line in enumerate(lines) if line.lstrip().startswith(b"vertex")]
    is_whole = len(at) % 3 == 0 and any(line.lstrip().startswith(b"endsolid") for line in reversed(lines))
    found = f"truncated: {len(at)} corners of triangles"
    source.require(is_whole, f"{found}, expected three for each and 'endsolid'")
    table = source.numbers(Lines([lines[i].split(b"vertex", 1)[1] for i in at], [i + 1 for i in at]))
    source.require(not at or table.shape[1] == 3, f"corners of {table.shape[1]} coordinates, expected 3")
    return table.reshape(-1, 3)


def read_off(source: Source) -> Geometry:
    """The mesh of an off file, or its vertices where it has no faces; COFF has colours, NOFF normals."""
    lines = source.lines()
    magic = OFF_MAGIC.match(lines.rows[0].lstrip() + b"\n") if len(lines) else None
    if magic is None:
        raise source.error("does not start with OFF, COFF, NOFF or CNOFF, expected an off file")
    # Some files have the counts on the first line, even without a space before them.
    rest = lines.rows[0].lstrip()[magic.end() :]
    lines = Lines([rest, *lines.rows[1:]], lines.numbers) if rest.strip() else lines.part(1)
    counts = lines.rows[0].split()[:2] if len(lines) else []
    is_known = len(counts) == 2 and all(c.isdigit() for c in counts)
    source.require(is_known, "no line with the numbers of vertices and faces after OFF")
    vertices, faces = (int(c[:18]) for c in counts)
    source.claim(vertices + faces, "vertices and faces", len(lines) - 1)
    table = source.numbers(lines.part(1, 1 + vertices))
    colored, with_normals = bool(magic[1]), bool(magic[2])
    needed = 3 + 3 * with_normals + 3 * colored
    source.require(table.shape[1] >= needed, f"vertices of {table.shape[1]} numbers, expected {needed}")
    geometry = Geometry(np.ascontiguousarray(table[:, :3]), name=source.name)
    if with_normals:
        geometry = replace(geometry, normals=np.ascontiguousarray(table[:, 3:6]))
    if colored:
        geometry = geometry.paint(table[:, needed - 3 : needed])
    if not faces:
        return geometry
    polygons = _read_polygons(source, lines.part(1 + vertices, 1 + vertices + faces))
    return replace(geometry, faces=triangulate(*polygons))
