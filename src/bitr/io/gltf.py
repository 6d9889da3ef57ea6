"""Reader of glTF and GLB: the meshes or points of a scene, each where its node puts it; no materials."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64
from numpy.typing import NDArray

from bitr.io.geometry import Geometry, join_scene, place
from bitr.io.guard import Source, read_bytes

POINTS, TRIANGLES, STRIP, FAN = 0, 4, 5, 6
KINDS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}
MOST_ROWS = 5_000_000
"""A few bytes repeat a mesh or an array; a file with more rows than this must hold each of them once."""

Tree = dict[str, Any]


@dataclass
class _File:
    """The JSON of a file, its buffers and the rows that were read from them."""

    source: Source
    tree: Tree
    buffers: list[bytes]
    rows: int = 0

    def spend(self, rows: int) -> None:
        """Count rows before they are made; raise if the file makes far more than it holds."""
        self.rows += rows
        held = len(self.source.data) + sum({id(b): len(b) for b in self.buffers}.values())
        problem = f"claims or repeats its arrays to more than {MOST_ROWS} rows"
        self.source.require(self.rows <= max(MOST_ROWS, held), problem)


def read_gltf(source: Source) -> Geometry:
    """All meshes of the scene as one, or all its points where there is no mesh."""
    tree, binary = _read_tree(source)
    hiding = ("KHR_draco_mesh_compression", "EXT_meshopt_compression")
    packed = ", ".join(e for e in tree.get("extensionsRequired", []) if e in hiding)
    unread = f"the glTF file is packed with {packed}, which is not supported; export it without"
    source.require(not packed, unread)
    file = _File(source, tree, _read_buffers(source, tree, binary))
    meshes: dict[int, list[Geometry]] = {}
    parts: list[Geometry] = []
    for node, matrix in _placed_nodes(source, tree):
        if "mesh" not in node:
            continue
        index = node["mesh"]
        if index not in meshes:
            primitives = tree["meshes"][index]["primitives"]  # lines are left out
            kinds = (POINTS, TRIANGLES, STRIP, FAN)
            meshes[index] = [
                _read_primitive(file, p) for p in primitives if p.get("mode", TRIANGLES) in kinds
            ]
        file.spend(sum(len(p.points) + (0 if p.faces is None else len(p.faces)) for p in meshes[index]))
        parts += [place(p, matrix) for p in meshes[index]]
    return join_scene(parts, source.name)


def _read_tree(source: Source) -> tuple[Tree, bytes]:
    """The JSON of the file, and the binary chunk of a glb."""
    data, chunks = source.data, {b"JSON": source.data}
    if data[:4] == b"glTF":
        source.claim(1, "glb header", len(data), 20)
        version, length = struct.unpack_from("<II", data, 4)
        source.require(version == 2, f"glb of version {version}, expected 2")
        source.claim(length, "data", len(data), 1)
        chunks, at = {}, 12
        while at + 8 <= length:
            size, kind = struct.unpack_from("<I4s", data, at)
            source.claim(size, "data in a glb chunk", length - at - 8, 1)
            chunks.setdefault(kind, data[at + 8 : at + 8 + size])
            at += 8 + size
        source.require(b"JSON" in chunks, "the glb file has no JSON chunk")
    tree = json.loads(chunks[b"JSON"])
    has_asset = isinstance(tree, dict) and "asset" in tree
    source.require(has_asset, "not a glTF file: its JSON has no 'asset'")
    return tree, chunks.get(b"BIN\0", b"")


def _read_buffers(source: Source, tree: Tree, binary: bytes) -> list[bytes]:
    """The buffers: in the glb, in the address itself, or in files beside this one, each read once."""
    beside: dict[Path, bytes] = {}
    buffers = []
    for buffer in tree.get("buffers", []):
        uri = buffer.get("uri")
        if uri is None:
            data = binary
        elif uri.startswith("data:"):
            data = base64.b64decode(uri.partition(",")[2])
        else:
            path = source.find_beside(uri)
            data = beside[path] if path in beside else beside.setdefault(path, read_bytes(path))
        source.claim(buffer["byteLength"], "data in a glTF buffer", len(data), 1)
        buffers.append(data)
    return buffers


def _placed_nodes(source: Source, tree: Tree) -> list[tuple[Tree, NDArray[np.float64]]]:
    """Every node of the scene with the map from its own coordinates to the scene's."""
    nodes = tree.get("nodes", [])
    children = [c for node in nodes for c in node.get("children", [])]
    source.require(len(set(children)) == len(children), "damaged glTF: a node has two parents")
    scenes = tree.get("scenes", [])
    own = set(range(len(nodes))) - set(children)
    roots = scenes[tree.get("scene", 0)].get("nodes", []) if scenes else sorted(own)
    are_roots = set(roots) <= own and len(set(roots)) == len(roots)
    source.require(are_roots, "damaged glTF: a root of the scene has a parent or is named twice")
    found, queue = [], [(root, np.eye(4)) for root in reversed(roots)]
    while queue:
        index, parent = queue.pop()
        matrix = parent @ _local_matrix(nodes[index])
        found.append((nodes[index], matrix))
        queue += [(child, matrix) for child in reversed(nodes[index].get("children", []))]
    return found


