"""Data on disk: the folder of data sets, frozen splits, npz files, and cached results."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile
from safetensors.numpy import load, save

from bitr.errors import InputError, require
from bitr.files import whole_file

VARIABLE = "BITR_DATA"
SPLITS = ("train", "val", "test")
DAMAGED = (OSError, ValueError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile)
"""Exceptions of numpy for a damaged npz file."""

Arrays = dict[str, np.ndarray]
log = logging.getLogger("bitr")


def data_root(root: str | os.PathLike[str] | None) -> Path | None:
    """Find the folder of data sets: ``root`` if given, else the one that the variable BITR_DATA names."""
    named = root if root is not None else os.environ.get(VARIABLE) or None
    return None if named is None else Path(named)


def find_below(root: Path | None, *patterns: str) -> list[Path]:
    """List the files below the root that match, in the order of the patterns."""
    return [path for pattern in patterns if root is not None for path in sorted(root.glob(pattern))]


def check_split(name: str, split: str, known: Sequence[str] = SPLITS) -> None:
    """Raise unless a data set has the split."""
    require(split in known, f"{name}: no split {split!r}, expected one of {', '.join(known)}")


@cache
def frozen_splits(name: str) -> dict[str, str]:
    """The split of every id that ``splits/NAME.json`` lists; these files never change."""
    content = json.loads(files("bitr.data").joinpath("splits", f"{name}.json").read_text(encoding="utf-8"))
    return {id: split for split in SPLITS for id in content[split]}


def split_of(name: str, id: str) -> str:
    """The split of an id: as listed, or else by its hash."""
    return frozen_splits(name).get(id) or split_by_hash(id)


def split_by_hash(id: str) -> str:
    """80% train, 10% validation, 10% test. An id keeps its split when others come or go."""
    share = int.from_bytes(hashlib.sha256(id.encode()).digest()[:4], "big") / 2**32
    return "train" if share < 0.8 else "val" if share < 0.9 else "test"


@contextmanager
def open_npz(path: Path, *needed: str) -> Iterator[NpzFile]:
    """Open the arrays of a file, never a pickle; raise if it is damaged or lacks a needed array."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            missing = ", ".join(key for key in needed if key not in arrays)
            require(not missing, f"{path}: holds no {missing}; expected {', '.join(needed)}")
            yield arrays
    except InputError:
        raise
    except DAMAGED as error:
        raise InputError(f"{path}: damaged or not an npz file ({str(error)[:100]})") from error


def cache_home() -> Path:
    """The folder of this package among the user's cached files."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bitr"


def recipe_key(recipe: str, package: str, made_with: str) -> str:
    """Name the folder for results of a recipe: another version of the package may give other results."""
    try:
        installed = version(package)
    except PackageNotFoundError:  # stored results can still be read
        installed = made_with
    return recipe if installed == made_with else f"{recipe}-{package}-{installed}"


def load_or_make(path: Path, make: Callable[[], Arrays], *, is_needed: bool = True) -> Arrays:
    """Read the arrays of a file, or make and store them; if that fails, raise, or warn if not needed."""
    try:
        content = path.read_bytes()
    except OSError:
        content = b""
    if content and content[:4] == _checksum(content[4:]):  # the rest is in the safetensors format
        return load(content[4:])
    made = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, force=True) as temporary:
            content = save(made)
            temporary.write_bytes(_checksum(content) + content)
    except (OSError, InputError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"{path}: cannot be stored ({reason}); make room, or set XDG_CACHE_HOME to another folder"
        if is_needed:
            raise InputError(message) from error
        log.warning("%s", message)
    return made


def _checksum(content: bytes) -> bytes:
    """CRC-32 with start value 1: with 0, the few zero bytes that a crash may leave would pass."""
    return zlib.crc32(content, 1).to_bytes(4, "little")
