"""The arrays of a glTF file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitr.io.source import Source

KINDS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}


def accessor(source: Source, tree: dict[str, Any], buffers: list[bytes], index: int) -> NDArray[np.generic]:
    """The rows of an accessor, once its counts were compared with the bytes that there are.

    Integers marked as normalised come back as fractions of their largest value.
    """
    spec = tree["accessors"][index]
    if "sparse" in spec or "bufferView" not in spec:
        raise source.error("a glTF accessor is sparse or has no data, which is not supported")
    view = tree["bufferViews"][spec["bufferView"]]
    kind, width, count = np.dtype(KINDS[spec["componentType"]]), WIDTHS[spec["type"]], spec["count"]
    row = kind.itemsize * width
    stride, inner, outer = view.get("byteStride", row), spec.get("byteOffset", 0), view.get("byteOffset", 0)
    buffer = buffers[view["buffer"]]
    needed = inner + (count - 1) * stride + row
    if min(count - 1, inner, outer, stride - row, index) < 0:
        raise source.error("damaged glTF: a count, offset or stride of an accessor is out of range")
    if needed > view["byteLength"] or outer + view["byteLength"] > len(buffer):
        raise source.error(
            f"truncated: a glTF accessor claims {count} rows, {needed} bytes, more than there are"
        )
    rows: NDArray[np.generic] = np.ndarray(
        (count, width), kind, buffer, inner + outer, (stride, kind.itemsize)
    )
    if spec.get("normalized", False) and kind.kind in "iu":
        return np.maximum(rows.astype(np.float64) / np.iinfo(kind).max, -1.0)
    return rows