def _local_matrix(node: Tree) -> NDArray[np.float64]:
    if "matrix" in node:
        return np.array(node["matrix"], dtype=np.float64).reshape(4, 4).T
    x, y, z, w = np.array(node.get("rotation", (0, 0, 0, 1)), dtype=np.float64)
    matrix = np.eye(4)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    matrix[:3, :3] *= np.array(node.get("scale", (1, 1, 1)), dtype=np.float64).reshape(3)
    matrix[:3, 3] = np.array(node.get("translation", (0, 0, 0)), dtype=np.float64).reshape(3)
    return matrix


def _read_primitive(file: _File, primitive: Tree) -> Geometry:
    attributes = primitive["attributes"]

    def rows(name: str) -> NDArray[np.float64] | None:
        index = attributes.get(name)
        return None if index is None else _read_accessor(file, index)[:, :3].astype(np.float64)

    points, colors = rows("POSITION"), rows("COLOR_0")
    if points is None:
        raise file.source.error("a glTF mesh has no POSITION")
    faces = None
    mode = primitive.get("mode", TRIANGLES)
    if mode != POINTS:
        index = primitive.get("indices")
        order = np.arange(len(points)) if index is None else _read_accessor(file, index)[:, 0]
        faces = _triangulate(order.astype(np.int64), mode)
    geometry = Geometry(points, rows("NORMAL"), None, faces, file.source.name)
    return geometry if colors is None else geometry.paint(colors)


def _triangulate(order: Int64[np.ndarray, " i"], mode: int) -> Int64[np.ndarray, "f 3"]:
    if mode == TRIANGLES:
        return order.reshape(-1, 3)
    a, b, c = order[:-2], order[1:-1], order[2:]
    if mode == FAN:
        return np.stack([np.broadcast_to(order[:1], a.shape), b, c], axis=1)
    odd = np.arange(len(a)) % 2 == 1  # every second triangle of a strip is wound the other way
    return np.stack([np.where(odd, b, a), np.where(odd, a, b), c], axis=1)


def _read_accessor(file: _File, index: int) -> NDArray[np.generic]:
    """The rows of an accessor; integers marked as normalised become fractions of their largest value."""
    spec = file.tree["accessors"][index]
    kind, width, count = np.dtype(KINDS[spec["componentType"]]), WIDTHS[spec["type"]], spec["count"]
    out_of_range = "damaged glTF: a count of an accessor is out of range"
    file.source.require(min(count - 1, index) >= 0, out_of_range)
    sparse, has_view = spec.get("sparse"), "bufferView" in spec
    file.source.require(sparse is not None or has_view, "a glTF accessor has no data")
    file.spend(count)
    rows = _read_view(file, spec, kind, width, count) if has_view else np.zeros((count, width), kind)
    if sparse is not None:  # rows that replace others
        indices, changed = sparse["indices"], sparse["count"]
        index_kind = np.dtype(KINDS[indices["componentType"]])
        rows = rows.copy()
        places = _read_view(file, indices, index_kind, 1, changed)[:, 0]
        rows[places] = _read_view(file, sparse["values"], kind, width, changed)
    if spec.get("normalized", False) and kind.kind in "iu":
        return np.maximum(rows.astype(np.float64) / np.iinfo(kind).max, -1.0)
    return rows


def _read_view(file: _File, spec: Tree, kind: np.dtype[Any], width: int, count: int) -> NDArray[np.generic]:
    """Rows in a view of a buffer, once their counts were compared with the bytes that there are."""
    view = file.tree["bufferViews"][spec["bufferView"]]
    buffer, row = file.buffers[view["buffer"]], kind.itemsize * width
    stride, inner, outer = view.get("byteStride", row), spec.get("byteOffset", 0), view.get("byteOffset", 0)
    is_sound = min(count - 1, inner, outer, stride - row) >= 0
    file.source.require(is_sound, "damaged glTF: a count, offset or stride of an accessor is out of range")
    needed = inner + (count - 1) * stride + row
    fits = needed <= view["byteLength"] and outer + view["byteLength"] <= len(buffer)
    claimed = f"a glTF accessor claims {count} rows, {needed} bytes"
    file.source.require(fits, f"truncated: {claimed}, more than there are")
    return np.ndarray((count, width), kind, buffer, inner + outer, (stride, kind.itemsize))
