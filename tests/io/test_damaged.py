"""Damaged files raise an InputError of one line that names the file, and nothing else."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bitr.errors import InputError
from bitr.io import read
from tests.io.damaged import damaged_files
from tests.io.samples import SAMPLES


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, str]]:
    return damaged_files(tmp_path_factory.mktemp("damaged"))


def test_the_corpus_is_large_and_of_all_formats(corpus):
    assert len(corpus) >= 70
    suffixes = {path.suffix for path, _ in corpus}
    assert suffixes >= {f".{name.rpartition('.')[2]}" for name in SAMPLES}


def test_every_damaged_file_is_told_in_one_line(corpus, capfd):
    wrong = []
    for path, message in corpus:
        try:
            found = f"read {len(read(path).points)} points"
        except InputError as error:
            found = str(error)
        if not found.startswith(f"{path}: ") or message not in found or "\n" in found or len(found) > 600:
            wrong.append(f"{path.name}: found {found!r}, expected {message!r}")
    assert "\n".join(wrong) == ""
    assert capfd.readouterr() == ("", "")


def test_a_missing_file_is_told_with_the_nearest_name(tmp_path):
    (tmp_path / "bunny.ply").write_bytes(b"ply\n")
    with pytest.raises(InputError, match=r"no such file; did you mean .*bunny\.ply"):
        read(tmp_path / "buny.ply")
    with pytest.raises(InputError, match=r"folder .* does not exist"):
        read(tmp_path / "nowhere" / "bunny.ply")


@pytest.mark.parametrize(("name", "library"), [("scan.laz", "laspy"), ("compressed.pcd", "pypcd4.pypcd4")])
def test_a_missing_extra_is_told_with_the_command_that_installs_it(name, library, tmp_path, monkeypatch):
    SAMPLES[name](tmp_path / name)
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    with pytest.raises(InputError, match=f"pip install .*{library.partition('.')[0]}"):
        read(tmp_path / name)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_cut_anywhere_never_raises_anything_else(name, tmp_path):
    path = tmp_path / name
    SAMPLES[name](path)
    data = path.read_bytes()
    for length in range(1, len(data), max(1, len(data) // 80)):
        path.write_bytes(data[:length])
        _read(path)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_with_flipped_bytes_never_raises_anything_else(name, tmp_path):
    path = tmp_path / name
    SAMPLES[name](path)
    data, rng = path.read_bytes(), random.Random(name)
    for case in range(200):
        damaged = bytearray(data)
        # half of the cases in the first bytes, where the header is
        end = len(data) if case % 2 else min(400, len(data))
        for _ in range(rng.choice((1, 2, 20))):
            damaged[rng.randrange(end)] = rng.randrange(256)
        path.write_bytes(damaged)
        _read(path)


def _read(path: Path) -> None:
    try:
        found = str(read(path).name)
    except InputError as error:
        found = str(error)
    assert found == str(path) or re.fullmatch(rf"{re.escape(str(path))}: .+", found)  # "." is no line break


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the system does not tell a process's memory"
)
def test_the_corpus_is_read_in_little_memory(corpus):
    """Below 500 MB more than the program itself needs, whatever the headers claim."""
    program = """if True:
        import sys
        from bitr.errors import InputError
        from bitr.io import read

        def peak():
            with open("/proc/self/status") as file:
                return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))

        before = peak()
        for path in sys.stdin.read().splitlines():
            try:
                read(path)
            except InputError as error:
                if "fit into memory" not in str(error):
                    continue
            sys.exit(f"{path} was read, or tried to get all memory")
        print(peak() - before)
    """
    paths = "\n".join(str(path) for path, _ in corpus)
    done = subprocess.run(
        [sys.executable, "-c", program], input=paths, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert 1024 * int(done.stdout) < 500e6
