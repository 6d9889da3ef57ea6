"""Readers of point clouds: tables of text, arrays of NumPy, KITTI scans, pcd, las and laz."""

from __future__ import annotations

import io
import logging
import math
import re
import struct
import warnings
import zipfile
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy.lib import format as npy
from numpy.typing import NDArray

from bitr.errors import InputError
from bitr.io.geometry import POSITION, Geometry, from_columns, pick
from bitr.io.guard import Source, is_number

COMMENTS = (b"#", b"//", b"%", b"!")
POINT_KEYS = ("points", "pos", "xyz", "vertices")  # names under which an npz archive may hold its points
PCD_TYPES = {"<f4", "<f8", "<u1", "<u2", "<u4", "<u8", "<i1", "<i2", "<i4", "<i8"}
LAZ_ITEMS = {6: 20, 7: 8, 8: 6, 9: 29, 10: 30, 11: 6, 12: 8, 13: 29}
"""Bytes of the items that make up a laz point, by their numbers: lazrs trusts the file in this."""

Arrays = list[NDArray[np.generic]]


def read_text(source: Source) -> Geometry:
    """A table of numbers: any delimiter, comments, and a first line with a count or with names of columns."""
    source.require(b"\0" not in source.data, "holds binary data, expected lines of numbers")
    source = replace(source, data=source.data.removeprefix(b"\xef\xbb\xbf"))
    start, names, count = _read_head(source)
    lines = source.lines()
    lines = lines.part(next(i for i, number in enumerate(lines.numbers) if number >= start))
    delimiter = next((d for d in ";,|" if d.encode() in lines.rows[0]), None)
    table = source.numbers(lines, delimiter)
    claimed = f"truncated: the first line claims {count} points, found {len(table)} rows"
    source.require(count in (None, len(table)), claimed)
    columns = list(zip(names, table.T, strict=True)) if len(names) == table.shape[1] else []
    if pick(columns, POSITION) is not None:
        return from_columns(columns, source.name)
    return from_table(table, source.name, source.suffix)


def _read_head(source: Source) -> tuple[int, list[str], int | None]:
    """The number of the first line of numbers, and the names of columns and the count above it."""
    names: list[str] = []
    count: int | None = None
    for number, row in enumerate(source.data.splitlines(), 1):
        text = row.strip()
        comment = next((c for c in COMMENTS if text.startswith(c)), None)
        tokens = re.sub(rb"[,;|\"']", b" ", text.removeprefix(comment or b"")).decode("latin-1").split()
        if comment is not None:
            names = tokens if {"x", "y", "z"} <= {t.lower() for t in tokens} else names
        elif tokens and not any(is_number(t) for t in tokens):
            found = text[:40].decode("latin-1")
            source.require(not names, f"line {number}: found {found!r}, expected numbers")
            names = tokens
        elif len(tokens) == 1 and tokens[0].isdecimal() and count is None:
            count = int(tokens[0][:18])
        elif tokens:
            return number, names, count
    raise source.error("no line of numbers found, expected rows of at least three columns: x y z")


def from_table(table: Float64[np.ndarray, "n c"], name: str, suffix: str = "") -> Geometry:
    """The geometry of a table without names: three columns are x y z, a fourth is an intensity.

    Six columns are points with normals (suffix .xyzn) or colours (.xyzrgb); for other suffixes the last three
    are normals if all have length 1 (to 2 %), colours if all lie in 0..255, and otherwise are ignored with a
    warning. Seven are x y z intensity r g b, or x y z, normals and a curvature; nine have normals and colours
    in either order, told apart the same way.
    """
    columns = table.shape[1]
    if columns < 3:
        dimensions = "two dimensions only" if columns == 2 else "one column only"
        raise InputError(f"{name}: {dimensions}, expected at least three columns: x y z")
    geometry = Geometry(np.ascontiguousarray(table[:, :3]), name=name)
    if columns <= 4:
        return geometry
    if suffix == ".xyzn" and columns >= 6:
        return replace(geometry, normals=np.ascontiguousarray(table[:, 3:6]))
    if suffix == ".xyzrgb" and columns >= 6:
        return geometry.paint(table[:, 3:6])
    known = 0
    for start in {6: (3,), 7: (3, 4), 9: (3, 6)}.get(columns, ()):
        triple = np.ascontiguousarray(table[:, start : start + 3])
        rows = triple[np.isfinite(triple).all(axis=1)]
        are_unit = len(rows) and (np.abs(np.linalg.norm(np.clip(rows, -2, 2), axis=1) - 1) < 0.02).all()
        are_colors = len(rows) and ((rows >= 0) & (rows <= 255)).all()
        if geometry.normals is None and are_unit:
            geometry, known = replace(geometry, normals=triple), known + 1
            if columns == 7:
                break  # the seventh is a curvature
        elif geometry.colors is None and are_colors and (columns, start) != (7, 3):
            geometry, known = geometry.paint(triple), known + 1
    if known >= (2 if columns == 9 else 1):
        return geometry
    return geometry.warn(
        f"{columns} columns without names, of which some are neither normals of length 1 nor colours "
        "in 0..255: ignored (name them in a first line such as: x y z nx ny nz)"
    )


