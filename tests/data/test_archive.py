"""Archives that mean harm leave nothing behind, inside the folder or outside."""

import io
import random
import stat
import tarfile
import zipfile

import pytest

from bitr.data.archive import Limits, unpack
from bitr.errors import InputError


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
        unpack(bomb, tmp_path / "out", Limits(size=5000))
    assert everything_below(tmp_path / "out") == []


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
