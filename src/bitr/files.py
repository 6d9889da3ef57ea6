"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bitr.errors import InputError


@contextmanager
def whole_file(target: Path, *, force: bool) -> Iterator[Path]:
    """Give a temporary file beside ``target``, which is renamed at the end, or removed after an error.

    Without ``force`` an existing target is refused, before anything is done and again at the end.
    """
    check_target(target, force=force)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem[:100]}-", suffix=target.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)  # can only be read by setting it
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        check_target(target, force=force)
        _flush(temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Wait until the content is on the disk: after a power cut a name must not point to nothing."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_target(target: Path, *, force: bool) -> None:
    """Raise when a file cannot be written there, before any work is done for it."""
    if not target.parent.is_dir():
        raise InputError(f"{target}: the folder {target.parent} does not exist; make it first")
    if target.is_dir():
        raise InputError(f"{target}: is a folder, expected the name of a file to write")
    if target.exists() and not force:
        raise InputError(f"{target}: exists already; choose another name, or overwrite it with --force")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"{target}: the folder {target.parent} cannot be written to")
