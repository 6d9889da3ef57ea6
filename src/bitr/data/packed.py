"""Many shapes or scans in one npz file."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from bitr.errors import InputError
from bitr.io import Geometry


@contextmanager
def opened(path: Path, *needed: str) -> Iterator[NpzFile]:
    """The arrays of the file, never a pickle; a damaged file, or one without a needed array, raises."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            missing = [key for key in needed if key not in arrays]
            if missing:
                raise InputError(f"{path}: holds no {', '.join(missing)}; expected {', '.join(needed)}")
            yield arrays
    except InputError:
        raise
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: damaged or not an npz file ({str(error)[:100]})") from error


@dataclass(frozen=True, eq=False)
class PackedShapes:
    """Shapes of equally many points, by their names."""

    points: Float32[np.ndarray, "s n 3"]
    names: tuple[str, ...]

    def shape(self, index: int) -> Geometry:
        return Geometry(self.points[index].astype(np.float64), name=self.names[index])


def read_shapes(path: Path, *labels: str) -> PackedShapes:
    """The arrays ``points`` and ``names``; a shape's id is its labels and its name, joined by a slash.

    A label is the name of an array with an entry for each shape.
    """
    with opened(path, "points", "names", *labels) as arrays:
        points, names = arrays["points"], arrays["names"]
        columns: list[NDArray[np.generic]] = [arrays[label] for label in labels]
    if points.ndim != 3 or points.shape[2] != 3 or any(len(c) != len(points) for c in (names, *columns)):
        raise InputError(f"{path}: points have the shape {points.shape}, expected ({len(names)}, n, 3)")
    ids = tuple("/".join(str(value) for value in row) for row in zip(*columns, names, strict=True))
    return PackedShapes(points.astype(np.float32), ids)
