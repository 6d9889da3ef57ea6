"""GLB: one node for each part, with float32 positions around a centre that the node keeps in full."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bitr.io.geometry import Geometry

VERTICES, INDICES = 34962, 34963
"""What glTF calls the two uses of a view into a buffer."""


def write_glb(file: BinaryIO, parts: Mapping[str, Geometry]) -> None:
    """Meshes as triangles and clouds as points, with normals and colours, under the names of the parts."""
    tree: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": "bitr"},
        "scene": 0,
        "scenes": [{"nodes": list(range(len(parts)))}],
        **{key: [] for key in ("nodes", "meshes", "accessors", "bufferViews")},
    }
    chunks: list[bytes] = []
    for name, part in parts.items():
        center = (part.points.min(axis=0) + part.points.max(axis=0)) / 2
        attributes = {"POSITION": _add(tree, chunks, (part.points - center).astype("<f4"), "VEC3", VERTICES)}
        if part.normals is not None:
            attributes["NORMAL"] = _add(tree, chunks, part.normals.astype("<f4"), "VEC3", VERTICES)
        if part.colors is not None:
            rgba = np.concatenate([part.colors, np.ones((len(part.colors), 1))], axis=1)
            rgba = np.rint(np.clip(rgba, 0, 1) * 255).astype("u1")
            attributes["COLOR_0"] = _add(tree, chunks, rgba, "VEC4", VERTICES)
        primitive: dict[str, Any] = {"attributes": attributes, "mode": 0 if part.faces is None else 4}
        if part.faces is not None:
            primitive["indices"] = _add(
                tree, chunks, part.faces.reshape(-1, 1).astype("<u4"), "SCALAR", INDICES
            )
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


def _add(tree: dict[str, Any], chunks: list[bytes], array: NDArray[Any], kind: str, target: int) -> int:
    """Append an array to the buffer, and return the number of the accessor that finds it again."""
    component = {"f": 5126, "u": 5125 if array.itemsize == 4 else 5121}[array.dtype.kind]
    spec = {"bufferView": len(chunks), "componentType": component, "count": len(array), "type": kind}
    if component == 5121:
        spec["normalized"] = True
    if component == 5126:  # asked for by the standard where these are positions
        spec |= {"min": array.min(axis=0).tolist(), "max": array.max(axis=0).tolist()}
    start = sum(len(c) for c in chunks)
    data = np.ascontiguousarray(array).tobytes()
    tree["bufferViews"].append({"buffer": 0, "byteOffset": start, "byteLength": len(data), "target": target})
    tree["accessors"].append(spec)
    chunks.append(data)
    return len(tree["accessors"]) - 1
