"""Geometry to files: whole or not at all, and never over another file unasked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bitr.errors import InputError
from bitr.files import whole_file
from bitr.io.geometry import Geometry
from bitr.io.reading import READERS
from bitr.io.writers import WRITERS


class Suffixes(NamedTuple):
    read: tuple[str, ...]
    write: tuple[str, ...]


SUFFIXES = Suffixes(tuple(READERS), tuple(WRITERS))
"""The suffixes of the files that can be read and written."""
PALETTE = ((0.90, 0.45, 0.13), (0.20, 0.47, 0.75), (0.30, 0.65, 0.30), (0.58, 0.40, 0.74), (0.55, 0.34, 0.29))
"""Orange, blue, green, purple, brown: for the parts of a scene that have no colours."""


def write(path: str | os.PathLike[str], geometry: Geometry, *, force: bool = False) -> None:
    """Write one geometry in the format of the suffix; what the format has no place for is left out.

    ply, npz, npy, xyz and obj keep every bit of the coordinates, pcd too (as float32 where that loses
    nothing); glb has float32 around the middle of the points. Colours have 8 bits in ply, pcd and glb.
    """
    _write(Path(path), {Path(geometry.name).stem or "points": geometry}, force)


def write_scene(path: str | os.PathLike[str], parts: Mapping[str, Geometry], *, force: bool = False) -> None:
    """Write several geometries into one file: as named objects (glb, obj), else one after the other.

    Parts without colours get one each. Faces and normals are kept where all parts have them.
    """
    if not parts:
        raise InputError(f"{path}: no parts to write, expected one or more")
    colored = {
        name: part if part.colors is not None else part.painted(PALETTE[i % len(PALETTE)])
        for i, (name, part) in enumerate(parts.items())
    }
    _write(Path(path), colored, force)


def _write(target: Path, parts: Mapping[str, Geometry], force: bool) -> None:
    writer = WRITERS.get(target.suffix.lower())
    if writer is None:
        kind = target.suffix or "a file without a suffix"
        raise InputError(f"{target}: cannot write {kind}, expected one of {' '.join(SUFFIXES.write)}")
    try:
        with whole_file(target, force=force) as temporary, open(temporary, "wb") as file:
            writer(file, parts)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror or error})") from error
