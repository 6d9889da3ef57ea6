"""Lists of pairs in csv or jsonl files, and the user's own pairs in such manifests or in folders."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float64

from bitr.data.poses import AssemblyPair, Pairs, Pose, pose_of_numbers, read_text
from bitr.data.storage import SPLITS, check_split
from bitr.errors import InputError, counted, require
from bitr.files import whole_file
from bitr.io import SUFFIXES, read, write

SYMMETRIES = {"symmetry": (None, 4, 4), "axis": (2, 3)}
"""Fields of a pair in npy files, and the shapes of their arrays."""
NEEDED, OPTIONAL = ("source", "reference", "pose"), ("id", "split", *SYMMETRIES, "unit")
MANIFESTS = ("pairs.csv", "pairs.jsonl")

T = TypeVar("T")
Found = tuple[int, dict[str, Any], str]  # a line, its values, and its problem, if it has one


@dataclass(frozen=True)
class Row:
    """The values of a row by their keys, without the empty cells of a csv file."""

    path: Path
    number: int  # from 1, blank lines not counted
    line: int
    values: dict[str, Any]
    problem: str  # why the row cannot be used; empty where it can

    @property
    def at(self) -> str:
        return f"{self.path}, line {self.line}"

    def name(self, key: str, otherwise: str | None = None) -> str:
        """The name of a file or pair under a key; anything else raises."""
        value = self.values.get(key, otherwise)
        value = str(value) if type(value) is int and key == "id" else value
        try:
            is_name = isinstance(value, str) and b"\0" not in os.fsencode(value) and value != ""
        except UnicodeEncodeError:  # half of a surrogate pair
            is_name = False
        if not is_name or not isinstance(value, str):
            found = f"found {key} = {value!r:.60}" if value not in (None, "") else f"{key} is empty"
            raise InputError(f"{self.at}: {found}, expected the name of a file or pair")
        return value

    def file(self, key: str) -> Path:
        """The file named under a key, as an absolute path; names are relative to the manifest."""
        return self.path.absolute().parent / self.name(key)


def read_rows(
    path: Path, needed: Sequence[str], optional: Sequence[str] | None, *, strict: bool = True
) -> tuple[Row, ...]:
    """Read a manifest with the needed keys and optional ones (None: any); if ``strict``, bad rows raise."""

    def wrong_keys(found: list[str]) -> str:
        known = found if optional is None else (*needed, *optional)
        if set(needed) <= set(found) <= set(known) and len(set(found)) == len(found):
            return ""
        more = f" and, if wanted, {', '.join(optional)}" if optional else ""
        return f"found {', '.join(found)[:80]}; expected {', '.join(needed)}{more}"

    read_lines = {".csv": _read_csv, ".jsonl": _read_jsonl}.get(path.suffix.lower())
    if read_lines is None:
        raise InputError(f"{path}: found a {path.suffix or 'name without a suffix'}, expected .csv or .jsonl")
    try:
        # Names of files are bytes; those that are no UTF-8 pass through unharmed.
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            found = list(read_lines(path, file, wrong_keys))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}), expected a list of pairs") from error
    require(found, f"{path}: holds no pairs, expected rows with {' and '.join(needed)}")
    for line, _, wrong in found:
        require(not (strict and wrong), f"{path}, line {line}: {wrong}")
    return tuple(Row(path, number, *each) for number, each in enumerate(found, 1))


def _read_csv(path: Path, file: Iterable[str], wrong_keys: Callable[[list[str]], str]) -> Iterator[Found]:
    reader = csv.reader(file, strict=True)
    header: list[str] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip() for cell in cells]
                wrong = wrong_keys(header)
                require(not wrong, f"{path}, line {reader.line_num}: {wrong}")
                continue
            found = f"found {counted(len(cells), 'cell')}, expected {len(header)}"
            values = {key: cell for key, cell in zip(header, cells, strict=False) if cell}
            yield reader.line_num, values, "" if len(cells) == len(header) else found
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not a row of a csv file ({error})") from error


def _read_jsonl(path: Path, file: Iterable[str], wrong_keys: Callable[[list[str]], str]) -> Iterator[Found]:
    for line, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            yield line, {}, f"not a JSON object ({error})"
            continue
        if isinstance(row, dict):
            yield line, row, wrong_keys(list(row))
        else:
            yield line, {}, f"found {text.strip()[:40]}, expected a JSON object"


def distinct(found: Iterable[tuple[str, str, T]]) -> tuple[T, ...]:
    """The items of (place, id, item); an id that comes twice raises an error that names its place."""
    by_id: dict[str, T] = {}
    for at, name, item in found:
        require(name not in by_id, f"{at}: the id {name} is taken already, expected each only once")
        by_id[name] = item
    return tuple(by_id.values())


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
        symmetry, axis = (
            None if file is None else _read_array(file, shape)
            for file, shape in zip((self.symmetry, self.axis), SYMMETRIES.values(), strict=True)
        )
        return AssemblyPair(source, reference, self.ref_from_src, self.id, symmetry, self.unit, axis)

    def fingerprint(self) -> str:
        """Hash the pose and both files: the same wherever the files lie and whatever the id is."""
        digest = hashlib.sha256(self.ref_from_src.tobytes())
        for path in (self.source, self.reference):
            try:
                digest.update(str(path.stat().st_size).encode())
                with open(path, "rb") as file:
                    digest.update(file.read(1 << 16))
            except OSError as error:
                raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        return digest.hexdigest()[:32]


def own_pairs(path: Path, split: str = "test", keep: Callable[[OwnPair], bool] | None = None) -> Pairs:
    """Open the pairs of a split that ``keep`` accepts; pairs that name no split are for the test."""
    pairs = listed_pairs(path)
    check_split(str(path), split)
    chosen = [pair for pair in pairs if (pair.split or "test") == split]
    fix = "train/, val/ and test/ folders" if path.is_dir() else "a column split with train, val and test"
    require(chosen, f"{path}: none of its {len(pairs)} pairs is for {split}; say which are, with {fix}")
    kept = chosen if keep is None else [pair for pair in chosen if keep(pair)]
    return Pairs(str(path), split, 0, partial(_load, kept), range(len(kept)))


def _load(pairs: list[OwnPair], i: int, rng: np.random.Generator) -> AssemblyPair:
    return pairs[i].load()


def listed_pairs(path: Path) -> tuple[OwnPair, ...]:
    """List all pairs, with every row and pose checked; missing files raise, the others are read later."""
    manifest = next((path / name for name in MANIFESTS if (path / name).is_file()), None)
    if manifest is not None or not path.is_dir():
        rows = read_rows(manifest or path, NEEDED, OPTIONAL)
        return distinct((row.at, pair.id, pair) for row in rows for pair in [_pair_of_row(row)])
    patterns = ((None, "*"), (None, "pairs/*"), *((split, f"{split}/*") for split in SPLITS))
    folders = [(inner, split) for split, pattern in patterns for inner in sorted(path.glob(pattern))]
    found = [_pair_of_folder(*each) for each in folders if (each[0] / "pose.txt").is_file()]
    expected = "expected pairs.csv, pairs.jsonl, or folders with source.*, reference.* and pose.txt"
    require(found, f"{path}: holds no pairs, {expected}")
    return distinct((str(pair.source.parent), pair.id, pair) for pair in found)


def _pair_of_row(row: Row) -> OwnPair:
    split, unit = row.values.get("split"), row.values.get("unit", "")
    known = split in (None, *SPLITS)
    require(known, f"{row.at}: found split = {split!r:.40}, expected one of {', '.join(SPLITS)}")
    require(isinstance(unit, str), f"{row.at}: found unit = {unit!r:.40}, expected its name, as m")
    source, reference = row.file("source"), row.file("reference")
    symmetries = {name: row.file(name) for name in SYMMETRIES if row.values.get(name) is not None}
    for file in (source, reference, *symmetries.values()):
        require(file.is_file(), f"{row.at}: {file}: no such file")
    id = row.name("id", str(row.number))
    return OwnPair(id, source, reference, _pose_of_row(row), split, unit, **symmetries)


def _pose_of_row(row: Row) -> Pose:
    """The pose in the row itself, 16 numbers or nested lists, or in the file that it names."""
    value = row.values.get("pose")
    if isinstance(value, list):
        value = " ".join(str(x) for part in value for x in (part if isinstance(part, list) else [part]))
    elif not isinstance(value, str) or len(value.replace(",", " ").split()) not in (12, 16):
        path = row.file("pose")
        text = read_text(path, "a 4×4 pose or 16 numbers", f"{row.at}: ")
        return pose_of_numbers(text, f"{row.at}: {path}")
    return pose_of_numbers(value, row.at)


def _pair_of_folder(folder: Path, split: str | None) -> OwnPair:
    """The pair of source.*, reference.* and pose.txt."""
    files = []
    for name in ("source", "reference"):
        found = sorted(p for p in folder.glob(f"{name}.*") if p.suffix.lower() in SUFFIXES.read)
        have = ", ".join(p.name for p in found) or "none"
        expected = f"expected one file {name}.* of {' '.join(SUFFIXES.read)}"
        require(len(found) == 1, f"{folder}: found {have}, {expected}")
        files += found
    pose = folder / "pose.txt"
    ref_from_src = pose_of_numbers(read_text(pose, "a 4×4 pose"), str(pose))
    id = folder.name if split is None else f"{split}/{folder.name}"
    known = {name: file for name in SYMMETRIES if (file := folder / f"{name}.npy").is_file()}
    return OwnPair(id, files[0], files[1], ref_from_src, split, "", **known)


def _read_array(path: Path, shape: tuple[int | None, ...]) -> Float64[np.ndarray, "*shape"]:
    """The numbers of an npy file of this shape; None stands for any length."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: damaged or not an npy file ({str(error)[:60]})") from error
    fits = found.ndim == len(shape) and all(b in (None, a) for a, b in zip(found.shape, shape, strict=True))
    expected = ", ".join("s" if length is None else str(length) for length in shape)
    problem = f"{path}: {found.dtype} of the shape {found.shape}, expected ({expected})"
    require(fits and found.dtype.kind == "f", problem)
    return found.astype(np.float64)


def write_pairs(
    folder: Path,
    pairs: Iterable[AssemblyPair],
    split: str,
    on_pair: Callable[[int], None] = lambda done: None,
) -> Path:
    """Write each pair to a folder ``pairs/NUMBER/`` and, last, a manifest of all, into a new folder."""
    is_new = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    require(is_new, f"{folder}: exists already and is not an empty folder; choose another name")
    rows = []
    for i, pair in enumerate(pairs):
        found = f"{pair.id}: its pieces do not belong together"
        require(pair.related, f"{found}, expected a pair with a pose to write")
        within = f"pairs/{i:06d}"
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
        rows.append(json.dumps(row | ({"unit": pair.unit} if pair.unit else {})) + "\n")
        on_pair(i + 1)
    manifest = folder / MANIFESTS[1]
    with whole_file(manifest, force=False) as temporary:
        temporary.write_text("".join(rows), encoding="ascii")
    return manifest
