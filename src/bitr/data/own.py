"""The user's own pairs: a folder, or a manifest in csv or jsonl, of files and poses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs
from bitr.data.poses import pose_of_numbers
from bitr.data.splits import SPLITS
from bitr.errors import InputError
from bitr.io import SUFFIXES, read
from bitr.io.manifest import Row, distinct, read_rows

SYMMETRIES = {"symmetry": (None, 4, 4), "axis": (2, 3)}
"""What npy files tell of the source's symmetry, and their shapes."""
NEEDED, OPTIONAL = ("source", "reference", "pose"), ("id", "split", *SYMMETRIES, "unit")
MANIFESTS = ("pairs.csv", "pairs.jsonl")


@dataclass(frozen=True, eq=False)
class OwnPair:
    """Two files and the pose between them; the pose is read at once, the files when they are asked for."""

    id: str
    source: Path
    reference: Path
    ref_from_src: Float64[np.ndarray, "4 4"]
    split: str | None = None
    unit: str = ""
    symmetry: Path | None = None
    axis: Path | None = None

    def load(self) -> AssemblyPair:
        source, reference = read(self.source), read(self.reference)
        known = {name: getattr(self, name) for name in SYMMETRIES}
        found = {name: _symmetry(path, SYMMETRIES[name]) for name, path in known.items() if path is not None}
        pair = AssemblyPair(source, reference, self.ref_from_src, self.id, unit=self.unit)
        return replace(pair, symmetry=found.get("symmetry"), axis=found.get("axis"))


@dataclass(frozen=True, eq=False)
class _Loaded:
    pairs: Sequence[OwnPair]

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        return self.pairs[i].load()


def own_pairs(path: Path, split: str = "test") -> Pairs:
    """The pairs of a folder or manifest that belong to the split.

    Where no pair says what it is for, all are for the test: nothing is trained on by accident.
    """
    pairs = listed_pairs(path)
    if split not in SPLITS:
        raise InputError(f"{path}: no split {split!r}, expected one of {', '.join(SPLITS)}")
    chosen = [pair for pair in pairs if (pair.split or "test") == split]
    if not chosen:
        fix = "train/, val/ and test/ folders" if path.is_dir() else "a column split with train, val and test"
        raise InputError(f"{path}: none of its {len(pairs)} pairs is for {split}; say which are, with {fix}")
    return Pairs(str(path), split, 0, _Loaded(chosen), range(len(chosen)))


def listed_pairs(path: Path) -> tuple[OwnPair, ...]:
    """All pairs, every row and pose checked; files that are not there raise, those that are read later."""
    manifest = next((path / name for name in MANIFESTS if (path / name).is_file()), None)
    if path.is_dir() and manifest is None:
        return distinct((str(pair.source.parent), pair.id, pair) for pair in _of_folder(path))
    rows = read_rows(manifest or path, NEEDED, OPTIONAL)
    return distinct((row.at, pair.id, pair) for row in rows for pair in [_of_row(row)])


def _of_row(row: Row) -> OwnPair:
    split, unit = row.values.get("split"), row.values.get("unit", "")
    if split not in (None, *SPLITS):
        raise InputError(f"{row.at}: found split = {split!r:.40}, expected one of {', '.join(SPLITS)}")
    if not isinstance(unit, str):
        raise InputError(f"{row.at}: found unit = {unit!r:.40}, expected its name, as m")
    files = [row.file(key) for key in ("source", "reference")]
    known = {name: row.file(name) for name in SYMMETRIES if row.values.get(name) is not None}
    for file in (*files, *known.values()):
        if not file.is_file():
            raise InputError(f"{row.at}: {file}: no such file")
    id = row.name("id", str(row.number))
    return OwnPair(id, files[0], files[1], _pose_of_row(row), split, unit, **known)


def _pose_of_row(row: Row) -> Float64[np.ndarray, "4 4"]:
    """The pose in the row itself, 16 numbers or nested lists, or in the file that it names."""
    value = row.values.get("pose")
    if isinstance(value, list):
        flat = [x for part in value for x in (part if isinstance(part, list) else [part])]
        return pose_of_numbers(" ".join(map(str, flat)), row.at)
    if isinstance(value, str) and len(value.replace(",", " ").split()) in (12, 16):
        return pose_of_numbers(value, row.at)
    path = row.file("pose")
    if not path.is_file():
        raise InputError(f"{row.at}: {path}: no such file, expected a 4×4 pose or 16 numbers")
    return _pose_of_file(path, f"{row.at}: {path}")


def _pose_of_file(path: Path, name: str) -> Float64[np.ndarray, "4 4"]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name}: cannot be read as text, expected a 4×4 pose") from error
    return pose_of_numbers(text, name)


def _of_folder(folder: Path) -> list[OwnPair]:
    """A folder per pair, with source.*, reference.* and pose.txt; also inside pairs/, train/, val/, test/."""
    found = []
    for split in (None, *SPLITS):
        places = [folder / split] if split else [folder, folder / "pairs"]
        for place in places:
            for inner in sorted(place.iterdir()) if place.is_dir() else []:
                if (inner / "pose.txt").is_file():
                    found.append(_of_pair_folder(inner, split))
    if not found:
        raise InputError(
            f"{folder}: holds no pairs, expected pairs.csv, pairs.jsonl, or folders with source.*, "
            "reference.* and pose.txt"
        )
    return found


def _of_pair_folder(folder: Path, split: str | None) -> OwnPair:
    pieces = [_piece(folder, name) for name in ("source", "reference")]
    pose = _pose_of_file(folder / "pose.txt", str(folder / "pose.txt"))
    id = folder.name if split is None else f"{split}/{folder.name}"
    files = {name: folder / f"{name}.npy" for name in SYMMETRIES}
    known = {name: file for name, file in files.items() if file.is_file()}
    return OwnPair(id, pieces[0], pieces[1], pose, split, "", **known)


def _piece(folder: Path, name: str) -> Path:
    found = sorted(p for p in folder.glob(f"{name}.*") if p.suffix.lower() in SUFFIXES.read)
    if len(found) != 1:
        have = ", ".join(p.name for p in found) or "none"
        raise InputError(f"{folder}: found {have}, expected one file {name}.* of {' '.join(SUFFIXES.read)}")
    return found[0]


def _symmetry(path: Path, shape: tuple[int | None, ...]) -> Float64[np.ndarray, "*shape"]:
    """The numbers of a file; None stands for any length."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: damaged or not an npy file ({str(error)[:60]})") from error
    fits = found.ndim == len(shape) and all(b in (None, a) for a, b in zip(found.shape, shape, strict=True))
    if not fits or found.dtype.kind != "f":
        expected = ", ".join("s" if length is None else str(length) for length in shape)
        raise InputError(f"{path}: {found.dtype} of the shape {found.shape}, expected ({expected})")
    return found.astype(np.float64)
