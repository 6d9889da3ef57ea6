"""One function for each format that is written: all parts of a scene into an open file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from bitr.io.geometry import Geometry
from bitr.io.gltf_writer import write_glb
from bitr.io.join import join


def _one(parts: Mapping[str, Geometry]) -> Geometry:
    return join(list(parts.values()), "scene")


def _write_ply(file: BinaryIO, parts: Mapping[str, Geometry]) -> None:
    geometry = _one(parts)
    columns: list[tuple[str, NDArray[np.generic]]] = []
    for kind, names, array in (
        ("double", ("x", "y", "z"), geometry.points.astype("<f8")),
        ("double", ("nx", "ny", "nz"), geometry.normals),
        ("uchar", ("red", "green", "blue"), None if geometry.colors is None else _bytes(geometry.colors)),
    ):
        if array is not None:
            columns += [(f"{kind} {name}", column) for name, column in zip(names, array.T, strict=True)]
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(geometry.points)}"]
    header += [f"property {name}" for name, _ in columns]
    if geometry.faces is not None:
        header += [f"element face {len(geometry.faces)}", "property list uchar int vertex_indices"]
    file.write("\n".join([*header, "end_header", ""]).encode())
    file.write(_rows(columns))
    if geometry.faces is not None:
        faces = np.empty(len(geometry.faces), dtype=[("length", "u1"), ("corners", "<i4", 3)])
        faces["length"], faces["corners"] = 3, geometry.faces
        file.write(faces.tobytes())


def _rows(columns: list[tuple[str, NDArray[np.generic]]]) -> bytes:
    """Named columns as packed rows, little endian."""
    kinds = [(name, column.dtype.newbyteorder("<")) for name, column in columns]
    rows = np.empty(len(columns[0][1]), dtype=kinds)
    for name, column in columns:
        rows[name] = column
    return rows.tobytes()


def _bytes(colors: NDArray[np.float64]) -> NDArray[np.uint8]:
    return np.rint(np.clip(colors, 0, 1) * 255).astype(np.uint8)


def _write_pcd(file: BinaryIO, parts: Mapping[str, Geometry]) -> None:
    geometry = _one(parts)
    columns: list[tuple[str, NDArray[np.generic]]] = list(zip("xyz", geometry.points.T, strict=True))
    if geometry.normals is not None:
        columns += zip(("normal_x", "normal_y", "normal_z"), geometry.normals.T, strict=True)
    # Most programs know float32 only; doubles are written where that would lose something.
    with np.errstate(over="ignore"):
        exact = np.array_equal(geometry.points, geometry.points.astype(np.float32))
    columns = [(name, column.astype("<f4" if exact else "<f8")) for name, column in columns]
    if geometry.colors is not None:
        red, green, blue = _bytes(geometry.colors).astype("<u4").T
        columns.append(("rgb", red << 16 | green << 8 | blue))
    lines = {
        "# .PCD": "v0.7 - Point Cloud Data file format",
        "VERSION": "0.7",
        "FIELDS": " ".join(name for name, _ in columns),
        "SIZE": " ".join(str(column.itemsize) for _, column in columns),
        "TYPE": " ".join(column.dtype.kind.upper() for _, column in columns),
        "COUNT": " ".join("1" for _ in columns),
        "WIDTH": len(geometry.points),
        "HEIGHT": 1,
        "VIEWPOINT": "0 0 0 1 0 0 0",
        "POINTS": len(geometry.points),
        "DATA": "binary",
    }
    file.write("".join(f"{key} {value}\n" for key, value in lines.items()).encode())
    file.write(_rows(columns))


def _table(geometry: Geometry) -> tuple[NDArray[np.float64], str]:
    """Points, normals and colours side by side, and the names of the columns."""
    named = ((geometry.points, "x y z"), (geometry.normals, "nx ny nz"), (geometry.colors, "r g b"))
    known = [(array, names) for array, names in named if array is not None]
    return np.concatenate([a for a, _ in known], axis=1), " ".join(names for _, names in known)


def _write_xyz(file: BinaryIO, parts: Mapping[str, Geometry]) -> None:
    table, names = _table(_one(parts))
    if table.shape[1] > 3:
        file.write(f"# {names}\n".encode())
    _write_lines(file, "%.17g" + " %.17g" * (table.shape[1] - 1), table)


def _write_lines(file: BinaryIO, line: str, table: NDArray[np.generic]) -> None:
    """Rows of numbers as lines, many at a time: several times faster than one by one."""
    for start in range(0, len(table), 4096):
        rows = table[start : start + 4096]
        file.write(((line + "\n") * len(rows) % tuple(rows.ravel().tolist())).encode())


def _write_npy(file: BinaryIO, parts: Mapping[str, Geometry]) -> None:
    np.save(file, _table(_one(parts))[0], allow_pickle=False)


def _write_npz(file: BinaryIO, parts: Mapping[str, Geometry]) -> None:
    geometry = _one(parts)
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


Writer = Callable[[BinaryIO, Mapping[str, Geometry]], None]
WRITERS: dict[str, Writer] = {
    ".ply": _write_ply,
    ".pcd": _write_pcd,
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".xyz": _write_xyz,
    ".obj": _write_obj,
    ".glb": write_glb,
}
