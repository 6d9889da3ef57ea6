"""Broken solids, made once and stored: breaking one takes a hundred times as long as sampling it."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

from bitr.data.generated.fracture import Fracture, broken
from bitr.data.generated.solids import random_solid
from bitr.data.generated.solids.kernel import Solid
from bitr.errors import InputError
from bitr.files import whole_file

FIRST = {"train": 0, "val": 10**9, "test": 2 * 10**9}
"""The seed of each split's first solid: the ranges have no seed in common."""
CHECK = 4
"""Bytes of the checksum that a file begins with; what follows is in the format of safetensors."""


def broken_solid(seed: int, pieces: tuple[int, int], attempt: int = 0) -> Fracture:
    """A random solid, broken at random."""
    rng = np.random.default_rng([seed, attempt])
    _, whole = random_solid(rng)
    found = broken_at_random(whole, pieces, rng)
    # one in hundreds cannot be broken into enough pieces, and is passed over
    return found if len(found.pieces) >= pieces[0] else broken_solid(seed, pieces, attempt + 1)


def broken_at_random(whole: Solid, pieces: tuple[int, int], rng: np.random.Generator) -> Fracture:
    """The solid in a random number of pieces, few more often than many; fewer where it cannot be broken."""
    counts = np.arange(pieces[0], pieces[1] + 1)
    chance = 1 / (counts - 1)
    return broken(whole, int(rng.choice(counts, p=chance / chance.sum())), rng)


@dataclass(frozen=True)
class ShapeCache:
    """A folder of broken solids by their seeds; what is not there, or is damaged, is made and stored.

    A file appears whole or not at all, and its content follows from its name: processes may share the folder.
    """

    folder: Path
    pieces: tuple[int, int]

    def get(self, seed: int) -> Fracture:
        """The broken solid of a seed."""
        return stored(self.path(seed), lambda: broken_solid(seed, self.pieces))

    def path(self, seed: int) -> Path:
        """Where it is stored: in a folder for what it was made by and with."""
        return self.folder / f"{makers()}-{self.pieces[0]}-{self.pieces[1]}" / f"{seed}.shape"


def stored(path: Path, make: Callable[[], Fracture]) -> Fracture:
    """The fracture of a file; what is not there, or is damaged, is made and stored."""
    found = _read(path)
    if found is None:
        found = make()
        _write(path, found)
    return found


def cache_folder(root: Path | None) -> Path:
    """The folder ``generated`` below the root if there is one, else one among the user's cached files."""
    if root is not None and (root / "generated").is_dir():
        return root / "generated"
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "bitr" / "shapes"


@cache
def makers() -> str:
    """A hash of what decides how a seed becomes a broken solid: the code, and manifold3d's version."""
    here = Path(__file__)
    files = [here, *sorted(here.parent.glob("solids/*.py")), *sorted(here.parent.glob("fracture/*.py"))]
    try:
        text = version("manifold3d").encode()
    except PackageNotFoundError:
        text = b""
    for path in files:
        text += path.name.encode() + path.read_bytes()
    return hashlib.sha256(text).hexdigest()[:12]


def _read(path: Path) -> Fracture | None:
    """The stored fracture; None where there is none, or only a damaged one."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    check, arrays = content[:CHECK], content[CHECK:]
    return Fracture(**load(arrays)) if check == _check(arrays) else None


def _write(path: Path, made: Fracture) -> None:
    arrays = save(asdict(made))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, force=True) as temporary:
            temporary.write_bytes(_check(arrays) + arrays)
    except OSError as error:
        raise InputError(
            f"{path}: a generated shape cannot be stored ({error.strerror}); make room, or set "
            "XDG_CACHE_HOME to a folder that can be written to"
        ) from error


def _check(content: bytes) -> bytes:
    """Not that of zlib alone: to a few zero bytes, which a crash may leave, that would give zeros."""
    return zlib.crc32(content, 1).to_bytes(CHECK, "little")
