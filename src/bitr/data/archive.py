"""Archives from elsewhere, unpacked so that nothing can land outside the folder or fill the disk."""

from __future__ import annotations

import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from bitr.errors import InputError

CHUNK = 1 << 20
DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
)
"""What zipfile, tarfile and their decompressors raise for damaged, encrypted or unknown content."""


@dataclass(frozen=True)
class Limits:
    """More files, or more bytes when unpacked, than these are refused."""

    files: int = 500_000
    size: int = 100 << 30


@dataclass(frozen=True)
class _Member:
    name: str
    folder: bool
    plain: bool
    """Neither a link nor a device."""
    size: int
    open: Callable[[], IO[bytes] | None]


def unpack(archive: Path, folder: Path, limits: Limits = Limits()) -> list[Path]:  # noqa: B008 (frozen)
    """The files of a zip or tar archive, now in the folder; all of them or, after an error, none.

    Absolute names, names with "..", links, devices, and more than the limits allow raise before anything is
    moved into place; sizes are counted as they come, since an archive may lie about them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    limits = Limits(limits.files, min(limits.size, shutil.disk_usage(folder).free))
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as place:
        try:
            with _members(archive) as members:
                names = _unpacked(archive, members, Path(place), limits)
        except DAMAGED as error:
            raise InputError(f"{archive}: damaged or not a zip or tar archive ({str(error)[:80]})") from error
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(Path(place) / name, folder / name)
    return [folder / name for name in names]


def _unpacked(archive: Path, members: Iterator[_Member], place: Path, limits: Limits) -> list[PurePosixPath]:
    names: list[PurePosixPath] = []
    left = limits.size
    for count, member in enumerate(members, 1):
        name = _safe_name(archive, member)
        if count > limits.files:
            raise InputError(f"{archive}: holds more than {limits.files} files, expected at most that many")
        if member.folder:
            continue
        if member.size > left:
            raise InputError(
                f"{archive}: unpacks to more than {limits.size} bytes, which is the most allowed here"
            )
        target = place / name
        if target.exists():
            raise InputError(f"{archive}: holds {str(name)[:60]!r} twice, expected each file once")
        target.parent.mkdir(parents=True, exist_ok=True)
        left -= _copied(archive, member, target, left, limits)
        names.append(name)
    if not names:
        raise InputError(f"{archive}: holds no files")
    return names


def _copied(archive: Path, member: _Member, target: Path, left: int, limits: Limits) -> int:
    """How many bytes the member really had."""
    written = 0
    content = member.open()
    assert content is not None  # only folders, links and devices have none
    with content, open(target, "wb") as file:
        while chunk := content.read(CHUNK):
            written += len(chunk)
            if written > left:
                raise InputError(
                    f"{archive}: unpacks to more than {limits.size} bytes, which is the most allowed here"
                )
            file.write(chunk)
    return written


def _safe_name(archive: Path, member: _Member) -> PurePosixPath:
    shown = member.name[:60]
    if not member.plain:
        raise InputError(f"{archive}: {shown!r} is a link or a device, expected files and folders only")
    name = PurePosixPath(member.name.replace("\\", "/"))
    drive = len(member.name) > 1 and member.name[1] == ":"
    if name.is_absolute() or drive or ".." in name.parts or "\0" in member.name:
        raise InputError(f"{archive}: {shown!r} would land outside the folder, expected names below it")
    if not name.parts and not member.folder:
        raise InputError(f"{archive}: holds a file without a name")
    return name


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[_Member]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            yield (_of_zip(opened, member) for member in opened.infolist())
    else:
        with tarfile.open(archive, "r:*") as packed:
            yield (_of_tar(packed, member) for member in packed)


def _of_zip(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Member:
    kind = stat.S_IFMT(member.external_attr >> 16)
    plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)
    return _Member(member.filename, member.is_dir(), plain, member.file_size, lambda: archive.open(member))


def _of_tar(archive: tarfile.TarFile, member: tarfile.TarInfo) -> _Member:
    plain = member.isreg() or member.isdir()
    return _Member(member.name, member.isdir(), plain, member.size, lambda: archive.extractfile(member))
