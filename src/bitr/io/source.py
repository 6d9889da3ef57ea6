"""The bytes of a file that the user named, or one line that says why there are none."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from bitr.errors import InputError


@dataclass(frozen=True)
class Source:
    """A file as every reader gets it: where it lies, for messages, and all that is in it."""

    path: Path
    data: bytes

    @property
    def suffix(self) -> str:
        return self.path.suffix.lower()

    def error(self, problem: str) -> InputError:
        """The error to raise: one line, however many the problem was told in."""
        return InputError(f"{self.path}: {' '.join(problem.split())[:400]}")

    def broken(self, kind: str, error: BaseException) -> InputError:
        """The error for a file that a library gave up on."""
        reason = str(error) or type(error).__name__
        return self.error(f"damaged or not a {kind} file ({reason})")


def open_source(path: Path) -> Source:
    """The file's bytes; a missing, empty or unreadable file raises."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder, expected a file with points or a mesh")
    if not path.exists():
        raise InputError(f"{path}: no such file{_suggestion(path)}")
    if not path.is_file():  # reading a pipe or a device may never end
        raise InputError(f"{path}: is not a regular file, expected a file with points or a mesh")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if not data:
        raise InputError(f"{path}: is empty (0 bytes), expected points or a mesh")
    return Source(path, data)


def _suggestion(path: Path) -> str:
    try:
        near = difflib.get_close_matches(path.name, os.listdir(path.parent), n=1)
    except OSError:
        return f": the folder {path.parent} does not exist or cannot be read"
    return f"; did you mean {path.parent / near[0]}?" if near else ""
