"""Getting a data set: download, check, unpack."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from bitr.data.archive import unpack
from bitr.data.sources import SOURCES, Archive
from bitr.errors import InputError

CHUNK = 1 << 18
SECONDS = 30.0
"""Without a byte for so long, a download counts as interrupted."""
OnBytes = Callable[[int, int | None], None]
"""Says how many bytes are there, of how many if that is known."""


def fetch(
    name: str,
    root: Path,
    url: str | None = None,
    sha256: str | None = None,
    on_bytes: OnBytes = lambda done, total: None,
) -> list[Path]:
    """The files of a data set, downloaded, checked and unpacked below the root.

    ``url`` is another address, or a file that is here already. What arrives must have the SHA-256 that is
    known or given; a download that was interrupted goes on where it stopped.
    """
    if name not in SOURCES:
        raise InputError(f"{name}: is no data set to download, expected one of {', '.join(SOURCES)}")
    root.mkdir(parents=True, exist_ok=True)
    into = root / SOURCES[name].into
    if url is not None and Path(url).is_file():
        if sha256 is not None:
            check_sha256(Path(url), sha256)
        return unpack(Path(url), into)
    files: list[Path] = []
    for archive in _archives(name, url, sha256):
        file = download(archive, root / ".downloads", on_bytes)
        files += unpack(file, into)
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
    """The file at an address, whose SHA-256 is right; what came before an interruption is kept."""
    try:
        import pooch
        import requests
    except ModuleNotFoundError as error:
        raise InputError('downloads need pooch, which is not installed: pip install "bitr[data]"') from error
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{archive.sha256[:16]}-{Path(urlparse(archive.url).path).name or 'archive'}"
    part = folder / f"{name}.part"
    pooch.get_logger().setLevel("ERROR")  # progress and errors are told by the caller
    try:
        found = pooch.retrieve(
            archive.url, f"sha256:{archive.sha256}", name, folder, downloader=_Resuming(part, on_bytes)
        )
    except requests.RequestException as error:
        there = part.stat().st_size if part.exists() else 0
        raise InputError(
            f"{archive.url}: {_reason(error)}, {there} bytes are here; the same command goes on from there"
        ) from error
    except ValueError as error:  # pooch's word for a hash that differs
        raise InputError(
            f"{archive.url}: what arrived does not have the SHA-256 {archive.sha256}, and was deleted; "
            "the file has changed or was damaged on the way"
        ) from error
    return Path(found)


@dataclass(frozen=True)
class _Resuming:
    """A downloader for pooch that keeps what it has in a file of its own, and asks for the rest only."""

    part: Path
    on_bytes: OnBytes

    def __call__(self, url: str, output_file: str, _pooch: Any) -> None:
        import requests

        have = self.part.stat().st_size if self.part.exists() else 0
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(url, headers=headers, stream=True, timeout=SECONDS) as answer:
            if answer.status_code == 416:  # the part is as long as the file, or longer
                have = 0 if answer.headers.get("Content-Range") != f"bytes */{have}" else have
                if not have:
                    self.part.unlink()
                    return self(url, output_file, _pooch)
            else:
                answer.raise_for_status()
                self._receive(answer, have if answer.status_code == 206 else 0)
        os.replace(self.part, output_file)

    def _receive(self, answer: Any, have: int) -> None:
        import requests
        from urllib3.exceptions import HTTPError

        length = answer.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        try:
            with open(self.part, "r+b" if have else "wb") as file:
                file.seek(have)
                for chunk in answer.raw.stream(CHUNK, decode_content=False):
                    file.write(chunk)
                    self.on_bytes(file.tell(), total)
        except HTTPError as error:  # requests translates these, but its own reading would unpack what it gets
            raise requests.ConnectionError(error) from error
        if total is not None and self.part.stat().st_size < total:
            raise requests.ConnectionError("the connection closed early")


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code} {response.reason}"
    return f"could not be reached or was interrupted ({type(error).__name__})"


def check_sha256(path: Path, sha256: str) -> None:
    """Raise when the file has another SHA-256."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != sha256.lower():
        raise InputError(f"{path}: its SHA-256 is {digest.hexdigest()}, expected {sha256.lower()}")
