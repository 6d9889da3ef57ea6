"""The rows of one element of a binary ply file."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitr.io.faces import Polygons
from bitr.io.ply_header import INDICES, Element
from bitr.io.source import Source

LONGEST = 1 << 16
"""Lists of more items than this are read one by one."""


def read_rows(
    source: Source, order: str, element: Element, start: int
) -> tuple[dict[str, NDArray[np.generic] | Polygons], int]:
    """The columns of an element that starts at a byte, by name of property, and the byte after it."""
    least = sum(np.dtype(p.length or p.kind).itemsize for p in element.properties)
    left = len(source.data) - start
    if element.count * least > left:
        raise source.error(
            f"truncated: the header claims {element.count} rows of element '{element.name}', at least "
            f"{element.count * least} bytes, found {left}"
        )
    if not element.count or not element.properties:
        return {}, start
    dtype = _row_type(source, order, element, start)
    if dtype is None or dtype.itemsize * element.count > left:
        return _one_by_one(source, order, element, start)
    rows = np.frombuffer(source.data, dtype, element.count, start)
    columns: dict[str, NDArray[np.generic] | Polygons] = {}
    for i, p in enumerate(element.properties):
        values = rows[f"value{i}"]
        if p.length is not None and (rows[f"length{i}"] != values.shape[1]).any():
            return _one_by_one(source, order, element, start)
        if p.length is None:
            columns[p.name] = values
        elif p.name in INDICES and p.kind[0] in "iu":
            columns[p.name] = Polygons.of_one_size(values)
    return columns, start + rows.nbytes


def _row_type(source: Source, order: str, element: Element, start: int) -> np.dtype[np.void] | None:
    """The type of the first row, which is that of all rows unless they have lists of different lengths."""
    fields: list[tuple[str, str] | tuple[str, str, tuple[int]]] = []
    for i, p in enumerate(element.properties):
        if p.length is None:
            fields.append((f"value{i}", order + p.kind))
            continue
        at = start + np.dtype(fields).itemsize
        if at + np.dtype(p.length).itemsize > len(source.data):
            return None
        length = int(np.frombuffer(source.data, order + p.length, 1, at)[0])
        if not 0 <= length <= LONGEST:
            return None
        fields += [(f"length{i}", order + p.length), (f"value{i}", order + p.kind, (length,))]
    return np.dtype(fields)


def _one_by_one(
    source: Source, order: str, element: Element, start: int
) -> tuple[dict[str, NDArray[np.generic] | Polygons], int]:
    lists: list[list[NDArray[Any]]] = [[] for _ in element.properties]
    kinds = [np.dtype(order + p.kind) for p in element.properties]
    lengths = [struct.Struct("" if p.length is None else order + CODES[p.length]) for p in element.properties]
    at, end = start, len(source.data)
    for row in range(element.count):
        for values, kind, length in zip(lists, kinds, lengths, strict=True):
            count = length.unpack_from(source.data, at)[0] if 0 < length.size <= end - at else 1
            at += length.size
            if count < 0 or at + count * kind.itemsize > end:
                raise source.error(
                    f"truncated or damaged in row {row} of element '{element.name}': {count} items claimed, "
                    f"found {max(end - at, 0)} bytes"
                )
            values.append(np.frombuffer(source.data, kind, count, at))
            at += count * kind.itemsize
    columns: dict[str, NDArray[np.generic] | Polygons] = {}
    for p, values in zip(element.properties, lists, strict=True):
        if p.length is None:
            columns[p.name] = np.concatenate(values)
        elif p.name in INDICES and p.kind[0] in "iu":
            columns[p.name] = Polygons.of_any_size(values)
    return columns, at


CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}
"""The letters of the struct module for the numbers that a list may begin with."""