def read_npy(source: Source) -> Geometry:
    """An (n, 3) array of points, or more columns as in a text file."""
    return _from_array(source, _read_array(source, source.data, "the array"))


def read_npz(source: Source) -> Geometry:
    """Points under one of their usual names, or the only array; normals, colors and faces where present."""
    with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
        members = {i.filename.removesuffix(".npy").lower(): i for i in archive.infolist()}
        wanted = next((k for k in POINT_KEYS if k in members), next(iter(members), ""))
        found, names = ", ".join(members)[:80] or "nothing", ", ".join(POINT_KEYS[:-1])
        is_clear = wanted in POINT_KEYS or len(members) == 1
        source.require(is_clear, f"the npz file holds {found}; expected {names} or vertices")
        keys = (wanted, *(k for k in ("normals", "colors", "faces") if k in members and k != wanted))
        arrays = {k: _read_array(source, _unpack(source, archive, members[k]), f"'{k}'") for k in keys}
    geometry = _from_array(source, arrays.pop(wanted))
    n = len(geometry.points)
    for key, array in arrays.items():
        rows = len(array) if key == "faces" and array.ndim else n
        expected = "f" if key == "faces" else str(n)
        problem = f"'{key}' has the shape {array.shape}, expected ({expected}, 3)"
        source.require(array.shape == (rows, 3), problem)
    faces = arrays.get("faces")
    if "normals" in arrays:
        geometry = replace(geometry, normals=arrays["normals"].astype(np.float64))
    if "colors" in arrays:
        geometry = geometry.paint(arrays["colors"])
    if faces is None or not len(faces):
        return geometry
    source.require(faces.dtype.kind in "iu", f"'faces' are of type {faces.dtype}, expected whole numbers")
    return replace(geometry, faces=faces.astype(np.int64))


