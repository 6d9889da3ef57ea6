"""Files and objects in memory to geometry; the content of a file decides first, its suffix second."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bitr.errors import InputError, require
from bitr.groups import Cloud
from bitr.io.clouds import read_kitti, read_las, read_npy, read_npz, read_pcd, read_text
from bitr.io.geometry import COLOR, NORMAL, POSITION, Geometry, from_columns, join_scene, pick, place
from bitr.io.gltf import read_gltf
from bitr.io.guard import Source, check, one_line_errors, open_source
from bitr.io.meshes import OFF_MAGIC, is_binary_stl, read_obj, read_off, read_ply, read_stl

Reader = Callable[[Source], Geometry]
READERS: dict[str, Reader] = {
    ".ply": read_ply,
    ".pcd": read_pcd,
    **dict.fromkeys((".xyz", ".xyzn", ".xyzrgb", ".txt", ".csv", ".pts", ".asc"), read_text),
    ".las": read_las,
    ".laz": read_las,
    ".npy": read_npy,
    ".npz": read_npz,
    ".bin": read_kitti,
    ".obj": read_obj,
    ".stl": read_stl,
    ".off": read_off,
    ".glb": read_gltf,
    ".gltf": read_gltf,
}
MAGIC: dict[str, tuple[bytes, ...]] = {
    ".ply": (b"ply\n", b"ply\r"),
    ".pcd": (b"# .PCD", b"VERSION 0.7", b"VERSION .7", b"VERSION .6", b"VERSION .5"),
    ".las": (b"LASF",),
    ".npy": (b"\x93NUMPY",),
    ".npz": (b"PK\x03\x04", b"PK\x05\x06"),
    ".glb": (b"glTF",),
}
"""First bytes of the files of a kind."""
ACCEPTED = (
    "a path, an (n, 3) or (n, 6) array, tensor or list, a frame with the columns x, y and z, or a cloud or "
    "mesh of bitr, trimesh or Open3D"
)


def read(path: str | os.PathLike[str]) -> Geometry:
    """The points or the mesh of a file, checked; anything wrong raises an InputError of one line."""
    source = open_source(Path(path), READERS)
    suffix = _find_kind(source)
    with one_line_errors(source, suffix.removeprefix(".")):
        return check(READERS[suffix](source))


def _find_kind(source: Source) -> str:
    """The suffix of the reader to use."""
    for suffix, starts in MAGIC.items():
        if source.data.startswith(starts):
            return suffix
    if OFF_MAGIC.match(source.data):
        return ".off"
    suffix = ".las" if source.suffix == ".laz" else source.suffix
    if suffix in MAGIC and not (suffix == ".pcd" and b"\nDATA " in source.data[:10_000]):
        expected = " or ".join(repr(s)[1:] for s in MAGIC[suffix][:2])
        start = repr(source.data[:8])
        raise source.error(f"is no {source.suffix} file: starts with {start}, expected {expected}")
    return suffix if suffix in READERS else _guess_kind(source)


def _guess_kind(source: Source) -> str:
    """The suffix for a file whose name says nothing."""
    head = source.data[:10_000]
    if is_binary_stl(source.data) or (head.lstrip()[:5].lower() == b"solid" and b"facet" in head.lower()):
        return ".stl"
    if head.lstrip().startswith(b"{") and b'"asset"' in source.data:
        return ".gltf"
    if b"\0" not in head:
        return ".obj" if b"\nv " in b"\n" + head else ".txt"
    raise source.error(f"unknown format, expected one of {' '.join(READERS)}")


def as_geometry(value: object, name: str) -> Geometry:
    """A path, array, tensor, list, frame, cloud or mesh as a geometry, checked like a file.

    Columns 4 to 6 of an (n, 6) array, tensor or list are normals, and so are nx, ny and nz of a frame; one
    without such names is taken as an array. ``name`` stands for it in messages.
    """
    if isinstance(value, str | os.PathLike):
        return read(value)
    return check(_from_memory(value, name))


def _from_memory(value: Any, name: str) -> Geometry:
    if isinstance(value, Geometry):
        return value
    if isinstance(value, Cloud):
        return _from_cloud(value, name)
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, list | tuple):
        try:
            value = np.asarray(value)
        except (ValueError, TypeError) as error:  # rows of different lengths
            found = f"a {type(value).__name__} of {len(value)} that is no table"
            raise InputError(f"{name}: {found}, expected {ACCEPTED}") from error
    if isinstance(value, np.ndarray):
        return _from_array(value, name)
    if hasattr(value, "columns") and hasattr(value, "to_numpy"):  # pandas, polars
        return _from_frame(value, name)
    if type(value).__module__.partition(".")[0] == "trimesh":
        return _from_trimesh(value, name)
    if hasattr(value, "to_legacy"):  # Open3D's tensor classes
        value = value.to_legacy()
    if hasattr(value, "triangles") and hasattr(value, "vertices"):
        normals, colors = (getattr(value, key, None) for key in ("vertex_normals", "vertex_colors"))
        return _from_rows(value, name, value.vertices, normals, colors, value.triangles)
    if hasattr(value, "points"):
        normals, colors = (getattr(value, key, None) for key in ("normals", "colors"))
        return _from_rows(value, name, value.points, normals, colors)
    raise InputError(f"{name}: cannot use a {type(value).__name__}, expected {ACCEPTED}")


def _from_array(array: NDArray[Any], name: str) -> Geometry:
    flat = "two dimensions only: " if array.ndim == 2 and array.shape[1] == 2 else ""
    fits = array.ndim == 2 and array.shape[1] in (3, 6)
    expected = f"an array of shape {array.shape}, expected (n, 3) or (n, 6) with normals"
    require(fits, f"{name}: {flat}{expected}")
    require(array.dtype.kind in "fiu", f"{name}: an array of {array.dtype}, expected real numbers")
    rows = array.astype(np.float64)
    normals = rows[:, 3:].copy() if rows.shape[1] == 6 else None
    return Geometry(np.ascontiguousarray(rows[:, :3]), normals, name=name)


def _from_frame(frame: Any, name: str) -> Geometry:
    """The columns x, y, z, normals, colours; without names three columns are points, six have normals."""
    columns = [(str(column), np.asarray(frame[column])) for column in frame.columns]
    odd = [each for each in columns if each[1].ndim != 1 or each[1].dtype.kind not in "fiu"]
    has_place = any(column.strip().lower() in ("x", "y", "z") for column, _ in columns)
    is_bare = len(columns) in (3, 6) and not odd and not has_place
    if is_bare and pick(columns, (*NORMAL, *COLOR)) is None:
        return _from_array(np.stack([values for _, values in columns], axis=1), name)
    known = {column for spelling in (*POSITION, *NORMAL, *COLOR) for column in spelling}
    for column, values in odd:
        fits = column.strip().lower() not in known
        require(fits, f"{name}: the column {column} holds {values.dtype}, expected real numbers")
    return from_columns(columns, name)


def _from_cloud(cloud: Cloud, name: str) -> Geometry:
    require(len(cloud.points) == 1, f"{name}: a batch of {len(cloud.points)} clouds, expected one (b = 1)")
    keep = slice(None) if cloud.mask is None else cloud.mask[0].cpu().numpy()
    tensors = (cloud.points, cloud.normals, cloud.colors)
    rows = [None if t is None else t[0].detach().cpu().double().numpy()[keep] for t in tensors]
    return _from_rows(cloud, name, *rows)


def _from_trimesh(value: Any, name: str) -> Geometry:
    """A mesh or cloud of trimesh; a scene becomes one geometry, each part where its node puts it."""
    import trimesh  # takes a second, which other inputs need not wait for

    if isinstance(value, trimesh.PointCloud):
        return _from_rows(value, name, value.vertices, None, value.colors)
    if isinstance(value, trimesh.Trimesh):
        known = "vertex_normals" in value._cache.cache  # else trimesh would make some up from the faces
        painted = getattr(value.visual, "kind", None) == "vertex"
        normals = value.vertex_normals if known else None
        colors = getattr(value.visual, "vertex_colors", None) if painted else None
        return _from_rows(value, name, value.vertices, normals, colors, value.faces)
    is_scene = isinstance(value, trimesh.Scene)
    require(is_scene, f"{name}: cannot use a trimesh {type(value).__name__}, expected {ACCEPTED}")
    parts = []
    for node in value.graph.nodes_geometry:
        matrix, key = value.graph[node]
        part = value.geometry[key]
        if isinstance(part, trimesh.Trimesh | trimesh.PointCloud):
            parts.append(place(_from_trimesh(part, name), np.asarray(matrix, dtype=np.float64)))
    return join_scene(parts, name)


def _from_rows(
    value: object, name: str, points: Any, normals: Any = None, colors: Any = None, faces: Any = None
) -> Geometry:
    """The geometry of copied rows, of which any but the points may be None or empty."""
    found: dict[str, NDArray[Any]] = {}
    kind = type(value).__name__
    for key, rows in (("points", points), ("normals", normals), ("colors", colors), ("faces", faces)):
        if rows is None or len(rows) == 0:
            continue
        array = np.array(rows)
        array = array[:, :3] if key == "colors" and array.ndim == 2 else array  # without alpha
        fits = array.ndim == 2 and array.shape[1] == 3 and array.dtype.kind in "fiu"
        require(fits, f"{name}: {kind} has {key} of shape {array.shape}, expected (n, 3) numbers")
        fits = key not in ("normals", "colors") or len(array) == len(points)
        require(fits, f"{name}: {len(array)} {key} for {len(points)} points, expected as many")
        found[key] = array if key == "colors" else array.astype(np.int64 if key == "faces" else np.float64)
    require("points" in found, f"{name}: a {kind} without points, expected some")
    geometry = Geometry(found["points"], found.get("normals"), faces=found.get("faces"), name=name)
    return geometry.paint(found["colors"]) if "colors" in found else geometry
