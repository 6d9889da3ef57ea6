"""The guard around all readers: which files are opened, which claims believed, which geometry accepted.

A reader gets a `Source`, compares every count in the file with the bytes or lines that there are before it
allocates anything, and may raise anything: `one_line_errors` turns it into one line that names the file.
"""

from __future__ import annotations

import difflib
import os
import stat
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from jaxtyping import Float64

from bitr.errors import InputError, counted, require
from bitr.io.geometry import Geometry, area_vectors

LIKE = 0.75  # names of files that are less alike, from 0 to 1 and without suffixes, are not suggested
MIN_POINTS = 4  # fewer do not determine a pose: three points have a mirror symmetry
LARGEST, SMALLEST = 1e100, 1e-100  # between these, squares of lengths neither overflow nor vanish


@dataclass(frozen=True)
class Lines:
    """Lines of a text file that hold something, with their numbers counted from 1."""

    rows: Sequence[bytes]
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, stop: int | None = None) -> Lines:
        return Lines(self.rows[start:stop], self.numbers[start:stop])


@dataclass(frozen=True)
class Source:
    """A file as every reader gets it: its path, for messages, and its bytes."""

    path: Path
    data: bytes

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def suffix(self) -> str:
        return self.path.suffix.lower()

    def error(self, problem: str) -> InputError:
        """The error to raise, on one line."""
        return InputError(f"{self.path}: {' '.join(problem.split())[:400]}")

    def require(self, is_right: object, problem: str) -> None:
        """Raise the error unless a condition holds."""
        if not is_right:
            raise self.error(problem)

    def claim(self, count: int, things: str, found: int, each: int | None = None) -> None:
        """Raise unless ``count`` things of ``each`` bytes (None: one line) fit into what was found."""
        size, unit = ("", "lines") if each is None else (f" of {each} bytes", "bytes")
        fits = 0 <= count * (1 if each is None else each) <= found
        self.require(fits, f"truncated: the file claims {count} {things}{size}, found {found} {unit}")

    def lines(self, start: int = 0) -> Lines:
        """The lines from a byte on, without blank lines and comments."""
        rows = self.data[start:].splitlines()
        first = 1 + len(self.data[:start].splitlines())
        kept = [i for i, row in enumerate(rows) if (text := row.lstrip()) and not text.startswith(b"#")]
        if len(kept) == len(rows):
            return Lines(rows, range(first, first + len(rows)))
        return Lines([rows[i] for i in kept], [first + i for i in kept])

    def numbers(self, lines: Lines, delimiter: str | None = None) -> Float64[np.ndarray, "n c"]:
        """The numbers of all lines, which must have the same number of columns."""
        if not len(lines):
            return np.zeros((0, 0))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about lines without numbers
                rows = list(lines.rows)
                table = np.loadtxt(rows, delimiter=delimiter, comments="#", ndmin=2, encoding="latin-1")
        except (ValueError, OverflowError):
            self._raise_mistake(lines, delimiter)
            raise
        if len(table) != len(lines):  # loadtxt skips lines without numbers
            self._raise_mistake(lines, delimiter)
        return table

    def _raise_mistake(self, lines: Lines, delimiter: str | None) -> None:
        """Raise for the first line that is not a row of numbers."""
        columns = None
        for row, number in zip(lines.rows, lines.numbers, strict=True):
            tokens = row.split(b"#")[0].decode("latin-1").split(delimiter)
            wrong = next((token for token in tokens or [""] if not is_number(token)), None)
            if wrong is not None:
                raise self.error(f"line {number}: found {wrong.strip()[:40]!r}, expected a number")
            columns = columns or len(tokens)
            found = f"line {number}: found {counted(len(tokens), 'column')}"
            self.require(len(tokens) == columns, f"{found}, expected {columns} as in the lines before")

    def find_beside(self, uri: str) -> Path:
        """Another file, which must lie in the same folder or below it."""
        folder = self.path.parent.resolve()
        path = (folder / unquote(uri)).resolve()
        is_inside = "://" not in uri and path.is_relative_to(folder)
        self.require(is_inside, f"the buffer {uri[:80]!r} lies outside the file's folder: refused")
        self.require(path.is_file(), f"the buffer {uri[:80]!r} is missing, expected it beside the file")
        return path


def is_number(token: str) -> bool:
    """Python also reads 1_000, which no file means."""
    try:
        float(token)
    except ValueError:
        return False
    return "_" not in token


