"""Files that appear whole or not at all, and files that one process has for itself."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bitr.errors import InputError


def write_text(target: Path, text: str, *, force: bool) -> None:
    """Write a text file, whole or not at all."""
    with whole_file(target, force=force) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


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


@contextmanager
def lock_file(path: Path, busy: str) -> Iterator[BinaryIO]:
    """Open a file to read and append, for this process alone; ``busy`` says why another is refused.

    The system releases a lock when its process ends, however it ends. Where there are no locks, nobody is
    refused.
    """
    with open(path, "a+b") as file:
        if _lock(file) is False or not _is_at(file, path):
            raise InputError(f"{path}: {busy}")
        yield file


@contextmanager
def only_one(path: Path, busy: str) -> Iterator[None]:
    """Keep a file that names this process while something is done that only one may do at a time.

    Another process is refused by a line that names the folder and the process, and then says ``busy``. A file
    that was left behind by a process that was killed is nobody's: the system has released its lock. Where
    there are no locks, the process that the file names decides; of one on another machine nothing is known.
    """
    with open(path, "a+b") as file:
        locked = _lock(file)
        file.seek(0)
        holder = file.read(200).decode("utf-8", "replace").strip()
        if locked is False or not _is_at(file, path) or (locked is None and _may_live(holder)):
            raise InputError(f"{path.parent}: {holder or 'another process'} {busy}")
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
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True
