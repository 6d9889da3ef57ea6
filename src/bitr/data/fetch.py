"""Data sets on disk and on the net: look, download, check, unpack. Imports nothing heavy."""

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
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlparse

from bitr.errors import InputError, require
from bitr.settings import from_mapping, read_toml

TABLE: dict[str, dict[str, Any]] = read_toml(Path(__file__).with_name("datasets.toml"))
"""Names, titles, origins and terms of the data sets, in the order of the list."""
CHUNK = 1 << 18
SECONDS = 30.0  # a download counts as interrupted after this long without a byte
ZIP_END = (1 << 16) + 200
"""Bytes at the end of a zip archive that hold the number of its members, behind which is a comment."""
LONGEST_ENTRY = 1 << 10
"""Bytes of an entry in the list of a zip archive, at most: more would be no honest list."""
BARE, EXTENDING = tuple(b"%d" % kind for kind in range(1, 7)), (b"x", b"g", b"L", b"K")
"""Kinds of tar headers that no content follows, and kinds whose content belongs to the next header."""
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

    folders: tuple[str, ...]  # places of its files below the root
    into: str  # folder below the root that its archives are unpacked into
    page: str
    how: str  # instructions for that page
    archives: tuple[Archive, ...] = ()


SOURCES = {
    name: from_mapping(Source, entry["fetch"], name) for name, entry in TABLE.items() if "fetch" in entry
}
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
    known = name in SOURCES
    require(known, f"{name}: is no data set to download, expected one of {', '.join(SOURCES)}")
    into = root / SOURCES[name].into
    if url is not None and Path(url).is_file():
        found = sha256 and _sha256(Path(url))
        fits = sha256 is None or found == sha256.lower()
        require(fits, f"{url}: its SHA-256 is {found}, expected {(sha256 or '').lower()}")
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
    is_hash = sha256 is None or re.fullmatch(r"[0-9a-fA-F]{64}", sha256)
    require(is_hash, f"{name}: --sha256 {str(sha256)[:70]!r}, expected 64 hexadecimal digits")
    if url is None:
        command = f"bitr data fetch {name} --from FILE, or --from URL --sha256 HASH"
        by_hand = f"{name}: {source.how} at {source.page}; then unpack it with: {command}"
        require(source.archives, by_hand)
        return source.archives
    is_address = urlparse(url).scheme in ("http", "https")
    require(is_address, f"{url}: neither a file that is here nor an address that starts with http")
    known = sha256 or (source.archives[0].sha256 if len(source.archives) == 1 else "")
    require(known, f"{url}: give --sha256 HASH too, so that what arrives can be checked")
    return (Archive(url, known.lower()),)


def download(archive: Archive, folder: Path, on_bytes: OnBytes = lambda done, total: None) -> Path:
    """Download a file and check its SHA-256; after an interruption, the part that arrived is kept."""
    try:
        import requests
        from urllib3.exceptions import HTTPError
    except ModuleNotFoundError as error:
        need = 'downloads need requests, which is not installed: pip install -e ".[data]"'
        raise InputError(need) from error
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{archive.sha256[:16]}-{Path(urlparse(archive.url).path).name or 'archive'}"
    part = file.with_name(f"{file.name}.part")
    try:
        _receive(archive.url, part, on_bytes)
    except (requests.RequestException, HTTPError) as error:
        there = part.stat().st_size if part.exists() else 0
        reason, response = f"could not be reached or was interrupted ({type(error).__name__})", None
        if isinstance(error, requests.RequestException):
            response = error.response
        if response is not None:
            reason = f"the server answered {response.status_code} {response.reason}"
        go_on = f"{there} bytes are here; the same command goes on from there"
        raise InputError(f"{archive.url}: {reason}, {go_on}") from error
    if _sha256(part) != archive.sha256:
        part.unlink()
        found = f"{archive.url}: what arrived does not have the SHA-256 {archive.sha256}, and was deleted"
        raise InputError(f"{found}; the file has changed or was damaged on the way")
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
    is_plain: bool  # neither a link nor a device
    size: int
    open: Callable[[], IO[bytes] | None]


