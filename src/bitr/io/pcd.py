"""PCD of the Point Cloud Library: text, binary and compressed."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bitr.errors import InputError
from bitr.io.columns import COLOR, NORMAL, POSITION, pick, with_colors
from bitr.io.geometry import Geometry
from bitr.io.pcd_header import Header, parse_header
from bitr.io.source import Source
from bitr.io.text import lines_of, parse

LARGEST_RATIO = 264
"""LZF writes at most this many bytes for each one it reads."""


def read_pcd(source: Source) -> Geometry:
    """The points of a pcd file; colours are unpacked from the field rgb or rgba."""
    header = parse_header(source)
    if not header.points:
        raise source.error("the pcd header claims 0 points, expected points")
    read_columns = {"ascii": _ascii, "binary": _binary, "binary_compressed": _compressed}[header.data]
    columns = read_columns(source, header)
    position, normal, color = (pick(header.names, kind) for kind in (POSITION, NORMAL, COLOR))
    if position is None:
        flat = "two dimensions only: " if {"x", "y"} <= set(header.names) else ""
        raise source.error(
            f"{flat}the pcd fields are {' '.join(header.names)[:80]}, expected x y z among them"
        )
    if any(header.counts[i] != 1 for i in (*position, *(normal or ()), *(color or ()))):
        raise source.error("a pcd field of coordinates has a COUNT other than 1")
    geometry = Geometry(_table(columns, position), name=str(source.path))
    if normal is not None:
        geometry = replace(geometry, normals=_table(columns, normal))
    packed = next((i for i, n in enumerate(header.names) if n.lower() in ("rgb", "rgba")), None)
    if color is not None:
        return with_colors(geometry, np.stack([columns[i][:, 0] for i in color], axis=1))
    if packed is not None and columns[packed].dtype.itemsize == 4:
        bits = np.ascontiguousarray(columns[packed][:, 0]).view("<u4")
        return with_colors(geometry, np.stack([(bits >> s).astype(np.uint8) for s in (16, 8, 0)], axis=1))
    return geometry


def _table(columns: list[NDArray[np.generic]], at: tuple[int, int, int]) -> NDArray[np.float64]:
    return np.stack([columns[i][:, 0] for i in at], axis=1).astype(np.float64)


def _ascii(source: Source, header: Header) -> list[NDArray[np.generic]]:
    lines = lines_of(source.data[header.size :].splitlines(), header.lines + 1)
    if len(lines) != header.points:
        raise source.error(
            f"truncated: the pcd header claims {header.points} points, found {len(lines)} lines"
        )
    table = parse(source, lines)
    if table.shape[1] != sum(header.counts):
        raise source.error(f"rows of {table.shape[1]} numbers, the pcd header claims {sum(header.counts)}")
    stops = np.cumsum(header.counts)
    return [
        table[:, stop - count : stop].astype(kind)
        for kind, count, stop in zip(header.kinds, header.counts, stops, strict=True)
    ]


def _binary(source: Source, header: Header) -> list[NDArray[np.generic]]:
    left = len(source.data) - header.size
    if header.points * header.row > left:
        raise _too_short(source, header, left)
    fields = [(f"f{i}", k, (c,)) for i, (k, c) in enumerate(zip(header.kinds, header.counts, strict=True))]
    rows = np.frombuffer(source.data, np.dtype(fields), header.points, header.size)
    return [rows[f"f{i}"] for i in range(len(fields))]


def _compressed(source: Source, header: Header) -> list[NDArray[np.generic]]:
    left = len(source.data) - header.size - 8
    if left < 0:
        raise _too_short(source, header, 0)
    packed, size = np.frombuffer(source.data, "<u4", 2, header.size).tolist()
    if packed > left or size > packed * LARGEST_RATIO:
        raise source.error(f"truncated: the pcd body claims {packed} bytes for {size}, found {left}")
    if size != header.points * header.row:
        raise _too_short(source, header, size)
    raw, at = _decompress(source, packed, size, header.size), 0
    columns = []
    for kind, count in zip(header.kinds, header.counts, strict=True):
        column = np.frombuffer(raw, kind, header.points * count, at).reshape(header.points, count)
        columns.append(column)
        at += column.nbytes
    return columns


def _decompress(source: Source, packed: int, size: int, start: int) -> bytes:
    """The bytes that were packed, all fields one after the other."""
    try:
        from pypcd4.pypcd4 import PointCloud
    except ImportError as error:
        raise InputError(f'{source.path}: compressed pcd needs pypcd4: pip install "bitr[io]"') from error
    # As a cloud of one byte a point: pypcd4 has its own ideas about fields that hold several numbers.
    header = f"VERSION 0.7\nFIELDS byte\nSIZE 1\nTYPE U\nCOUNT 1\nWIDTH {size}\nHEIGHT 1\n"
    header += f"VIEWPOINT 0 0 0 1 0 0 0\nPOINTS {size}\nDATA binary_compressed\n"
    body = source.data[start : start + 8 + packed]
    try:
        cloud = PointCloud.from_fileobj(io.BufferedReader(io.BytesIO(header.encode() + body)))
        return cloud.pc_data["byte"].tobytes()
    except Exception as error:  # the decompressor raises whatever damaged bytes lead it to
        raise source.broken("pcd", error) from error


def _too_short(source: Source, header: Header, found: int) -> InputError:
    return source.error(
        f"truncated: the pcd header claims {header.points} points of {header.row} bytes, found {found} bytes"
    )
