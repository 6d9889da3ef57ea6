"""Geometry that is in memory already: arrays, tensors, and the objects of other libraries."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bitr.errors import InputError
from bitr.groups import Cloud
from bitr.io.check import checked
from bitr.io.columns import with_colors
from bitr.io.geometry import Geometry
from bitr.io.join import join_scene, placed
from bitr.io.reading import read

ACCEPTED = "a path, an (n, 3) or (n, 6) array or tensor, or a cloud or mesh of bitr, trimesh or Open3D"


def as_geometry(value: object, name: str) -> Geometry:
    """What the user gave as a geometry, checked like a file: a path, an array, a tensor, a cloud or a mesh.

    Columns 4 to 6 of an (n, 6) array or tensor are normals. ``name`` stands for it in messages.
    """
    if isinstance(value, str | os.PathLike):
        return read(value)
    return checked(_from_memory(value, name))


def _from_memory(value: object, name: str) -> Geometry:
    if isinstance(value, Geometry):
        return value
    if isinstance(value, Cloud):
        return _from_cloud(value, name)
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return _from_array(value, name)
    if type(value).__module__.partition(".")[0] == "trimesh":
        return from_trimesh(value, name)
    if hasattr(value, "to_legacy"):  # Open3D's tensor classes
        value = value.to_legacy()
    if hasattr(value, "triangles") and hasattr(value, "vertices"):
        return _from_lists(value, name, "vertices", "vertex_normals", "vertex_colors", "triangles")
    if hasattr(value, "points"):
        return _from_lists(value, name, "points", "normals", "colors", None)
    raise InputError(f"{name}: cannot use a {type(value).__name__}, expected {ACCEPTED}")


def _from_array(array: NDArray[Any], name: str) -> Geometry:
    if array.ndim != 2 or array.shape[1] not in (3, 6):
        flat = "two dimensions only: " if array.ndim == 2 and array.shape[1] == 2 else ""
        raise InputError(
            f"{name}: {flat}an array of shape {array.shape}, expected (n, 3) or (n, 6) with normals"
        )
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name}: an array of {array.dtype}, expected real numbers")
    rows = array.astype(np.float64)
    normals = rows[:, 3:].copy() if rows.shape[1] == 6 else None
    return Geometry(np.ascontiguousarray(rows[:, :3]), normals, name=name)


def _from_cloud(cloud: Cloud, name: str) -> Geometry:
    if len(cloud.points) != 1:
        raise InputError(f"{name}: a batch of {len(cloud.points)} clouds, expected one (b = 1)")
    keep = slice(None) if cloud.mask is None else cloud.mask[0].cpu().numpy()

    def rows(tensor: torch.Tensor | None) -> NDArray[np.float64] | None:
        return None if tensor is None else tensor[0].detach().cpu().double().numpy()[keep].copy()

    points = rows(cloud.points)
    assert points is not None
    return Geometry(points, rows(cloud.normals), rows(cloud.colors), name=name)


def _from_lists(value: Any, name: str, points: str, normals: str, colors: str, faces: str | None) -> Geometry:
    """From attributes that hold rows, which may be there and empty."""

    def rows(attribute: str | None) -> NDArray[np.float64] | None:
        found = getattr(value, attribute, None) if attribute else None
        if found is None or len(found) == 0:
            return None
        array = np.array(found)
        if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "fiu":
            raise InputError(
                f"{name}: {type(value).__name__}.{attribute} has the shape {array.shape}, expected (n, 3)"
            )
        return array.astype(np.float64)

    found, of_faces = rows(points), rows(faces)
    if found is None:
        raise InputError(f"{name}: a {type(value).__name__} without {points}, expected some")
    extra = {"normals": rows(normals), "colors": rows(colors)}
    for kind, array in extra.items():
        if array is not None and len(array) != len(found):
            raise InputError(f"{name}: {len(array)} {kind} for {len(found)} points, expected as many")
    geometry = Geometry(found, extra["normals"], name=name)
    if of_faces is not None:
        geometry = replace(geometry, faces=of_faces.astype(np.int64))
    return geometry if extra["colors"] is None else with_colors(geometry, extra["colors"])


def from_trimesh(value: Any, name: str) -> Geometry:
    """A mesh or cloud of trimesh; a scene becomes one geometry, each part where its node puts it."""
    import trimesh  # takes half a second, which other inputs need not wait for

    if isinstance(value, trimesh.Trimesh | trimesh.PointCloud):
        return _from_part(value, name)
    if not isinstance(value, trimesh.Scene):
        raise InputError(f"{name}: cannot use a trimesh {type(value).__name__}, expected {ACCEPTED}")
    parts = []
    for node in value.graph.nodes_geometry:
        matrix, key = value.graph[node]
        part = value.geometry[key]
        if isinstance(part, trimesh.Trimesh | trimesh.PointCloud):
            parts.append(placed(_from_part(part, name), np.asarray(matrix, dtype=np.float64)))
    return join_scene(parts, name)


def _from_part(part: Any, name: str) -> Geometry:
    geometry = Geometry(np.array(part.vertices, dtype=np.float64).reshape(-1, 3), name=name)
    if not hasattr(part, "faces"):
        colors = part.colors
    else:
        geometry = replace(geometry, faces=np.array(part.faces, dtype=np.int64).reshape(-1, 3))
        if "vertex_normals" in part._cache.cache:  # else trimesh would make some up from the faces
            geometry = replace(geometry, normals=np.array(part.vertex_normals, dtype=np.float64))
        kind = getattr(part.visual, "kind", None)
        colors = getattr(part.visual, "vertex_colors", None) if kind == "vertex" else None
    if colors is None or len(colors) != len(geometry.points) or not len(colors):
        return geometry
    return with_colors(geometry, np.asarray(colors)[:, :3])
