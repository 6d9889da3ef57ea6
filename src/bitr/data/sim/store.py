"""What simulation found, stored: making a scene takes seconds, reading it a moment."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from bitr.errors import InputError
from bitr.files import whole_file

DAMAGED = (zipfile.BadZipFile, ValueError, KeyError, EOFError, NotImplementedError)
"""What reading a damaged npz file raises."""

Arrays = dict[str, np.ndarray]


def stored(folder: str, name: str, make: Callable[[], Arrays]) -> Arrays:
    """The arrays of this name; what is not there, or is damaged, is made and stored.

    A file appears whole or not at all, and its content follows from its name: processes may share the folder.
    """
    path = store_folder() / _makers() / folder / f"{name.replace('/', '-')}.npz"
    found = _read(path)
    if found is None:
        found = make()
        _write(path, found)
    return found


def store_folder() -> Path:
    """Among the user's cached files."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bitr" / "sim"


@cache
def _makers() -> str:
    """A hash of what decides how a key becomes a scene: the code, and PyBullet's version."""
    try:
        text = version("pybullet").encode()
    except PackageNotFoundError:
        text = b""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        text += path.name.encode() + path.read_bytes()
    return hashlib.sha256(text).hexdigest()[:12]


def _read(path: Path) -> Arrays | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (FileNotFoundError, *DAMAGED):
        return None


def _write(path: Path, arrays: Arrays) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, force=True) as temporary:
            np.savez(temporary, **arrays)  # type: ignore[arg-type]  # the stubs take any name for allow_pickle
    except OSError as error:
        raise InputError(
            f"{path}: a simulated scene cannot be stored ({error.strerror}); make room, or set "
            "XDG_CACHE_HOME to a folder that can be written to"
        ) from error