def _unpack(source: Source, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    size, packed = member.file_size, len(source.data)
    problem = f"{member.filename[:40]!r} unpacks to {size} bytes from a file of {packed}: too much for points"
    source.require(size <= max(1 << 24, 100 * packed), problem)
    return archive.read(member)


def _read_array(source: Source, data: bytes, what: str) -> NDArray[np.generic]:
    """The array of an npy file, never a pickle."""
    file = io.BytesIO(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(file)
    pickle = ", no pickle" if dtype.hasobject else ""
    source.require(dtype.kind in "fiu", f"{what} holds {dtype}, expected numbers{pickle}")
    count = math.prod(shape) if min(shape, default=0) >= 0 else -1
    source.claim(count, f"numbers in {what}", len(data) - file.tell(), dtype.itemsize)
    flat = np.frombuffer(data, dtype, count, file.tell())
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _from_array(source: Source, array: NDArray[np.generic]) -> Geometry:
    found = f"the array has the shape {array.shape}, expected (n, 3)"
    source.require(array.ndim == 2, found)
    source.require(array.shape[0] not in (2, 3) or array.shape[1] <= 9, f"{found}: transpose it")
    return from_table(array.astype(np.float64), source.name, source.suffix)


def read_kitti(source: Source) -> Geometry:
    """The points of a KITTI scan: float32 rows of x, y, z and a reflectance, which is left out."""
    found = f"truncated or not a KITTI scan: {len(source.data)} bytes"
    source.require(len(source.data) % 16 == 0, f"{found}, expected a multiple of 16: float32 x y z intensity")
    points = np.frombuffer(source.data, "<f4").reshape(-1, 4)[:, :3].astype(np.float64)
    largest = float(np.abs(points).max(initial=0.0, where=np.isfinite(points)))
    found = f"not a KITTI scan: a coordinate of {largest:.3g}"
    source.require(largest <= 1e7, f"{found}, expected less than 1e+07")  # no laser sees farther
    return Geometry(points, name=source.name)


class _PcdHeader(NamedTuple):
    names: list[str]
    fields: list[tuple[np.dtype[np.generic], int]]  # the type and the count of numbers of each name
    points: int
    body: str
    size: int  # bytes up to the body


def read_pcd(source: Source) -> Geometry:
    """The points of a pcd file; colours are unpacked from the field rgb or rgba."""
    header = _read_pcd_header(source)
    source.require(header.points, "the pcd header claims 0 points, expected points")
    fields = PCD_BODIES[header.body](source, header)
    columns = [(n, f[:, 0]) for n, f in zip(header.names, fields, strict=True) if f.shape[1] == 1]
    geometry = from_columns(columns, source.name)
    packed = next((c for n, c in columns if n.lower() in ("rgb", "rgba") and c.dtype.itemsize == 4), None)
    if geometry.colors is not None or packed is None:
        return geometry
    bits = np.ascontiguousarray(packed).view("<u4")
    return geometry.paint(np.stack([(bits >> s).astype(np.uint8) for s in (16, 8, 0)], axis=1))


def _read_pcd_header(source: Source) -> _PcdHeader:
    values: dict[str, list[str]] = {}
    at = 0
    while "DATA" not in values:
        stop = source.data.find(b"\n", at, at + 100_000)
        source.require(stop >= 0, "the pcd header has no line DATA: the file is truncated or damaged")
        key, *rest = source.data[at:stop].decode("latin-1").split() or ["#"]
        values[key] = rest
        at = stop + 1
    names = values.get("FIELDS") or values.get("COLUMNS") or []
    sizes, kinds, counts = (values.get(key, ["1"] * len(names)) for key in ("SIZE", "TYPE", "COUNT"))
    found = f"{len(names)} FIELDS, {len(sizes)} SIZE, {len(kinds)} TYPE and {len(counts)} COUNT"
    fits = names and len(names) == len(kinds) == len(sizes) == len(counts)
    source.require(fits, f"the pcd header has {found}, expected as many of each")
    fields = [(f"<{k.lower()}{s}", int(c)) for k, s, c in zip(kinds, sizes, counts, strict=True)]
    known = all(kind in PCD_TYPES and count >= 1 for kind, count in fields)
    source.require(known, "the pcd header has a SIZE, TYPE or COUNT that does not exist")
    area = int((values.get("WIDTH") or ["0"])[0]) * int((values.get("HEIGHT") or ["1"])[0])
    points = int((values.get("POINTS") or [str(area)])[0])
    claimed = f"the pcd header claims {points} POINTS, but WIDTH times HEIGHT is {area}"
    source.require(points >= 0 and area in (0, points), claimed)
    body = (values["DATA"] or ["nothing"])[0].lower()
    expected = f"expected one of {', '.join(PCD_BODIES)}"
    source.require(body in PCD_BODIES, f"the pcd header says DATA {body[:40]}, {expected}")
    return _PcdHeader(names, [(np.dtype(kind), count) for kind, count in fields], points, body, at)


def _pcd_text(source: Source, header: _PcdHeader) -> Arrays:
    lines = source.lines(header.size)
    source.claim(header.points, "points", len(lines))
    table = source.numbers(lines)
    counts = [count for _, count in header.fields]
    found = f"{len(table)} rows of {table.shape[1]} numbers"
    claimed = f"the pcd header claims {header.points} rows of {sum(counts)}"
    source.require(table.shape == (header.points, sum(counts)), f"{found}, {claimed}")
    parts = np.split(table, np.cumsum(counts)[:-1], axis=1)
    return [part.astype(kind) for part, (kind, _) in zip(parts, header.fields, strict=True)]


def _pcd_binary(source: Source, header: _PcdHeader) -> Arrays:
    row = np.dtype([(f"{i}", kind, (count,)) for i, (kind, count) in enumerate(header.fields)])
    source.claim(header.points, "points", len(source.data) - header.size, row.itemsize)
    rows = np.frombuffer(source.data, row, header.points, header.size)
    return [rows[f"{i}"] for i in range(len(header.names))]


def _pcd_compressed(source: Source, header: _PcdHeader) -> Arrays:
    """All values of the first field, then all of the next: packed with LZF."""
    start = header.size + 8
    source.claim(1, "header of packed points", len(source.data) - header.size, 8)
    packed, size = struct.unpack_from("<II", source.data, header.size)
    source.claim(packed, "packed points", len(source.data) - start, 1)
    source.claim(size, "unpacked points", packed * 264, 1)  # LZF packs no more bytes into one
    each = sum(kind.itemsize * count for kind, count in header.fields)
    claimed = f"the pcd header claims {header.points} points of {each} bytes"
    source.require(size == header.points * each, f"truncated: {claimed}, found {size} bytes")
    try:
        from pypcd4.pypcd4 import PointCloud
    except ImportError as error:
        raise source.error("compressed pcd needs pypcd4: pip install pypcd4") from error
    # As a cloud of one byte a point: pypcd4 has its own ideas about fields that hold several numbers.
    head = f"VERSION 0.7\nFIELDS byte\nSIZE 1\nTYPE U\nCOUNT 1\nWIDTH {size}\nHEIGHT 1\n"
    head += f"VIEWPOINT 0 0 0 1 0 0 0\nPOINTS {size}\nDATA binary_compressed\n"
    file = io.BytesIO(head.encode() + source.data[header.size : start + packed])
    raw = PointCloud.from_fileobj(io.BufferedReader(file)).pc_data["byte"].tobytes()
    fields: Arrays = []
    for kind, count in header.fields:
        at = sum(field.nbytes for field in fields)
        fields.append(np.frombuffer(raw, kind, header.points * count, at).reshape(-1, count))
    return fields


PCD_BODIES = {"ascii": _pcd_text, "binary": _pcd_binary, "binary_compressed": _pcd_compressed}


def read_las(source: Source) -> Geometry:
    """The points of a las or laz file in real coordinates, with colours where the point format has them."""
    count = _check_las(source)
    try:
        import laspy
    except ImportError as error:
        raise source.error('las and laz need laspy: pip install "laspy[lazrs]"') from error
    logging.getLogger("laspy").addHandler(logging.NullHandler())  # else its log would go to stderr
    points, colors = [], []
    backend = laspy.LazBackend.Lazrs  # one thread
    with laspy.open(io.BytesIO(source.data), laz_backend=backend, read_evlrs=False) as reader:
        for chunk in reader.chunk_iterator(500_000):  # the memory must not depend on the header
            points.append(np.stack([np.asarray(chunk[axis], np.float64) for axis in "xyz"], axis=1))
            if "red" in chunk.point_format.dimension_names:
                colors.append(np.stack([np.asarray(chunk[c]) for c in ("red", "green", "blue")], axis=1))
    found = sum(map(len, points))
    source.require(found == count, f"truncated: the las header claims {count} points, found {found}")
    geometry = Geometry(np.concatenate(points), name=source.name)
    # Point formats have colours whether or not the scanner took any: all black means none.
    return geometry.paint(np.concatenate(colors)) if any(c.any() for c in colors) else geometry


def _check_las(source: Source) -> int:
    """The number of points, after comparing all that the header claims with the size of the file."""
    data, size = source.data, len(source.data)
    source.claim(1, "las header", size, 227)
    minor, (header_size, start, records) = data[25], struct.unpack_from("<HII", data, 94)
    form, row, count = struct.unpack_from("<BHI", data, 104)
    is_sound = data[24] == 1 and header_size <= start <= size and records * 54 <= start and row
    source.require(is_sound, f"damaged las header: points claimed to start at byte {start} of {size}")
    if minor >= 4:
        source.claim(1, "las 1.4 header", size, 375)
        count = struct.unpack_from("<Q", data, 247)[0]
    source.require(count, "the las header claims 0 points, expected points")
    if form & 0xC0:  # compressed
        source.claim(count, "points", (size - start) * 100, 1)  # none has less than 0.01 bytes a point
        _check_laz_chunks(source, start, count)
        _check_laz_items(source, header_size, records, row)
    else:
        source.claim(count, "points", size - start, row)
    return int(count)


def _check_laz_chunks(source: Source, start: int, count: int) -> None:
    """Raise unless the table of chunks lies in the file and claims no more chunks than there are points."""
    size = len(source.data)
    source.claim(1, "table of laz chunks", size - start, 8)
    table = struct.unpack_from("<q", source.data, start)[0]
    if table == -1:  # written by a program that could not seek: the place stands in the last 8 bytes
        table = struct.unpack_from("<q", source.data, size - 8)[0]
    place = f"the table of laz chunks is at byte {table}, the file has {size}"
    source.require(start + 8 <= table <= size - 8, f"truncated: {place}")
    chunks = struct.unpack_from("<I", source.data, table + 4)[0]
    source.require(chunks <= count, f"damaged: {chunks} laz chunks claimed for {count} points")


def _check_laz_items(source: Source, at: int, records: int, row: int) -> None:
    """Raise unless the items of a laz point are together as large as the point."""
    for _ in range(records):
        if at + 54 > len(source.data):
            break
        user, number, size = struct.unpack_from("<2x16sHH", source.data, at)
        at += 54
        if user.rstrip(b"\0") == b"laszip encoded" and number == 22204 and at + 34 <= len(source.data):
            items = struct.unpack_from("<H", source.data, at + 32)[0]
            if 34 + 6 * items <= min(size, len(source.data) - at):
                found = np.frombuffer(source.data, "<u2", 3 * items, at + 34).reshape(-1, 3).tolist()
                fixed = all(LAZ_ITEMS.get(kind, length) == length for kind, length, _ in found)
                if fixed and sum(length for _, length, _ in found) == row:
                    return
        at += size
    raise source.error(f"damaged: the laz header does not say what points of {row} bytes are made of")
