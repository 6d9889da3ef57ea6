"""Downloads from a server in this process, and archives that mean harm."""

import hashlib
import io
import random
import re
import stat
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bitr.data import fetch as module
from bitr.data.fetch import SOURCES, Archive, Limits, download, fetch, unpack
from bitr.errors import InputError

PLY = b"ply\nformat ascii 1.0\nelement vertex 4\n" + b"".join(b"property float %c\n" % c for c in b"xyz")


def archive():
    """A tar file with a bunny and some noise, so that it is large enough to be cut off in the middle."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as packed:
        for name, content in (
            ("bunny/reconstruction/bun_zipper.ply", PLY + b"end_header\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n"),
            ("bunny/noise", random.Random(0).randbytes(400_000)),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    return file.getvalue()


class Server(ThreadingHTTPServer):
    """Serves ``content``; stops after ``stop`` bytes of an answer, and knows ranges if ``ranges``."""

    daemon_threads = True
    content, stop, ranges, status = b"", None, True, 200

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/bunny.tar.gz"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        content = self.server.content
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and self.server.ranges else 0
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        if start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:][: self.server.stop])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as running:
        running.content = archive()
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def known(server, monkeypatch):
    """The bunny's archive is the server's."""
    right = Archive(server.url, hashlib.sha256(server.content).hexdigest())
    source = SOURCES["bunny"]
    changed = type(source)(source.folders, source.into, source.page, source.how, (right,))
    monkeypatch.setitem(module.SOURCES, "bunny", changed)
    return right


def test_a_data_set_is_downloaded_checked_and_unpacked(server, known, tmp_path):
    seen = []
    files = fetch("bunny", tmp_path, on_bytes=lambda done, total: seen.append((done, total)))
    assert (tmp_path / "bunny/reconstruction/bun_zipper.ply").read_bytes().startswith(PLY)
    assert len(files) == 2
    assert seen[-1] == (len(server.content), len(server.content))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert list((tmp_path / ".downloads").iterdir()) == []


def test_a_damaged_download_is_refused_and_leaves_nothing(server, known, tmp_path):
    right = server.content
    server.content = bytes([*right[:1000], right[1000] ^ 1, *right[1001:]])
    with pytest.raises(InputError, match="does not have the SHA-256"):
        fetch("bunny", tmp_path)
    assert not (tmp_path / "bunny").exists()
    assert list((tmp_path / ".downloads").iterdir()) == []
    server.content = right  # not packed anew: gzip writes the time into its head
    assert fetch("bunny", tmp_path)


def test_an_interrupted_download_goes_on_where_it_stopped(server, known, tmp_path):
    server.stop = 100_000
    with pytest.raises(InputError, match="100000 bytes are here; the same command goes on from there"):
        fetch("bunny", tmp_path)
    with pytest.raises(InputError, match="200000 bytes are here"):
        fetch("bunny", tmp_path)
    server.stop = None
    fetch("bunny", tmp_path)
    assert server.asked == [None, "bytes=100000-", "bytes=200000-"]
    assert (tmp_path / "bunny/noise").stat().st_size == 400_000


def test_a_server_without_ranges_begins_again(server, known, tmp_path):
    server.stop = 100_000
    with pytest.raises(InputError, match="bytes are here"):
        fetch("bunny", tmp_path)
    server.stop, server.ranges = None, False
    fetch("bunny", tmp_path)
    assert (tmp_path / "bunny/noise").stat().st_size == 400_000


def test_a_part_that_is_complete_is_not_asked_for_again(server, known, tmp_path):
    part = tmp_path / f"{known.sha256[:16]}-bunny.tar.gz.part"
    part.write_bytes(server.content)
    assert download(known, tmp_path).read_bytes() == server.content
    assert server.asked == [f"bytes={len(server.content)}-"]


def test_a_part_that_is_too_long_is_dropped(server, known, tmp_path):
    part = tmp_path / f"{known.sha256[:16]}-bunny.tar.gz.part"
    part.write_bytes(server.content + b"more")
    assert download(known, tmp_path).read_bytes() == server.content
    assert server.asked[-1] is None


def test_a_part_of_another_file_is_found_out_by_the_hash(server, known, tmp_path):
    part = tmp_path / f"{known.sha256[:16]}-bunny.tar.gz.part"
    part.write_bytes(bytes(1000))
    with pytest.raises(InputError, match="does not have the SHA-256"):
        download(known, tmp_path)
    assert download(known, tmp_path).read_bytes() == server.content


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_that_refuses_is_quoted(server, known, tmp_path, status):
    server.status = status
    with pytest.raises(InputError, match=f"the server answered {status}"):
        fetch("bunny", tmp_path)


def test_a_server_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="could not be reached"):
        download(Archive("http://127.0.0.1:1/bunny.tar.gz", "0" * 64), tmp_path)


def test_another_address_needs_a_hash_unless_it_is_known(server, known, tmp_path):
    with pytest.raises(InputError, match="give --sha256 HASH too"):
        fetch("indoor", tmp_path, server.url)
    fetch("indoor", tmp_path, server.url, known.sha256)
    assert (tmp_path / "indoor_3dmatch/bunny/noise").is_file()
    fetch("bunny", tmp_path, server.url)
    with pytest.raises(InputError, match="expected 64 hexadecimal digits"):
        fetch("indoor", tmp_path, server.url, "12")


def test_an_archive_that_is_here_is_unpacked(server, known, tmp_path):
    path = tmp_path / "mine.tar.gz"
    path.write_bytes(server.content)
    fetch("outdoor", tmp_path, str(path))
    assert (tmp_path / "asl/bunny/noise").is_file()
    with pytest.raises(InputError, match="its SHA-256 is"):
        fetch("outdoor", tmp_path, str(path), "0" * 64)
    assert server.asked == []


@pytest.mark.parametrize("name", sorted(SOURCES.keys() - {"bunny"}))
def test_where_no_address_is_known_the_page_is_named(name, tmp_path):
    with pytest.raises(InputError) as raised:
        fetch(name, tmp_path)
    message = str(raised.value)
    assert SOURCES[name].page in message
    assert f"bitr data fetch {name} --from" in message
    assert "\n" not in message
    if "shapenet" in SOURCES[name].into or name == "outdoor":
        assert "account" in message


def test_what_is_no_address(tmp_path):
    for url in ("ftp://example.org/a.zip", "nothing.zip"):
        with pytest.raises(InputError, match="neither a file that is here nor an address"):
            fetch("indoor", tmp_path, url, "0" * 64)
    with pytest.raises(InputError, match="is no data set to download"):
        fetch("shapes", tmp_path)


# archives that mean harm leave nothing behind, inside the folder or outside


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def tarred(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for member, content in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def everything_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() or p.is_symlink())


FILES = [("set/a.txt", b"one"), ("set/deep/b.txt", b"two"), ("c.txt", b"")]


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_files_arrive_as_they_are(tmp_path, kind):
    path, out = tmp_path / f"set.{kind}", tmp_path / "out"
    mode = {"tar": "w", "tar.gz": "w:gz", "tar.bz2": "w:bz2", "tar.xz": "w:xz"}.get(kind)
    zipped(path, FILES) if mode is None else tarred(
        path, [(special("set", tarfile.DIRTYPE), b""), *FILES], mode
    )
    found = unpack(path, out)
    assert sorted(found) == sorted(out / name for name, _ in FILES)
    assert all((out / name).read_bytes() == content for name, content in FILES)
    assert everything_below(out) == ["c.txt", "set/a.txt", "set/deep/b.txt"]


@pytest.mark.parametrize(
    "name", ["/etc/evil", "../evil", "set/../../evil", "..\\evil", "C:\\evil", "C:evil", "set/.."]
)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_no_name_leads_outside(tmp_path, kind, name):
    out = tmp_path / "deep" / "out"
    members = [("good.txt", b"fine"), (name, b"evil")]
    path = (zipped if kind == "zip" else tarred)(tmp_path / "evil", members)
    with pytest.raises(InputError, match="would land outside the folder"):
        unpack(path, out)
    assert everything_below(tmp_path) == ["evil"]


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.SYMTYPE, "../.."),
        (tarfile.SYMTYPE, "good.txt"),
        (tarfile.LNKTYPE, "../../secret"),
        (tarfile.CHRTYPE, ""),
        (tarfile.FIFOTYPE, ""),
    ],
)
def test_links_and_devices_are_refused(tmp_path, kind, target):
    path = tarred(tmp_path / "evil.tar", [("good.txt", b"fine"), (special("link", kind, target), b"")])
    with pytest.raises(InputError, match="'link' is a link or a device"):
        unpack(path, tmp_path / "out")
    assert everything_below(tmp_path) == ["evil.tar"]


def test_links_in_zip_files_are_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(InputError, match="'link' is a link or a device"):
        unpack(zipped(tmp_path / "evil.zip", [(info, "/etc/passwd")]), tmp_path / "out")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_too_many_files_and_too_many_bytes_are_refused(tmp_path, kind):
    make = zipped if kind == "zip" else tarred
    many = make(tmp_path / "many", [(f"{i}.txt", b"") for i in range(20)])
    with pytest.raises(InputError, match="holds more than 10 files"):
        unpack(many, tmp_path / "out", Limits(files=10))
    bomb = make(tmp_path / "bomb", [(f"{i}.txt", bytes(1000)) for i in range(20)])
    with pytest.raises(InputError, match="unpacks to more than 5000 bytes"):
        unpack(bomb, tmp_path / "out" / "below", Limits(size=5000))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bomb", "many"]


def test_a_zip_file_with_too_many_members_is_refused_before_they_are_listed(tmp_path, monkeypatch):
    many = zipped(tmp_path / "many.zip", [(f"{i}.txt", b"") for i in range(20)])
    data = many.read_bytes()
    monkeypatch.setattr(zipfile.ZipFile, "infolist", None)
    with pytest.raises(InputError, match="holds more than 10 files, expected at most that many"):
        unpack(many, tmp_path / "out", Limits(files=10))
    end = data.rindex(b"PK\x05\x06")
    lying = (
        data[: end + 10] + (3).to_bytes(2, "little") + (20 * 1024).to_bytes(4, "little") + data[end + 16 :]
    )
    many.write_bytes(lying)  # few members, and a list that is too long for them
    with pytest.raises(InputError, match="holds more than 10 files"):
        unpack(many, tmp_path / "out", Limits(files=10))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_file_is_counted_before_anything_is_written(tmp_path, monkeypatch, form):
    monkeypatch.setattr(tarfile, "DEFAULT_FORMAT", form)
    folders = [(special(f"{i}", tarfile.DIRTYPE), b"") for i in range(5)]
    files = [(f"{i}/{'name' * 40}/{'é' * 20}.txt", bytes(1000)) for i in range(5)]  # too long for one header
    path = tarred(tmp_path / "set.tar.gz", [*folders, *files])
    assert len(unpack(path, tmp_path / "all", Limits(files=10, size=5000))) == 5
    monkeypatch.setattr(tarfile.TarFile, "extractfile", None)
    with pytest.raises(InputError, match="holds more than 9 files"):
        unpack(path, tmp_path / "out", Limits(files=9))
    with pytest.raises(InputError, match="unpacks to more than 4999 bytes"):
        unpack(path, tmp_path / "out", Limits(size=4999))
    assert not (tmp_path / "out").exists()


def test_a_tar_file_whose_headers_cannot_be_followed_is_counted_while_it_is_unpacked(tmp_path):
    path = tarred(tmp_path / "odd.tar", [(f"{i}.txt", b"") for i in range(20)], "w")
    data = bytearray(path.read_bytes())
    data[257:263], data[148:156] = b"other\0", b" " * 8  # another magic
    data[148:156] = b"%06o\0 " % sum(data[:512])
    path.write_bytes(data)
    with pytest.raises(InputError, match="holds more than 10 files"):
        unpack(path, tmp_path / "out", Limits(files=10))
    assert len(unpack(path, tmp_path / "out")) == 20


def test_the_sizes_of_a_zip_file_are_added_before_anything_is_written(tmp_path, monkeypatch):
    bomb = zipped(tmp_path / "bomb.zip", [(f"{i}.txt", bytes(1000)) for i in range(5)])
    monkeypatch.setattr(zipfile.ZipFile, "open", None)
    with pytest.raises(InputError, match="unpacks to more than 4999 bytes"):
        unpack(bomb, tmp_path / "out", Limits(size=4999))


def test_a_zip_file_that_lies_about_its_sizes_is_stopped(tmp_path):
    path = zipped(tmp_path / "liar.zip", [("zeros", bytes(1_000_000))])
    data = path.read_bytes()
    path.write_bytes(data.replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(InputError):
        unpack(path, tmp_path / "out", Limits(size=5000))
    assert everything_below(tmp_path / "out") == []


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_half_an_archive_leaves_nothing(tmp_path, kind, cut):
    noise = random.Random(0).randbytes(50_000)
    make = zipped if kind == "zip" else tarred
    path = make(tmp_path / "set", [("a", noise), ("b", noise)])
    path.write_bytes(path.read_bytes()[: int(cut * path.stat().st_size)])
    with pytest.raises(InputError, match="damaged or not a zip or tar archive"):
        unpack(path, tmp_path / "out")
    assert everything_below(tmp_path / "out") == []


def test_what_is_no_archive_or_holds_nothing(tmp_path):
    (tmp_path / "page.html").write_text("<html>404</html>")
    with pytest.raises(InputError, match="damaged or not a zip or tar archive"):
        unpack(tmp_path / "page.html", tmp_path / "out")
    with pytest.raises(InputError, match="holds no files"):
        unpack(zipped(tmp_path / "empty.zip", []), tmp_path / "out")
    with pytest.raises(InputError, match="twice"):
        unpack(tarred(tmp_path / "twice.tar", [("a", b"1"), ("./a", b"2")]), tmp_path / "out")
