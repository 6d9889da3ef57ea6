"""Files to geometry: what kind a file is, by its content first and its suffix second."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bitr.errors import InputError
from bitr.io.arrays import read_kitti, read_npy, read_npz
from bitr.io.check import checked
from bitr.io.geometry import Geometry
from bitr.io.gltf import read_gltf
from bitr.io.las import read_las
from bitr.io.obj import read_obj
from bitr.io.off import MAGIC as OFF_MAGIC
from bitr.io.off import read_off
from bitr.io.pcd import read_pcd
from bitr.io.ply import read_ply
from bitr.io.source import Source, open_source
from bitr.io.stl import is_binary_stl, read_stl
from bitr.io.text import read_text

Reader = Callable[[Source], Geometry]
TEXT = (".xyz", ".xyzn", ".xyzrgb", ".txt", ".csv", ".pts", ".asc")
READERS: dict[str, Reader] = {
    ".ply": read_ply,
    ".pcd": read_pcd,
    **dict.fromkeys(TEXT, read_text),
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
"""How files of a kind begin."""


def read(path: str | os.PathLike[str]) -> Geometry:
    """The points or the mesh of a file, checked; whatever is wrong raises an InputError of one line."""
    source = open_source(Path(path))
    reader = _reader(source)
    try:
        # numbers out of range become NaN or infinite, and are counted as such
        with np.errstate(all="ignore"):
            return checked(reader(source))
    except MemoryError as error:
        raise source.error(f"does not fit into memory ({len(source.data)} bytes)") from error


def _reader(source: Source) -> Reader:
    for suffix, starts in MAGIC.items():
        if source.data.startswith(starts):
            return READERS[suffix]
    if OFF_MAGIC.match(source.data):
        return read_off
    suffix = ".las" if source.suffix == ".laz" else source.suffix
    if suffix in MAGIC and not (suffix == ".pcd" and b"\nDATA " in source.data[:10_000]):
        expected = " or ".join(repr(s)[1:] for s in MAGIC[suffix][:2])
        raise source.error(
            f"wrong magic: starts with {source.data[:8]!r}, expected {expected} in a {source.suffix} file"
        )
    if suffix in READERS:
        return READERS[suffix]
    return _guess(source)


def _guess(source: Source) -> Reader:
    """The reader for a file whose name says nothing."""
    head = source.data[:10_000]
    if is_binary_stl(source.data) or (head.lstrip()[:5].lower() == b"solid" and b"facet" in head.lower()):
        return read_stl
    if head.lstrip().startswith(b"{") and b'"asset"' in source.data:
        return read_gltf
    if b"\0" not in head:
        return read_obj if b"\nv " in b"\n" + head else read_text
    raise InputError(f"{source.path}: unknown format, expected one of {' '.join(READERS)}")
