"""The user's own pairs, read from and written to folders and manifests (csv, jsonl) of files and poses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from bitr.data.pair import AssemblyPair, Pairs
from bitr.data.poses import Pose, pose_of_numbers, read_text
from bitr.data.storage import SPLITS
from bitr.errors import InputError
from bitr.files import whole_file
from bitr.io import SUFFIXES, read, write
from bitr.io.manifest import Row, distinct, read_rows

SYMMETRIES = {"symmetry": (None, 4, 4), "axis": (2, 3)}
"""Fields of a pair in npy files, and the shapes of their arrays."""
NEEDED, OPTIONAL = ("source", "reference", "pose"), ("id", "split", *SYMMETRIES, "unit")
MANIFESTS = ("pairs.csv", "pairs.jsonl")
FINGERPRINT = 1 << 16
"""Bytes of each file, from its beginning, that tell a pair from others."""


@dataclass(frozen=True, eq=False)
class OwnPair:
    """Two files and the pose between them; the pose is read at once, the files on demand."""

    id: str
    source: Path
    reference: Path
    ref_from_src: Pose
    split: str | None = None
    unit: str = ""
    symmetry: Path | None = None
    axis: Path | None = None

    def load(self) -> AssemblyPair:
        source, reference = read(self.source), read(self.reference)
        symmetry = None if self.symmetry is None else _read_array(self.symmetry, SYMMETRIES["symmetry"])
        axis = None if self.axis is None else _read_array(self.axis, SYMMETRIES["axis"])
        return AssemblyPair(source, reference, self.ref_from_src, self.id, symmetry, self.unit, axis)

    def fingerprint(self) -> str:
        """A hash of the pose and of both files, the same wherever the files lie and whatever the id is."""
        digest = hashlib.sha256(self.ref_from_src.tobytes())
        for path in (self.source, self.reference):
            try:
                digest.update(str(path.stat().st_size).encode())
                with open(path, "rb") as file:
                    digest.update(file.read(FINGERPRINT))
            except OSError as error:
                raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        return digest.hexdigest()[:32]


def own_pairs(path: Path, split: str = "test", keep: Callable[[OwnPair], bool] | None = None) -> Pairs:
    """The pairs of a folder or manifest that belong to the split and that ``keep`` accepts.

    Pairs that name no split are for the test: nothing is trained on by accident.
    """
    pairs = listed_pairs(path)
    if split not in SPLITS:
        raise InputError(f"{path}: no split {split!r}, expected one of {', '.join(SPLITS)}")
    chosen = [pair for pair in pairs if (pair.split or "test") == split]
    if not chosen:
        fix = "train/, val/ and test/ folders" if path.is_dir() else "a column split with train, val and test"
        raise InputError(f"{path}: none of its {len(pairs)} pairs is for {split}; say which are, with {fix}")
    kept = chosen if keep is None else [pair for pair in chosen if keep(pair)]
    return Pairs(str(path), split, 0, partial(_load, kept), range(len(kept)))


def _load(pairs: list[OwnPair], i: int, rng: np.random.Generator) -> AssemblyPair:
    return pairs[i].load()


def listed_pairs(path: Path) -> tuple[OwnPair, ...]:
    """All pairs, with every row and pose checked; missing files raise, the others are read later."""
    manifest = next((path / name for name in MANIFESTS if (path / name).is_file()), None)
    if path.is_dir() and manifest is None:
        return distinct((str(pair.source.parent), pair.id, pair) for pair in _pairs_of_folder(path))
    rows = read_rows(manifest or path, NEEDED, OPTIONAL)
    return distinct((row.at, pair.id, pair) for row in rows for pair in [_pair_of_row(row)])


def _pair_of_row(row: Row) -> OwnPair:
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


def _pose_of_row(row: Row) -> Pose:
    """The pose in the row itself, 16 numbers or nested lists, or in the file that it names."""
    value = row.values.get("pose")
    if isinstance(value, list):
        flat = [x for part in value for x in (part if isinstance(part, list) else [part])]
        return pose_of_numbers(" ".join(map(str, flat)), row.at)
    if isinstance(value, str) and len(value.replace(",", " ").split()) in (12, 16):
        return pose_of_numbers(value, row.at)
    path = row.file("pose")
    text = read_text(path, "a 4×4 pose or 16 numbers", f"{row.at}: ")
    return pose_of_numbers(text, f"{row.at}: {path}")


def _pairs_of_folder(folder: Path) -> list[OwnPair]:
    """A folder for each pair, directly inside, or inside pairs/, train/, val/ or test/."""
    found = []
    for split, pattern in ((None, "*"), (None, "pairs/*"), *((split, f"{split}/*") for split in SPLITS)):
        for inner in sorted(folder.glob(pattern)):
            if (inner / "pose.txt").is_file():
                found.append(_pair_of_folder(inner, split))
    if not found:
        raise InputError(
            f"{folder}: holds no pairs, expected pairs.csv, pairs.jsonl, or folders with source.*, "
            "reference.* and pose.txt"
        )
    return found


def _pair_of_folder(folder: Path, split: str | None) -> OwnPair:
    """The pair of source.*, reference.* and pose.txt."""
    pieces = [_piece_file(folder, name) for name in ("source", "reference")]
    pose = folder / "pose.txt"
    ref_from_src = pose_of_numbers(read_text(pose, "a 4×4 pose"), str(pose))
    id = folder.name if split is None else f"{split}/{folder.name}"
    known = {name: file for name in SYMMETRIES if (file := folder / f"{name}.npy").is_file()}
    return OwnPair(id, pieces[0], pieces[1], ref_from_src, split, "", **known)


def _piece_file(folder: Path, name: str) -> Path:
    found = sorted(p for p in folder.glob(f"{name}.*") if p.suffix.lower() in SUFFIXES.read)
    if len(found) != 1:
        have = ", ".join(p.name for p in found) or "none"
        raise InputError(f"{folder}: found {have}, expected one file {name}.* of {' '.join(SUFFIXES.read)}")
    return found[0]


def _read_array(path: Path, shape: tuple[int | None, ...]) -> Float64[np.ndarray, "*shape"]:
    """The numbers of an npy file of this shape; None stands for any length."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: damaged or not an npy file ({str(error)[:60]})") from error
    fits = found.ndim == len(shape) and all(b in (None, a) for a, b in zip(found.shape, shape, strict=True))
    if not fits or found.dtype.kind != "f":
        expected = ", ".join("s" if length is None else str(length) for length in shape)
        raise InputError(f"{path}: {found.dtype} of the shape {found.shape}, expected ({expected})")
    return found.astype(np.float64)