def open_source(path: Path, suffixes: Collection[str]) -> Source:
    """The bytes of a regular file; for a missing one the error suggests a name that is there."""
    try:
        return Source(path, read_bytes(path))
    except InputError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{path}: no such file{_suggest(path, suffixes)}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (MemoryError, ValueError) as error:  # ValueError: a name with a zero byte
        raise InputError(f"{path}: cannot be read ({error or 'does not fit into memory'})") from error


def read_bytes(path: Path) -> bytes:
    """The content of a regular file that fits into memory."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device may never end
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise InputError(f"{path}: is {what}, expected a file with points or a mesh")
    if not status.st_size:
        raise InputError(f"{path}: is empty (0 bytes), expected points or a mesh")
    if status.st_size > _memory():
        raise InputError(f"{path}: {status.st_size} bytes do not fit into memory")
    return path.read_bytes()


def _memory() -> int:
    """Bytes of memory of this machine, where the system tells."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 50


def _suggest(path: Path, suffixes: Collection[str]) -> str:
    try:
        names = [name for name in os.listdir(path.parent) if Path(name).suffix.lower() in suffixes]
    except OSError:
        return f": the folder {path.parent} does not exist or cannot be read"
    names.sort(key=lambda name: Path(name).suffix == path.suffix)  # the last of equal stems is kept
    stems = {Path(name).stem: name for name in names}
    near = difflib.get_close_matches(path.stem, stems, n=1, cutoff=LIKE)
    return f"; did you mean {path.parent / stems[near[0]]}?" if near else ""


@contextmanager
def one_line_errors(source: Source, kind: str) -> Iterator[None]:
    """Turn every error of a reader into an InputError of one line."""
    try:
        # numbers out of range become NaN or infinite, and are counted as such by `check`
        with np.errstate(all="ignore"):
            yield
    except InputError:
        raise
    except MemoryError as error:
        raise source.error(f"does not fit into memory ({len(source.data)} bytes)") from error
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # a panic of lazrs is no Exception
        reason = str(error) or type(error).__name__
        raise source.error(f"damaged or not a {kind} file ({reason})") from error


def check(geometry: Geometry) -> Geometry:
    """The geometry without its NaN and infinite rows, told in a warning; raises if no shape is left."""
    name = geometry.name
    if geometry.faces is not None and len(geometry.faces):
        low, high, n = int(geometry.faces.min()), int(geometry.faces.max()), len(geometry.points)
        used = f"{name}: a face uses vertex {low if low < 0 else high} (counted from 0)"
        require(low >= 0 and high < n, f"{used}, expected 0 to {n - 1}: there are {n} vertices")
    geometry = _drop_missing(geometry)
    points, faces = geometry.points, geometry.faces
    found = f"{name}: only {counted(len(points), 'point')} with finite coordinates"
    require(faces is not None or len(points) >= MIN_POINTS, f"{found}, expected {MIN_POINTS} or more")
    largest = float(np.abs(points).max(initial=0.0))
    require(largest <= LARGEST, f"{name}: coordinates up to {largest:.3g}, expected less than {LARGEST:g}")
    lost = f"{name}: no face has three finite corners, expected a mesh with faces"
    require(faces is None or len(faces), lost)
    found = f"{name}: zero extent, all {len(points)} points are equal"
    require(np.ptp(points, axis=0).max() >= SMALLEST, f"{found}; expected points of a shape")
    if faces is not None:
        flat = f"{name}: the mesh has no area, all {len(faces)} faces are degenerate"
        require(area_vectors(points, faces).any(), flat)
    return geometry


def _drop_missing(geometry: Geometry) -> Geometry:
    """The finite rows; where most normals or colours are missing, those go and the points stay."""
    has_place = keep = np.isfinite(geometry.points).all(axis=1)
    for key, word in (("normals", "normals"), ("colors", "colours")):
        rows = getattr(geometry, key)
        known = has_place if rows is None else np.isfinite(rows).all(axis=1)
        if 2 * int((known & has_place).sum()) < int(has_place.sum()):
            without: dict[str, Any] = {key: None}
            geometry = replace(geometry, **without).warn(f"most {word} are NaN or infinite: ignored")
        else:
            keep = keep & known
    if keep.all():
        return geometry
    faces = geometry.faces
    if faces is not None:  # those among the kept rows, renumbered
        faces = (np.cumsum(keep) - 1)[faces[keep[faces].all(axis=1)]]
    dropped = f"{len(keep) - int(keep.sum())} of {len(keep)} rows are NaN or infinite: dropped"
    return replace(geometry.rows(keep), faces=faces).warn(dropped)
