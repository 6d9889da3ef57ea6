"""Getting a data set: whether it is there, where it comes from, download, check, unpack.

Imports nothing heavy: a list of data sets, and an archive that is refused, take no time.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlparse

from bitr.errors import InputError
from bitr.settings import read_toml

TABLE: dict[str, dict[str, Any]] = read_toml(Path(__file__).with_name("datasets.toml"))
"""Names, titles, origins and terms of the data sets, in the order of the list."""
CHUNK = 1 << 18
SECONDS = 30.0
"""A download counts as interrupted after this long without a byte."""
ZIP_END = (1 << 16) + 200
"""Bytes at the end of a zip archive that hold the number of its members, behind which is a comment."""
LONGEST_ENTRY = 1 << 10
"""Bytes of an entry in the list of a zip archive, at most: more would be no honest list."""
DAMAGED = zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, RuntimeError, OSError
"""Exceptions of zipfile, tarfile and their decompressors for damaged, encrypted or unknown content."""

OnBytes = Callable[[int, int | None], None]
"""Called with the number of bytes so far, and the total if it is known."""


@dataclass(frozen=True)
class Archive:
    """A file to download, and its SHA-256."""

    url: str
    sha256: str


@dataclass(frozen=True)
class Source:
    """Origin of a data set."""

    folders: tuple[str, ...]
    """Places of its files below the root."""
    into: str
    """Folder below the root that its archives are unpacked into."""
    page: str
    how: str
    """Instructions for that page."""
    archives: tuple[Archive, ...] = ()


def _source(entry: dict[str, Any]) -> Source:
    archives = tuple(Archive(**archive) for archive in entry.get("archives", ()))
    return Source(tuple(entry["folders"]), entry["into"], entry["page"], entry["how"], archives)


SOURCES = {name: _source(entry["fetch"]) for name, entry in TABLE.items() if "fetch" in entry}
"""Data sets that are not generated here."""


def is_here(name: str, root: Path | None) -> bool:
    """Tell from the names of files if a data set is below the root; generated data always is."""
    groups = TABLE[name].get("here", [])
    return all(
        root is not None and any(next(root.glob(pattern), None) is not None for pattern in patterns)
        for patterns in groups
    )


def size_on_disk(name: str, root: Path | None) -> int:
    """Bytes of a data set's files below the root."""
    if root is None or name not in SOURCES:
        return 0
    places = [root / folder for folder in SOURCES[name].folders]
    files = [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]
    return sum(path.stat().st_size for path in files)


def fetch(
    name: str,
    root: Path,
    url: str | None = None,
    sha256: str | None = None,
    on_bytes: OnBytes = lambda done, total: None,
) -> list[Path]:
    """Download a data set, check it, and unpack it below the root; return its files.

    ``url`` is another address, or a local file. The archive must have the SHA-256 that is known or given. An
    interrupted download continues.
    """
    if name not in SOURCES:
        raise InputError(f"{name}: is no data set to download, expected one of {', '.join(SOURCES)}")
    into = root / SOURCES[name].into
    if url is not None and Path(url).is_file():
        if sha256 is not None and (found := _sha256(Path(url))) != sha256.lower():
            raise InputError(f"{url}: its SHA-256 is {found}, expected {sha256.lower()}")
        return unpack(Path(url), into)
    files: list[Path] = []
    for archive in _archives(name, url, sha256):
        file = download(archive, root / ".downloads", on_bytes)
        try:
            files += unpack(file, into)
        finally:
            file.unlink()
    return files


def _archives(name: str, url: str | None, sha256: str | None) -> tuple[Archive, ...]:
    source = SOURCES[name]
    if sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise InputError(f"{name}: --sha256 {sha256[:70]!r}, expected 64 hexadecimal digits")
    if url is None:
        if not source.archives:
            raise InputError(
                f"{name}: {source.how} at {source.page}; then unpack it with: "
                f"bitr data fetch {name} --from FILE, or --from URL --sha256 HASH"
            )
        return source.archives
    if urlparse(url).scheme not in ("http", "https"):
        raise InputError(f"{url}: neither a file that is here nor an address that starts with http")
    known = source.archives[0].sha256 if len(source.archives) == 1 else None
    if (sha256 or known) is None:
        raise InputError(f"{url}: give --sha256 HASH too, so that what arrives can be checked")
    return (Archive(url, str(sha256 or known).lower()),)


def download(archive: Archive, folder: Path, on_bytes: OnBytes = lambda done, total: None) -> Path:
    """Download a file and check its SHA-256; after an interruption, the part that arrived is kept."""
    try:
        import requests
        from urllib3.exceptions import HTTPError
    except ModuleNotFoundError as error:
        raise InputError(
            'downloads need requests, which is not installed: pip install -e ".[data]"'
        ) from error
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{archive.sha256[:16]}-{Path(urlparse(archive.url).path).name or 'archive'}"
    part = file.with_name(f"{file.name}.part")
    try:
        _receive(archive.url, part, on_bytes)
    except (requests.RequestException, HTTPError) as error:
        there = part.stat().st_size if part.exists() else 0
        raise InputError(
            f"{archive.url}: {_reason(error)}, {there} bytes are here; the same command goes on from there"
        ) from error
    if _sha256(part) != archive.sha256:
        part.unlink()
        raise InputError(
            f"{archive.url}: what arrived does not have the SHA-256 {archive.sha256}, and was deleted; "
            "the file has changed or was damaged on the way"
        )
    return part.replace(file)