def write_pairs(
    folder: Path,
    pairs: Iterable[AssemblyPair],
    split: str,
    on_pair: Callable[[int], None] = lambda done: None,
) -> Path:
    """Write ``pairs/NUMBER/`` with source.npz, reference.npz and pose.txt for each, and a manifest of all.

    The manifest is written last: a folder that has one is complete. A folder that has files is refused.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: exists already and is not an empty folder; choose another name")
    rows = []
    for i, pair in enumerate(pairs):
        rows.append(json.dumps(_write_pair(folder, f"pairs/{i:06d}", pair, split)))
        on_pair(i + 1)
    manifest = folder / MANIFESTS[1]
    with whole_file(manifest, force=False) as temporary:
        temporary.write_text("".join(f"{row}\n" for row in rows), encoding="ascii")
    return manifest


def _write_pair(folder: Path, within: str, pair: AssemblyPair, split: str) -> dict[str, str]:
    """Write the files of a pair and return its row of the manifest."""
    if not pair.related:
        raise InputError(
            f"{pair.id}: its pieces do not belong together, expected a pair with a pose to write"
        )
    place = folder / within
    place.mkdir(parents=True)
    for name in ("source", "reference"):
        write(place / f"{name}.npz", replace(getattr(pair, name), name=name))
    np.savetxt(place / "pose.txt", pair.ref_from_src, fmt="%.17g")
    row = {"id": pair.id, "source": f"{within}/source.npz", "reference": f"{within}/reference.npz"}
    row |= {"pose": f"{within}/pose.txt", "split": split}
    for name in SYMMETRIES:
        if getattr(pair, name) is not None:
            np.save(place / f"{name}.npy", getattr(pair, name))
            row[name] = f"{within}/{name}.npy"
    return row | ({"unit": pair.unit} if pair.unit else {})
