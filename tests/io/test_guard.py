"""Damaged and hostile files raise one line that names the file; unsound geometry is refused or repaired."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.fuzz import find_problem, good_files, mutate, write_files
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from bitr.errors import InputError
from bitr.io import Geometry, as_geometry, guard, read
from tests.io.damaged import damaged_files
from tests.io.samples import SAMPLES, cloud, mesh


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
    (tmp_path / "bunny.obj").write_bytes(b"")
    with pytest.raises(InputError, match=r"did you mean .*bunny\.ply\?"):  # rather than another kind of file
        read(tmp_path / "bunni.ply")
    with pytest.raises(InputError, match=r"did you mean .*bunny\.(ply|obj)\?"):
        read(tmp_path / "bunny.stl")
    (tmp_path / "trace.py").write_text("")
    (tmp_path / "nothere.ply").write_bytes(b"ply\n")
    with pytest.raises(InputError, match=r"no such file$"):  # what cannot be read is not suggested
        read(tmp_path / "trace.ply")
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
    for length in range(1, len(data), max(1, len(data) // 40)):
        path.write_bytes(data[:length])
        assert find_problem(path) is None


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    return good_files(tmp_path_factory.mktemp("good"))


@pytest.mark.parametrize("name", SAMPLES)
def test_mutated_files_are_read_or_refused_in_one_line(name, good, tmp_path):
    """The short form of ``python -m benchmarks.fuzz``."""
    rng = random.Random(name)
    for case in range(80):
        problem = find_problem(write_files(tmp_path, mutate(good[name], good, rng)))
        assert problem is None, f"case {case}: {problem}"


def test_the_fuzz_would_find_an_error_and_unsound_geometry(tmp_path, monkeypatch):
    path = tmp_path / "points.npy"
    np.save(path, cloud().points)
    assert find_problem(path) is None
    for answer in (Geometry(np.full((5, 3), np.nan)), Geometry(np.eye(5, 3), faces=np.array([[0, 1, 5]]))):
        monkeypatch.setattr("benchmarks.fuzz.read", lambda _, answer=answer: answer)
        assert find_problem(path) is not None
    for error in (KeyError("x"), InputError("no name of a file"), InputError(f"{path}: two\nlines")):

        def fail(_, error=error):
            raise error

        monkeypatch.setattr("benchmarks.fuzz.read", fail)
        assert find_problem(path) is not None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_pipes_and_devices_are_never_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.ply")
    for path in (tmp_path / "pipe.ply", Path("/dev/zero")):
        with pytest.raises(InputError, match=f"{path}: is not a regular file"):
            read(path)
    tree = {"asset": {}, "buffers": [{"uri": "pipe.ply", "byteLength": 10}]}
    (tmp_path / "pipe.gltf").write_text(json.dumps(tree))
    with pytest.raises(InputError, match=r"pipe\.gltf: the buffer 'pipe\.ply' is missing"):
        read(tmp_path / "pipe.gltf")


def test_files_larger_than_the_memory_and_impossible_names_are_refused(tmp_path, monkeypatch):
    np.save(tmp_path / "points.npy", cloud().points)
    monkeypatch.setattr(guard, "_memory", lambda: 100)
    with pytest.raises(InputError, match=r"points\.npy: .* bytes do not fit into memory"):
        read(tmp_path / "points.npy")
    for name in ("a" * 5000, "a\0b"):
        with pytest.raises(InputError, match="cannot be read"):
            read(tmp_path / name)


def test_a_buffer_is_read_once_however_often_it_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.dat").write_bytes(bytes(10))
    (tmp_path / "b").mkdir()
    uris = [f"{'b/../' * i}a.dat" for i in range(50)]
    tree = {"asset": {}, "buffers": [{"uri": uri, "byteLength": 10} for uri in uris]}
    (tmp_path / "a.gltf").write_text(json.dumps(tree))
    opened = []
    monkeypatch.setattr("bitr.io.gltf.read_bytes", lambda path: opened.append(path) or path.read_bytes())
    with pytest.raises(InputError, match="without meshes"):
        read(tmp_path / "a.gltf")
    assert len(opened) == 1


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


@given(
    bad=st.lists(st.integers(0, 39), max_size=30, unique=True),
    value=st.sampled_from([np.nan, np.inf, -np.inf]),
)
@settings(deadline=None)
def test_rows_that_are_not_finite_are_counted_and_dropped(bad, value):
    points = cloud().points
    points[bad, np.arange(len(bad)) % 3] = value
    found = as_geometry(Geometry(points, cloud().normals, cloud().colors), "points")
    keep = np.setdiff1d(np.arange(40), bad)
    assert_array_equal(found.points, cloud().points[keep])
    assert_array_equal(found.normals, cloud().normals[keep])
    assert_array_equal(found.colors, cloud().colors[keep])
    assert found.warnings == ((f"{len(bad)} of 40 rows are NaN or infinite: dropped",) if bad else ())


def test_faces_of_dropped_vertices_go_too():
    ball = mesh()
    points = np.array(ball.vertices)
    points[7] = np.nan
    found = as_geometry(Geometry(points, faces=np.array(ball.faces)), "ball")
    left = ball.faces[(ball.faces != 7).all(axis=1)]
    assert 0 < len(left) < len(ball.faces)
    assert_array_equal(found.points[found.faces], ball.vertices[left])


def test_normals_that_are_mostly_missing_are_ignored_and_the_points_stay():
    normals = cloud().normals
    normals[:3] = np.nan
    some = as_geometry(Geometry(cloud().points, normals), "points")
    assert len(some.points) == 37
    normals[:30] = np.nan
    most = as_geometry(Geometry(cloud().points, normals), "points")
    assert most.normals is None
    assert len(most.points) == 40
    assert most.warnings == ("most normals are NaN or infinite: ignored",)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.zeros((0, 3)), "only 0 points"),
        (np.eye(3), "only 3 points"),
        (np.ones((9, 3)), "zero extent"),
        (np.ones((9, 3)) + 1e-120 * np.eye(9, 3), "zero extent"),
        (1e200 * np.eye(9, 3), "coordinates up to 1e"),
        (np.eye(9, 3) * [1, 1, np.nan], "only 0 points"),
    ],
)
def test_points_that_say_nothing_are_refused(points, message):
    with pytest.raises(InputError, match=f"thing: {message}"):
        as_geometry(points, "thing")


def test_points_of_any_unit_are_accepted():
    for unit in (1e-90, 1e-9, 1e9, 1e90):
        assert_array_equal(as_geometry(cloud().points * unit, "points").points, cloud().points * unit)