def _receive(url: str, part: Path, on_bytes: OnBytes) -> None:
    """Continue a partial file; begin again if the server cannot, or if the part is longer than the file."""
    import requests

    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=SECONDS) as answer:
        if answer.status_code == 416:
            if answer.headers.get("Content-Range") == f"bytes */{have}":  # all of it is here
                return
            part.unlink()
            return _receive(url, part, on_bytes)
        answer.raise_for_status()
        have = have if answer.status_code == 206 else 0
        length = answer.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        with open(part, "r+b" if have else "wb") as file:
            file.seek(have)
            for chunk in answer.raw.stream(CHUNK, decode_content=False):  # requests would decompress
                file.write(chunk)
                on_bytes(file.tell(), total)
    if total is not None and part.stat().st_size < total:
        raise requests.ConnectionError("the connection closed early")


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code} {response.reason}"
    return f"could not be reached or was interrupted ({type(error).__name__})"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@dataclass(frozen=True)
class Limits:
    """Largest number of files, and of bytes when unpacked."""

    files: int = 200_000
    size: int = 100 << 30


@dataclass(frozen=True)
class _Member:
    name: str
    is_folder: bool
    is_plain: bool
    """Neither a link nor a device."""
    size: int
    open: Callable[[], IO[bytes] | None]


def unpack(archive: Path, folder: Path, limits: Limits = Limits()) -> list[Path]:
    """Unpack a zip or tar archive into the folder: all of its files or, after an error, none.

    Absolute names, names with "..", links, devices, and more than the limits allow raise before anything is
    moved into place. Sizes are counted while unpacking, since an archive may lie about them.
    """
    _check_count(archive, limits.files)
    with _made(folder), tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as place:
        limits = Limits(limits.files, min(limits.size, shutil.disk_usage(folder).free))
        try:
            with _open_members(archive) as members:
                names = _unpack_members(archive, members, Path(place), limits)
        except DAMAGED as error:
            raise InputError(f"{archive}: damaged or not a zip or tar archive ({str(error)[:80]})") from error
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(Path(place) / name, folder / name)
    return [folder / name for name in names]


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder; after an error, the folders that were made for it are removed again."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for path in missing:
            with suppress(OSError):  # somebody else has put something there
                path.rmdir()
        raise


def _check_count(archive: Path, most: int) -> None:
    """Raise for a zip archive that says at its end that it has too many members, before they are listed."""
    with open(archive, "rb") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - ZIP_END))
        tail = file.read()
    end, large = tail.rfind(b"PK\x05\x06"), tail.rfind(b"PK\x06\x06")
    if 0 <= end <= len(tail) - 16:
        count, size = struct.unpack("<HI", tail[end + 10 : end + 16])
        if 0 <= large <= len(tail) - 48:  # of zip64
            count, size = struct.unpack("<QQ", tail[large + 32 : large + 48])
        if max(count, size // LONGEST_ENTRY) > most:
            raise InputError(_too_many(archive, most))


def _too_many(archive: Path, most: int) -> str:
    return f"{archive}: holds more than {most} files, expected at most that many; unpack it by hand"


def _unpack_members(
    archive: Path, members: Iterator[_Member], place: Path, limits: Limits
) -> list[PurePosixPath]:
    too_large = f"{archive}: unpacks to more than {limits.size} bytes, which is the most allowed here"
    names: list[PurePosixPath] = []
    left = limits.size
    for count, member in enumerate(members, 1):
        name = _safe_name(archive, member)
        if count > limits.files:
            raise InputError(_too_many(archive, limits.files))
        if member.is_folder:
            continue
        if member.size > left:
            raise InputError(too_large)
        target = place / name
        if target.exists():
            raise InputError(f"{archive}: holds {str(name)[:60]!r} twice, expected each file once")
        target.parent.mkdir(parents=True, exist_ok=True)
        content = member.open()
        assert content is not None  # only folders, links and devices have none
        with content, open(target, "wb") as file:
            while chunk := content.read(CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise InputError(too_large)
                file.write(chunk)
        names.append(name)
    if not names:
        raise InputError(f"{archive}: holds no files")
    return names


def _safe_name(archive: Path, member: _Member) -> PurePosixPath:
    shown = member.name[:60]
    if not member.is_plain:
        raise InputError(f"{archive}: {shown!r} is a link or a device, expected files and folders only")
    name = PurePosixPath(member.name.replace("\\", "/"))
    has_drive = len(member.name) > 1 and member.name[1] == ":"
    if name.is_absolute() or has_drive or ".." in name.parts or "\0" in member.name:
        raise InputError(f"{archive}: {shown!r} would land outside the folder, expected names below it")
    if not name.parts and not member.is_folder:
        raise InputError(f"{archive}: holds a file without a name")
    return name


@contextmanager
def _open_members(archive: Path) -> Iterator[Iterator[_Member]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            yield (_zip_member(opened, member) for member in opened.infolist())
    else:
        with tarfile.open(archive, "r:*") as packed:
            yield (_tar_member(packed, member) for member in packed)


def _zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Member:
    is_plain = stat.S_IFMT(member.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
    return _Member(member.filename, member.is_dir(), is_plain, member.file_size, lambda: archive.open(member))


def _tar_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> _Member:
    is_plain = member.isreg() or member.isdir()
    return _Member(member.name, member.isdir(), is_plain, member.size, lambda: archive.extractfile(member))
