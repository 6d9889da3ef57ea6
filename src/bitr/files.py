"""Files that appear whole or not at all, and files that one process has for itself."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bitr.errors import InputError, require


def write_text(target: Path, text: str, *, force: bool) -> None:
    """Write a text file, whole or not at all."""
    with whole_file(target, force=force) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def whole_file(target: Path, *, force: bool) -> Iterator[Path]:
    """Give a temporary file beside ``target``, renamed at the end; without ``force`` none is overwritten."""
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
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())  # after a power cut a name must not point to nothing
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def check_target(target: Path, *, force: bool) -> None:
    """Raise when a file cannot be written there, before any work is done for it."""
    folder = target.parent
    require(folder.is_dir(), f"{target}: the folder {folder} does not exist; make it first")
    require(not target.is_dir(), f"{target}: is a folder, expected the name of a file to write")
    is_free = force or not target.exists()
    require(is_free, f"{target}: exists already; choose another name, or overwrite it with --force")
    require(os.access(folder, os.W_OK), f"{target}: the folder {folder} cannot be written to")


def make_folder(path: Path) -> None:
    """Make a folder and those above it; one that cannot be made is bad input."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be made ({error.strerror}); choose another --output") from error


@contextmanager
def lock_file(path: Path, busy: str) -> Iterator[BinaryIO]:
    """Open a file for this process alone (where there are locks); ``busy`` tells others why not."""
    with open(path, "a+b") as file:
        require(_lock(file) is not False and _is_at(file, path), f"{path}: {busy}")
        yield file


@contextmanager
def only_one(path: Path, busy: str) -> Iterator[None]:
    """Keep a file that names this process; others are refused by a line that names it and says ``busy``."""
    with open(path, "a+b") as file:
        locked = _lock(file)
        file.seek(0)
        holder = file.read(200).decode("utf-8", "replace").strip()
        is_ours = locked is not False and _is_at(file, path) and (locked or not _may_live(holder))
        require(is_ours, f"{path.parent}: {holder or 'another process'} {busy}")
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _lock(file: BinaryIO) -> bool | None:
    """Lock an open file; False where another process has it, None where there are no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def _is_at(file: BinaryIO, path: Path) -> bool:
    """True unless the file was replaced or removed after it was opened."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _may_live(holder: str) -> bool:
    """False for no process, and for one of this machine that has ended."""
    _, _, rest = holder.partition("process ")
    number, _, host = rest.partition(" on ")
    if not number.isdigit() or host != socket.gethostname():
        return bool(holder)
    try:
        os.kill(int(number), 0)
    except OSError as error:  # another is somebody else's process
        return not isinstance(error, ProcessLookupError)
    return True
