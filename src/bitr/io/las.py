"""LAS and LAZ of laser scanning, through laspy and lazrs."""

from __future__ import annotations

import io
import logging
import struct

import numpy as np

from bitr.errors import InputError
from bitr.io.columns import with_colors
from bitr.io.geometry import Geometry
from bitr.io.source import Source

CHUNK = 500_000
"""Points that are unpacked at a time."""
POINTS_PER_BYTE = 100
"""No scan is compressed to less than a hundredth of a byte for each point."""

ITEMS = {6: 20, 7: 8, 8: 6, 9: 29, 10: 30, 11: 6, 12: 8, 13: 29}
"""Bytes of the parts that laz makes points of, by their numbers: lazrs trusts the file in this."""


def read_las(source: Source) -> Geometry:
    """The points of a las or laz file in real coordinates, with colours where the point format has them."""
    count = _check_header(source)
    try:
        import laspy
    except ImportError as error:
        raise InputError(f'{source.path}: las and laz need laspy: pip install "bitr[io]"') from error
    logging.getLogger("laspy").addHandler(logging.NullHandler())  # else what it logs would go to stderr
    points, colors = [], []
    try:
        # one thread, chunk by chunk: the memory needed does not depend on what the file claims
        with laspy.open(
            io.BytesIO(source.data), laz_backend=laspy.LazBackend.Lazrs, read_evlrs=False
        ) as reader:
            for chunk in reader.chunk_iterator(CHUNK):
                points.append(np.stack([np.asarray(chunk[axis], np.float64) for axis in "xyz"], axis=1))
                if "red" in chunk.point_format.dimension_names:
                    colors.append(np.stack([np.asarray(chunk[c]) for c in ("red", "green", "blue")], axis=1))
    except BaseException as error:  # laspy and lazrs raise whatever damaged bytes lead them to,
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # and a panic of lazrs is no Exception
        raise source.broken("las", error) from error
    found = sum(map(len, points))
    if found != count:
        raise source.error(f"truncated: the las header claims {count} points, found {found}")
    geometry = Geometry(np.concatenate(points), name=str(source.path))
    # Point formats have colours whether or not the scanner took any: all black means none.
    used = any(c.any() for c in colors)
    return with_colors(geometry, np.concatenate(colors)) if used else geometry


def _check_header(source: Source) -> int:
    """The number of points, after all that the header claims was compared with the size of the file."""
    data, size = source.data, len(source.data)
    if size < 227:
        raise source.error(f"truncated: a las header has at least 227 bytes, found {size}")
    minor, (header_size, start, records) = data[25], struct.unpack_from("<HII", data, 94)
    form, row, count = struct.unpack_from("<BHI", data, 104)
    if data[24] != 1 or not header_size <= start <= size or records * 54 > start:
        raise source.error(f"damaged las header: points claimed to start at byte {start} of {size}")
    if minor >= 4:
        if size < 375:
            raise source.error(f"truncated: a las 1.4 header has 375 bytes, found {size}")
        count = struct.unpack_from("<Q", data, 247)[0]
    if not count:
        raise source.error("the las header claims 0 points, expected points")
    compressed, left = bool(form & 0xC0), size - start
    if count * (row if not compressed else 1) > left * (1 if not compressed else POINTS_PER_BYTE) or not row:
        raise source.error(
            f"truncated: the las header claims {count} points of {row} bytes, found {left} bytes"
        )
    if compressed:
        _check_chunks(source, start, count)
        _check_items(source, header_size, records, row)
    return int(count)


def _check_chunks(source: Source, start: int, count: int) -> None:
    """The table of chunks must lie in the file and must not claim more chunks than there are points."""
    size = len(source.data)
    if size < start + 8:
        raise source.error("truncated: the laz points have no table of chunks")
    table = struct.unpack_from("<q", source.data, start)[0]
    if table == -1:  # written by a program that could not seek: the place stands in the last 8 bytes
        table = struct.unpack_from("<q", source.data, size - 8)[0]
    if not start + 8 <= table <= size - 8:
        raise source.error(f"truncated: the table of laz chunks is at byte {table}, the file has {size}")
    chunks = struct.unpack_from("<I", source.data, table + 4)[0]
    if chunks > count:
        raise source.error(f"damaged: {chunks} laz chunks claimed for {count} points")


def _check_items(source: Source, at: int, records: int, row: int) -> None:
    """What the laz points are made of must be as large as the points are."""
    for _ in range(records):
        if at + 54 > len(source.data):
            break
        user, number, size = struct.unpack_from("<2x16sHH", source.data, at)
        at += 54
        if user.rstrip(b"\0") == b"laszip encoded" and number == 22204 and at + 34 <= len(source.data):
            items = struct.unpack_from("<H", source.data, at + 32)[0]
            if 34 + 6 * items <= min(size, len(source.data) - at):
                found = np.frombuffer(source.data, "<u2", 3 * items, at + 34).reshape(-1, 3).tolist()
                fixed = all(ITEMS.get(kind, length) == length for kind, length, _ in found)
                if fixed and sum(length for _, length, _ in found) == row:
                    return
        at += size
    raise source.error(f"damaged: the laz header does not say what points of {row} bytes are made of")
