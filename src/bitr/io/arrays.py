"""Arrays in files: numpy's npy and npz (never a pickle), and the raw float32 rows of KITTI."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from dataclasses import replace

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from bitr.errors import InputError
from bitr.io.columns import from_columns, with_colors
from bitr.io.geometry import Geometry
from bitr.io.source import Source

POINT_KEYS = ("points", "pos", "xyz", "vertices")
LARGEST_RATIO, SMALL = 100, 1 << 24
"""An archive may unpack to this many times its size, and always to a few megabytes: more is a bomb."""
FARTHEST = 1e7
"""No laser sees farther, in metres: larger numbers are something else than a KITTI scan."""


def read_npy(source: Source) -> Geometry:
    """An (n, 3) array of points, or more columns as in a text file."""
    return _points(source, _array(source, source.data, "the array"))


def read_npz(source: Source) -> Geometry:
    """Points under one of their usual names, or the only array; normals, colors and faces where present."""
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            members = {i.filename.removesuffix(".npy").lower(): i for i in archive.infolist()}
            wanted = next((k for k in POINT_KEYS if k in members), None)
            if wanted is None and len(members) == 1:
                wanted = next(iter(members))
            if wanted is None:
                found = ", ".join(members)[:80] or "nothing"
                raise source.error(
                    f"the npz file holds {found}; expected {', '.join(POINT_KEYS[:-1])} or vertices"
                )
            keys = (wanted, *(k for k in ("normals", "colors", "faces") if k in members and k != wanted))
            arrays = {k: _array(source, _unpack(source, archive, members[k]), f"'{k}'") for k in keys}
    except InputError:
        raise
    except Exception as error:  # zipfile and its decompressors raise whatever damaged bytes lead them to
        raise source.broken("npz", error) from error
    return _with_parts(source, _points(source, arrays.pop(wanted)), arrays)


def _with_parts(source: Source, geometry: Geometry, arrays: dict[str, NDArray[np.generic]]) -> Geometry:
    n = len(geometry.points)
    for key, array in arrays.items():
        if array.ndim != 2 or array.shape[1] != 3 or (key != "faces" and len(array) != n):
            rows = "f" if key == "faces" else str(n)
            raise source.error(f"'{key}' has the shape {array.shape}, expected ({rows}, 3)")
        if key == "faces":
            if array.dtype.kind not in "iu":
                raise source.error(f"'faces' are of type {array.dtype}, expected whole numbers")
            geometry = replace(geometry, faces=array.astype(np.int64) if len(array) else None)
        elif key == "normals":
            geometry = replace(geometry, normals=array.astype(np.float64))
        else:
            geometry = with_colors(geometry, array)
    return geometry


def _unpack(source: Source, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if member.file_size > max(SMALL, LARGEST_RATIO * len(source.data)):
        raise source.error(
            f"{member.filename[:40]!r} unpacks to {member.file_size} bytes from a file of {len(source.data)}:"
            " too much to be points"
        )
    return archive.read(member)


def _array(source: Source, data: bytes, what: str) -> NDArray[np.generic]:
    """The array of an npy file, once its header was compared with the bytes that there are."""
    file = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(file)
    except Exception as error:  # numpy reads the header as Python, and its errors are those of a parser
        raise source.broken("npy", error) from error
    if dtype.kind not in "fiu":
        raise source.error(
            f"{what} holds {dtype}, expected numbers{', no pickle' if dtype.hasobject else ''}"
        )
    count, left = math.prod(shape), len(data) - file.tell()
    if min(shape, default=0) < 0 or count * dtype.itemsize > left:
        size = count * dtype.itemsize
        raise source.error(f"truncated: {what} claims the shape {shape}, {size} bytes, found {left}")
    flat = np.frombuffer(data, dtype, count, file.tell())
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _points(source: Source, array: NDArray[np.generic]) -> Geometry:
    if array.ndim != 2:
        raise source.error(f"the array has the shape {array.shape}, expected (n, 3)")
    if array.shape[0] in (2, 3) and array.shape[1] > 9:
        raise source.error(f"the array has the shape {array.shape}, expected (n, 3): transpose it")
    return from_columns(array.astype(np.float64), str(source.path), suffix=source.suffix)


def read_kitti(source: Source) -> Geometry:
    """The points of a KITTI scan: float32 rows of x, y, z and a reflectance, which is left out."""
    if len(source.data) % 16:
        raise source.error(
            f"truncated or not a KITTI scan: {len(source.data)} bytes, expected a multiple of 16 "
            "(float32 x y z intensity)"
        )
    rows = np.frombuffer(source.data, "<f4").reshape(-1, 4)
    largest = float(np.abs(rows[:, :3]).max(initial=0.0, where=np.isfinite(rows[:, :3])))
    if largest > FARTHEST:
        raise source.error(
            f"not a KITTI scan: a coordinate of {largest:.3g}, expected less than {FARTHEST:g}"
        )
    return Geometry(rows[:, :3].astype(np.float64), name=str(source.path))