def unpack(archive: Path, folder: Path, limits: Limits = Limits()) -> list[Path]:
    """Unpack a zip or tar archive into the folder: all of its files or, after an error, none.

    Absolute names, names with "..", links, devices, and more than the limits allow raise before anything is
    moved into place. Files and sizes that the archive claims are counted before anything is written, and once
    more while unpacking, since an archive may lie about them.
    """
    _check_count(archive, limits.files)
    with _made(folder), tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as place:
        limits = Limits(limits.files, min(limits.size, shutil.disk_usage(folder).free))
        try:
            with _open_members(archive, limits) as members:
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
        require(max(count, size // LONGEST_ENTRY) <= most, _too_many(archive, most))


def _check_headers(archive: Path, packed: tarfile.TarFile, limits: Limits) -> None:
    """Raise where the headers of a tar archive claim too much, ten times as fast as tarfile lists them.

    The count ends at a header that it cannot follow: `_unpack_members` counts again.
    """
    file, count, left = packed.fileobj, 0, limits.size
    assert file is not None  # an open archive has one
    file.seek(0)
    while (head := file.read(tarfile.BLOCKSIZE))[257:262] in (b"ustar", bytes(5)) and head[0]:
        kind, digits = head[156:157], head[124:136].strip(b" \0")
        if digits.strip(b"01234567"):  # a size of 8 GB or more is not in octal digits
            return
        size = 0 if kind in BARE else int(digits or b"0", 8)
        if kind not in EXTENDING:
            count, left = count + 1, left - size
            if count > limits.files:  # no `require`, which would make the words for each header
                raise InputError(_too_many(archive, limits.files))
            if left < 0:
                raise InputError(_too_large(archive, limits.size))
        if size:
            file.seek(file.tell() - (-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)  # whole blocks


def _too_many(archive: Path, most: int) -> str:
    return f"{archive}: holds more than {most} files, expected at most that many; unpack it by hand"


def _too_large(archive: Path, most: int) -> str:
    return f"{archive}: unpacks to more than {most} bytes, which is the most allowed here"


def _unpack_members(
    archive: Path, members: Iterator[_Member], place: Path, limits: Limits
) -> list[PurePosixPath]:
    names: list[PurePosixPath] = []
    left = limits.size
    for count, member in enumerate(members, 1):
        name = _safe_name(archive, member)
        require(count <= limits.files, _too_many(archive, limits.files))
        if member.is_folder:
            continue
        require(member.size <= left, _too_large(archive, limits.size))
        target = place / name
        require(not target.exists(), f"{archive}: holds {str(name)[:60]!r} twice, expected each file once")
        target.parent.mkdir(parents=True, exist_ok=True)
        content = member.open()
        assert content is not None  # only folders, links and devices have none
        with content, open(target, "wb") as file:
            while chunk := content.read(CHUNK):
                left -= len(chunk)
                require(left >= 0, _too_large(archive, limits.size))
                file.write(chunk)
        names.append(name)
    require(names, f"{archive}: holds no files")
    return names


def _safe_name(archive: Path, member: _Member) -> PurePosixPath:
    shown, name = member.name[:60], PurePosixPath(member.name.replace("\\", "/"))
    expected = "expected files and folders only"
    require(member.is_plain, f"{archive}: {shown!r} is a link or a device, {expected}")
    leaves = name.is_absolute() or member.name[1:2] == ":" or ".." in name.parts or "\0" in member.name
    require(not leaves, f"{archive}: {shown!r} would land outside the folder, expected names below it")
    require(name.parts or member.is_folder, f"{archive}: holds a file without a name")
    return name


@contextmanager
def _open_members(archive: Path, limits: Limits) -> Iterator[Iterator[_Member]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            claimed = sum(m.file_size for m in opened.infolist())
            require(claimed <= limits.size, _too_large(archive, limits.size))
            yield (
                _Member(m.filename, m.is_dir(), _is_plain(m), m.file_size, partial(opened.open, m))
                for m in opened.infolist()
            )
    else:
        with tarfile.open(archive, "r:*") as packed:
            _check_headers(archive, packed, limits)
            yield (
                _Member(m.name, m.isdir(), m.isreg() or m.isdir(), m.size, partial(packed.extractfile, m))
                for m in packed
            )


def _is_plain(member: zipfile.ZipInfo) -> bool:
    return stat.S_IFMT(member.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
