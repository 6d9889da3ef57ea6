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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlparse

from bitr.errors import InputError, require
from bitr.settings import from_mapping, read_toml

TABLE: dict[str, dict[str, Any]] = read_toml(Path(__file__).with_name("datasets.toml"))
"""Names, titles, origins and terms of the data sets, in the order of the list."""
CHUNK = 1 << 18
ZIP_END = (1 << 16) + 200
"""Bytes at the end of a zip archive that hold the number of its members, behind which is a comment."""
DAMAGED = zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, RuntimeError, OSError
"""Exceptions of zipfile, tarfile and their decompressors for damaged, encrypted or unknown content."""
TOO_MANY = "holds more than {} files, expected at most that many; unpack it by hand"

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


@dataclass(frozen=True)
class Limits:
    """Largest number of files of an archive, and of bytes when unpacked."""

    files: int = 200_000
    size: int = 100 << 30


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
    """Download a data set, or take ``url``, an address or a local file; check, unpack, return its files."""
    require(name in SOURCES, f"{name}: is no data set to download, expected one of {', '.join(SOURCES)}")
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
        response = getattr(error, "response", None)
        reason = f"could not be reached or was interrupted ({type(error).__name__})"
        if response is not None:
            reason = f"the server answered {response.status_code} {response.reason}"
        there = part.stat().st_size if part.exists() else 0
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
    # interrupted after 30 seconds without a byte
    with requests.get(url, headers=headers, stream=True, timeout=30.0) as answer:
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


def unpack(archive: Path, folder: Path, limits: Limits = Limits()) -> list[Path]:
    """Unpack a zip or tar archive: all files or, after an error, none; names and sizes are checked first."""
    _check_count(archive, limits.files)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as place:
            try:
                names = _unpack_below(Path(place), archive, limits)
            except DAMAGED as error:
                found = f"{archive}: damaged or not a zip or tar archive"
                raise InputError(f"{found} ({str(error)[:80]})") from error
            for name in names:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(place) / name, folder / name)
    except BaseException:
        for path in missing:
            with suppress(OSError):  # somebody else has put something there
                path.rmdir()
        raise
    return [folder / name for name in names]


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
        # an honest entry of the list takes less than 1024 bytes
        require(max(count, size // 1024) <= most, f"{archive}: {TOO_MANY.format(most)}")


def _unpack_below(place: Path, archive: Path, limits: Limits) -> list[PurePosixPath]:
    """Write the files, after the names of all members were checked and what they claim was added up."""
    found: dict[PurePosixPath, Any] = {}
    left = most = min(limits.size, shutil.disk_usage(place).free)
    packed: zipfile.ZipFile | tarfile.TarFile
    is_zip = zipfile.is_zipfile(archive)
    with zipfile.ZipFile(archive) if is_zip else tarfile.open(archive, "r:*") as packed:
        for count, (own_name, kind, size, member) in enumerate(_members(packed), 1):
            shown, name = own_name[:60], PurePosixPath(own_name.replace("\\", "/"))
            require(kind, f"{archive}: {shown!r} is a link or a device, expected files and folders only")
            leaves = name.is_absolute() or own_name[1:2] == ":" or ".." in name.parts or "\0" in own_name
            outside = f"{archive}: {shown!r} would land outside the folder, expected names below it"
            require(not leaves, outside)
            require(count <= limits.files, f"{archive}: {TOO_MANY.format(limits.files)}")
            if kind == "folder":
                continue
            require(name.parts, f"{archive}: holds a file without a name")
            require(name not in found, f"{archive}: holds {shown!r} twice, expected each file once")
            left -= size
            require(
                left >= 0, f"{archive}: unpacks to more than {most} bytes, which is the most allowed here"
            )
            found[name] = member
        require(found, f"{archive}: holds no files")
        for name, member in found.items():  # neither module reads more of a file than its header claims
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            content = (
                packed.open(member) if isinstance(packed, zipfile.ZipFile) else packed.extractfile(member)
            )
            assert content is not None  # only folders, links and devices have none
            with content, open(place / name, "wb") as file:
                shutil.copyfileobj(content, file)
    return list(found)


def _members(packed: zipfile.ZipFile | tarfile.TarFile) -> Iterator[tuple[str, str, int, Any]]:
    """The name, the kind (empty for links and devices), the size and the header of each member."""
    if isinstance(packed, zipfile.ZipFile):
        for entry in packed.infolist():
            is_plain = stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
            kind = "folder" if entry.is_dir() else "file" if is_plain else ""
            yield entry.filename, kind, entry.file_size, entry
    else:
        for member in packed:
            kind = "folder" if member.isdir() else "file" if member.isreg() else ""
            yield member.name, kind, member.size, member
