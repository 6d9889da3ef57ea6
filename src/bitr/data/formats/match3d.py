"""Fragments of 3DMatch in the packaging of Predator: ``cloud_bin_N.pth`` and ``cloud_bin_N.info.txt``."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bitr.data.poses import pose_of_numbers
from bitr.data.scans import Scan
from bitr.errors import InputError
from bitr.io import Geometry, check

NUMBER = re.compile(r"cloud_bin_(\d+)$")


@dataclass(frozen=True)
class Fragment:
    """A file with the points of a fragment."""

    path: Path

    def __call__(self) -> Geometry:
        points = np.asarray(_safely_loaded(self.path))
        if points.ndim != 2 or points.shape[1] != 3 or points.dtype.kind != "f":
            raise InputError(
                f"{self.path}: holds {points.dtype} of the shape {points.shape}, expected numbers, (n, 3)"
            )
        return check(Geometry(points.astype(np.float64), name=str(self.path)))


def read_fragments(folder: Path) -> list[Scan]:
    """The fragments of a scene, in the order of their numbers."""
    numbered = [(int(m[1]), path) for path in folder.glob("*.pth") if (m := NUMBER.match(path.stem))]
    return [
        Scan(number, Fragment(path), _pose(path.with_suffix(".info.txt")))
        for number, path in sorted(numbered)
    ]


def _pose(path: Path) -> Any:
    """``world_from_fragment``, after a line that names the scene, the sequence and its frames."""
    if not path.is_file():
        raise InputError(f"{path}: no such file, expected the pose of a fragment")
    _, _, rest = path.read_text(encoding="utf-8").partition("\n")
    return pose_of_numbers(rest, str(path))


def _safely_loaded(path: Path) -> Any:
    """What ``torch.save`` wrote: a tensor or a numpy array, and nothing that would run code."""
    try:
        with torch.serialization.safe_globals(_array_parts()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, AttributeError) as error:
        reason = str(error).splitlines()[0][:100] if str(error) else type(error).__name__
        raise InputError(f"{path}: damaged, or holds more than an array of points ({reason})") from error


def _array_parts() -> list[Any]:
    """What a numpy array is rebuilt from; numpy 1 and 2 call the first of them by different names."""
    import _codecs

    rebuild = np.zeros(1).__reduce__()[0]
    return [
        (rebuild, "numpy.core.multiarray._reconstruct"),
        (rebuild, "numpy._core.multiarray._reconstruct"),
        np.ndarray,
        np.dtype,
        type(np.dtype(np.float32)),
        type(np.dtype(np.float64)),
        _codecs.encode,
    ]
