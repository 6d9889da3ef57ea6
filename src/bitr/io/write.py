"""Geometry to files: whole or not at all, and never over another file unasked."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bitr.errors import InputError, require
from bitr.files import whole_file
from bitr.io.geometry import Columns, Geometry, join
from bitr.io.read import READERS

PALETTE = ((0.90, 0.45, 0.13), (0.20, 0.47, 0.75), (0.30, 0.65, 0.30), (0.58, 0.40, 0.74), (0.55, 0.34, 0.29))
"""Orange, blue, green, purple, brown: for the parts of a scene that have no colours."""
VERTICES, INDICES = 34962, 34963  # the two uses of a view into a glTF buffer


def write(path: str | os.PathLike[str], geometry: Geometry, *, force: bool = False) -> None:
    """Write one geometry in the format of the suffix, without what that format cannot hold.

    ply, npz, npy, xyz and obj keep every bit of the coordinates, pcd too (as float32 where that loses
    nothing); glb has float32 around the middle of the points. Colours have 8 bits in ply, pcd and glb.
    """
    _write(Path(path), {Path(geometry.name).stem or "points": geometry}, force)


def write_scene(path: str | os.PathLike[str], parts: Mapping[str, Geometry], *, force: bool = False) -> None:
    """Write several geometries into one file: as named objects (glb, obj), else one after the other.

    Parts without colours get one each. Faces and normals are kept where all parts have them.
    """
    require(parts, f"{path}: no parts to write, expected one or more")
    colored = dict(parts)
    for i, (name, part) in enumerate(parts.items()):
        if part.colors is None:
            colors = np.tile(np.array(PALETTE[i % len(PALETTE)]), (len(part.points), 1))
            colored[name] = replace(part, colors=colors)
    _write(Path(path), colored, force)


def _write(target: Path, parts: Mapping[str, Geometry], force: bool) -> None:
    suffix, kind = target.suffix.lower(), target.suffix or "a file without a suffix"
    expected = f"expected one of {' '.join(SUFFIXES.write)}"
    require(suffix in SUFFIXES.write, f"{target}: cannot write {kind}, {expected}")
    try:
        with whole_file(target, force=force) as temporary, open(temporary, "wb") as file:
            if suffix in SCENES:
                SCENES[suffix](file, parts)
            else:
                WRITERS[suffix](file, join(list(parts.values()), "scene"))
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error})") from error


def _name_columns(geometry: Geometry, normals: str, colors: str) -> list[tuple[str, NDArray[np.generic]]]:
    """Points, normals and colours as named columns."""
    columns: list[tuple[str, NDArray[np.generic]]] = []
    for names, rows in (("x y z", geometry.points), (normals, geometry.normals), (colors, geometry.colors)):
        if rows is not None:
            columns += zip(names.split(), rows.T, strict=True)
    return columns


def _pack(columns: Columns) -> bytes:
    """Named columns as packed rows, little endian."""
    rows = np.empty(len(columns[0][1]), dtype=[(name, c.dtype.newbyteorder("<")) for name, c in columns])
    for name, column in columns:
        rows[name] = column
    return rows.tobytes()


def _to_bytes(colors: NDArray[Any]) -> NDArray[np.uint8]:
    return np.rint(np.clip(colors, 0, 1) * 255).astype(np.uint8)


def _write_ply(file: BinaryIO, geometry: Geometry) -> None:
    columns = _name_columns(geometry, "nx ny nz", "red green blue")
    columns = [(name, _to_bytes(c) if name in ("red", "green", "blue") else c) for name, c in columns]
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(geometry.points)}"]
    header += [f"property {'uchar' if c.dtype == np.uint8 else 'double'} {name}" for name, c in columns]
    if geometry.faces is not None:
        header += [f"element face {len(geometry.faces)}", "property list uchar int vertex_indices"]
    file.write("\n".join([*header, "end_header", ""]).encode())
    file.write(_pack(columns))
    if geometry.faces is not None:
        faces = np.empty(len(geometry.faces), dtype=[("length", "u1"), ("corners", "<i4", 3)])
        faces["length"], faces["corners"] = 3, geometry.faces
        file.write(faces.tobytes())


def _write_pcd(file: BinaryIO, geometry: Geometry) -> None:
    # Most programs know float32 only; doubles are written where that would lose something.
    with np.errstate(over="ignore"):
        exact = np.array_equal(geometry.points, geometry.points.astype(np.float32))
    columns = _name_columns(replace(geometry, colors=None), "normal_x normal_y normal_z", "")
    columns = [(name, column.astype("<f4" if exact else "<f8")) for name, column in columns]
    if geometry.colors is not None:
        red, green, blue = _to_bytes(geometry.colors).astype("<u4").T
        columns.append(("rgb", red << 16 | green << 8 | blue))
    names, sizes, kinds = zip(*((n, str(c.itemsize), c.dtype.kind.upper()) for n, c in columns), strict=True)
    count = len(geometry.points)
    header = f"# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS {' '.join(names)}\n"
    header += f"SIZE {' '.join(sizes)}\nTYPE {' '.join(kinds)}\nCOUNT{' 1' * len(columns)}\nWIDTH {count}\n"
    header += f"HEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {count}\nDATA binary\n"
    file.write(header.encode())
    file.write(_pack(columns))


def _write_xyz(file: BinaryIO, geometry: Geometry) -> None:
    columns = _name_columns(geometry, "nx ny nz", "r g b")
    if len(columns) > 3:
        file.write(f"# {' '.join(name for name, _ in columns)}\n".encode())
    table = np.stack([column for _, column in columns], axis=1)
    _write_lines(file, "%.17g" + " %.17g" * (len(columns) - 1), table)


def _write_lines(file: BinaryIO, line: str, table: NDArray[np.generic]) -> None:
    """Rows of numbers as lines, many at a time: several times faster than one by one."""
    for start in range(0, len(table), 4096):
        rows = table[start : start + 4096]
        file.write(((line + "\n") * len(rows) % tuple(rows.ravel().tolist())).encode())


def _write_npy(file: BinaryIO, geometry: Geometry) -> None:
    columns = _name_columns(geometry, "nx ny nz", "r g b")
    np.save(file, np.stack([column for _, column in columns], axis=1), allow_pickle=False)


def _write_npz(file: BinaryIO, geometry: Geometry) -> None:
    arrays = {key: getattr(geometry, key) for key in ("points", "normals", "colors", "faces")}
    np.savez(file, **{key: array for key, array in arrays.items() if array is not None})


def _write_obj(file: BinaryIO, parts: Mapping[str, Geometry]) -> None:
    start = normal_start = 1  # obj counts from 1, over all objects
    for name, part in parts.items():
        file.write(f"o {'_'.join(name.split()) or 'part'}\n".encode())
        vertices = [part.points] if part.colors is None else [part.points, part.colors]
        _write_lines(file, "v" + " %.17g" * 3 * len(vertices), np.concatenate(vertices, axis=1))
        if part.normals is not None:
            _write_lines(file, "vn %.17g %.17g %.17g", part.normals)
        if part.faces is not None and part.normals is None:
            _write_lines(file, "f %d %d %d", part.faces + start)
        elif part.faces is not None:
            corners = np.stack([part.faces + start, part.faces + normal_start], axis=2).reshape(-1, 6)
            _write_lines(file, "f %d//%d %d//%d %d//%d", corners)
        start += len(part.points)
        normal_start += 0 if part.normals is None else len(part.normals)


def _write_glb(file: BinaryIO, parts: Mapping[str, Geometry]) -> None:
    """One node for each part, with float32 positions around a centre that the node keeps in full."""
    tree: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": "bitr"},
        "scene": 0,
        "scenes": [{"nodes": list(range(len(parts)))}],
        **{key: [] for key in ("nodes", "meshes", "accessors", "bufferViews")},
    }
    chunks: list[bytes] = []
    for name, part in parts.items():
        center = (part.points.min(axis=0) + part.points.max(axis=0)) / 2
        attributes = {"POSITION": _add(tree, chunks, (part.points - center).astype("<f4"), "VEC3")}
        if part.normals is not None:
            attributes["NORMAL"] = _add(tree, chunks, part.normals.astype("<f4"), "VEC3")
        if part.colors is not None:
            rgba = np.concatenate([part.colors, np.ones((len(part.colors), 1))], axis=1)
            attributes["COLOR_0"] = _add(tree, chunks, _to_bytes(rgba), "VEC4")
        primitive: dict[str, Any] = {"attributes": attributes, "mode": 0 if part.faces is None else 4}
        if part.faces is not None:
            primitive["indices"] = _add(tree, chunks, part.faces.reshape(-1, 1).astype("<u4"), "SCALAR")
        tree["nodes"].append({"name": name, "mesh": len(tree["meshes"]), "translation": center.tolist()})
        tree["meshes"].append({"name": name, "primitives": [primitive]})
    size = sum(len(c) for c in chunks)
    tree["buffers"] = [{"byteLength": size}]
    text = json.dumps(tree).encode()
    text += b" " * (-len(text) % 4)
    file.write(struct.pack("<4sII", b"glTF", 2, 28 + len(text) + size))
    file.write(struct.pack("<I4s", len(text), b"JSON") + text)
    file.write(struct.pack("<I4s", size, b"BIN\0"))
    file.writelines(chunks)


def _add(tree: dict[str, Any], chunks: list[bytes], array: NDArray[Any], kind: str) -> int:
    """Append an array to the buffer, and return the number of its accessor."""
    component = {"f": 5126, "u": 5125 if array.itemsize == 4 else 5121}[array.dtype.kind]
    spec = {"bufferView": len(chunks), "componentType": component, "count": len(array), "type": kind}
    if component == 5121:
        spec["normalized"] = True
    if component == 5126:  # the standard asks for these where the array holds positions
        spec |= {"min": array.min(axis=0).tolist(), "max": array.max(axis=0).tolist()}
    start, data = sum(len(c) for c in chunks), np.ascontiguousarray(array).tobytes()
    target = INDICES if kind == "SCALAR" else VERTICES
    tree["bufferViews"].append({"buffer": 0, "byteOffset": start, "byteLength": len(data), "target": target})
    tree["accessors"].append(spec)
    chunks.append(data)
    return len(tree["accessors"]) - 1


class Suffixes(NamedTuple):
    read: tuple[str, ...]
    write: tuple[str, ...]


WRITERS: dict[str, Callable[[BinaryIO, Geometry], None]] = {
    ".ply": _write_ply,
    ".pcd": _write_pcd,
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".xyz": _write_xyz,
}
SCENES: dict[str, Callable[[BinaryIO, Mapping[str, Geometry]], None]] = {
    ".obj": _write_obj,
    ".glb": _write_glb,
}
"""Formats that keep the parts of a scene apart."""
SUFFIXES = Suffixes(tuple(READERS), (*WRITERS, *SCENES))  # suffixes of the files that can be read and written
