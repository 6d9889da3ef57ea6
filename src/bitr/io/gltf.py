"""glTF and GLB: the meshes or points of a scene, each where its node puts it; no materials."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any
from urllib.parse import unquote

import numpy as np
from jaxtyping import Int64
from numpy.typing import NDArray

from bitr.errors import InputError
from bitr.io.columns import with_colors
from bitr.io.geometry import Geometry
from bitr.io.gltf_data import accessor
from bitr.io.gltf_nodes import placed_nodes
from bitr.io.join import join_scene, placed
from bitr.io.source import Source

PACKED = ("KHR_draco_mesh_compression", "EXT_meshopt_compression")
"""Extensions without which the points of a file cannot be known."""
POINTS, TRIANGLES, STRIP, FAN = 0, 4, 5, 6
MOST_POINTS = 5_000_000
"""A node repeats a mesh in a few bytes; a file with more points than this must hold each of them once."""


def read_gltf(source: Source) -> Geometry:
    """All meshes of the scene as one, or all its points where there is no mesh."""
    try:
        tree, binary = _tree(source)
        wanted = [e for e in tree.get("extensionsRequired", []) if e in PACKED]
        if wanted:
            raise source.error(
                f"the glTF file is packed with {wanted[0]}, which is not supported; export it without"
            )
        buffers = [_buffer(source, b, binary) for b in tree.get("buffers", [])]
        return _scene(source, tree, buffers)
    except InputError:
        raise
    except (
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        # a tree of the wrong form: a list where a number should stand, a number of no mesh
        raise source.broken("glTF", error) from error


def _tree(source: Source) -> tuple[dict[str, Any], bytes | None]:
    """The JSON of the file, and the binary chunk of a glb."""
    data = source.data
    if data[:4] != b"glTF":
        return _json(source, data), None
    if len(data) < 20:
        raise source.error(f"truncated: a glb header has 20 bytes, found {len(data)}")
    version, length = struct.unpack_from("<II", data, 4)
    if version != 2:
        raise source.error(f"glb of version {version}, expected 2")
    if length > len(data):
        raise source.error(f"truncated: the glb header claims {length} bytes, found {len(data)}")
    chunks: dict[bytes, bytes] = {}
    at = 12
    while at + 8 <= length:
        size, kind = struct.unpack_from("<I4s", data, at)
        if at + 8 + size > length:
            raise source.error(f"truncated: a glb chunk claims {size} bytes, found {length - at - 8}")
        chunks.setdefault(kind, data[at + 8 : at + 8 + size])
        at += 8 + size
    if b"JSON" not in chunks:
        raise source.error("the glb file has no JSON chunk")
    return _json(source, chunks[b"JSON"]), chunks.get(b"BIN\0")


def _json(source: Source, text: bytes) -> dict[str, Any]:
    tree = json.loads(text)
    if not isinstance(tree, dict) or "asset" not in tree:
        raise source.error("not a glTF file: its JSON has no 'asset'")
    return tree


def _buffer(source: Source, buffer: dict[str, Any], binary: bytes | None) -> bytes:
    """The bytes of a buffer: in the glb, in the address itself, or in a file beside this one."""
    uri = buffer.get("uri")
    if uri is None:
        data = b"" if binary is None else binary
    elif uri.startswith("data:"):
        data = base64.b64decode(uri.partition(",")[2])
    else:
        folder = source.path.parent.resolve()
        path = (folder / unquote(uri)).resolve()
        if "://" in uri or not path.is_relative_to(folder):
            raise source.error(f"the buffer {uri[:80]!r} lies outside the file's folder: refused")
        if not path.is_file():
            raise source.error(f"the buffer {uri[:80]!r} is missing, expected it beside the file")
        data = path.read_bytes()
    if buffer["byteLength"] > len(data):
        raise source.error(f"truncated: a glTF buffer claims {buffer['byteLength']} bytes, found {len(data)}")
    return data


def _scene(source: Source, tree: dict[str, Any], buffers: list[bytes]) -> Geometry:
    meshes: dict[int, list[Geometry]] = {}
    parts: list[Geometry] = []
    total = 0
    for node, matrix in placed_nodes(source, tree):
        if "mesh" not in node:
            continue
        index = node["mesh"]
        if index not in meshes:
            primitives = tree["meshes"][index]["primitives"]
            meshes[index] = [_primitive(source, tree, buffers, p) for p in primitives if _has_surface(p)]
        total += sum(len(p.points) for p in meshes[index])
        if total > max(MOST_POINTS, len(source.data)):
            raise source.error(f"the scene repeats its meshes to more than {MOST_POINTS} points")
        parts += [placed(p, matrix) for p in meshes[index]]
    return join_scene(parts, str(source.path))


def _has_surface(primitive: dict[str, Any]) -> bool:
    """Lines are left out."""
    return primitive.get("mode", TRIANGLES) in (POINTS, TRIANGLES, STRIP, FAN)


def _primitive(
    source: Source, tree: dict[str, Any], buffers: list[bytes], primitive: dict[str, Any]
) -> Geometry:
    attributes = primitive["attributes"]

    def rows(name: str) -> NDArray[np.float64] | None:
        index = attributes.get(name)
        return None if index is None else accessor(source, tree, buffers, index)[:, :3].astype(np.float64)

    points, colors = rows("POSITION"), rows("COLOR_0")
    if points is None:
        raise source.error("a glTF mesh has no POSITION")
    faces: Int64[np.ndarray, "f 3"] | None = None
    if primitive.get("mode", TRIANGLES) != POINTS:
        index = primitive.get("indices")
        order = np.arange(len(points)) if index is None else accessor(source, tree, buffers, index)[:, 0]
        faces = _triangles(order.astype(np.int64), primitive.get("mode", TRIANGLES))
    geometry = Geometry(points, rows("NORMAL"), None, faces, str(source.path))
    return geometry if colors is None else with_colors(geometry, colors)


def _triangles(order: Int64[np.ndarray, " i"], mode: int) -> Int64[np.ndarray, "f 3"]:
    if mode == TRIANGLES:
        return order.reshape(-1, 3)
    a, b, c = order[:-2], order[1:-1], order[2:]
    if mode == FAN:
        return np.stack([np.full_like(a, order[0]) if len(a) else a, b, c], axis=1)
    odd = np.arange(len(a)) % 2 == 1  # every second triangle of a strip is wound the other way
    return np.stack([np.where(odd, b, a), np.where(odd, a, b), c], axis=1)
