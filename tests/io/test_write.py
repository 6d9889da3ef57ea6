"""Written geometry comes back: exactly where the format has doubles, to rounding where it has not."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from bitr.errors import InputError
from bitr.io import SUFFIXES, Geometry, read, write, write_scene
from bitr.io.write import WRITERS
from tests.io.samples import cloud, mesh

EXACT = (".ply", ".pcd", ".npz", ".npy", ".xyz", ".obj")
NORMALS = (".ply", ".pcd", ".npz", ".xyz", ".obj", ".glb")
COLORS = {".ply": 0.5 / 255, ".pcd": 0.5 / 255, ".glb": 0.5 / 255, ".npz": 0.0, ".xyz": 0.0, ".obj": 0.0}
"""Largest error of a colour."""
FACES = (".ply", ".npz", ".obj", ".glb")


def again(geometry: Geometry, suffix: str) -> Geometry:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"again{suffix}"
        write(path, geometry)
        return read(path)


numbers = st.floats(-1e7, 1e7, allow_subnormal=False)
clouds = st.integers(4, 20).flatmap(lambda n: arrays(np.float64, (n, 3), elements=numbers))


@pytest.mark.parametrize("suffix", SUFFIXES.write)
@given(points=clouds)
@settings(max_examples=30, deadline=None)
def test_points_come_back(suffix, points):
    extent = np.ptp(points, axis=0).max()
    assume(extent > 1e-3)
    found = again(Geometry(points), suffix)
    assert found.faces is None
    assert found.warnings == ()
    if suffix in EXACT:
        assert_array_equal(found.points, points)
    else:  # float32 around the middle, which is in float64
        assert_allclose(found.points, points, rtol=0, atol=1e-7 * extent + 1e-15 * np.abs(points).max())


@pytest.mark.parametrize("suffix", NORMALS)
@given(seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_normals_and_colors_come_back(suffix, seed):
    geometry = cloud(seed)
    found = again(geometry, suffix)
    assert found.normals is not None
    assert found.colors is not None
    assert_array_equal(found.normals, geometry.normals)
    assert_allclose(found.colors, geometry.colors, rtol=0, atol=COLORS[suffix] + 1e-16)


@pytest.mark.parametrize("suffix", FACES)
def test_meshes_come_back_with_their_faces(suffix):
    ball = mesh()
    given_mesh = Geometry(
        np.array(ball.vertices), np.array(ball.vertex_normals), cloud(n=42).colors, np.array(ball.faces)
    )
    found = again(given_mesh, suffix)
    assert_array_equal(found.faces, given_mesh.faces)
    assert_allclose(found.points, given_mesh.points, rtol=0, atol=1e-7)
    assert_allclose(found.normals, given_mesh.normals, rtol=0, atol=1e-7)
    assert_allclose(found.colors, given_mesh.colors, rtol=0, atol=0.51 / 255)


def test_npy_keeps_unit_normals_and_colors_in_columns():
    geometry = cloud()
    found = again(geometry, ".npy")
    assert_array_equal(found.normals, geometry.normals)
    assert_allclose(found.colors, geometry.colors, rtol=0, atol=1e-16)


def test_pcd_has_float32_unless_that_loses_something(tmp_path):
    write(tmp_path / "small.pcd", cloud())
    write(tmp_path / "map.pcd", Geometry(cloud().points + 4.2e6))
    assert b"SIZE 4 4 4 4 4 4 4\n" in (tmp_path / "small.pcd").read_bytes()
    assert b"SIZE 8 8 8\n" in (tmp_path / "map.pcd").read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES.write)
def test_a_scene_has_all_parts_with_colors_of_their_own(suffix, tmp_path):
    a, b = Geometry(cloud(0).points), Geometry(cloud(1, n=30).points)
    write_scene(tmp_path / f"scene{suffix}", {"handle": a, "mug": b})
    found = read(tmp_path / f"scene{suffix}")
    assert_allclose(found.points, np.concatenate([a.points, b.points]), rtol=0, atol=1e-6)
    assert found.colors is not None
    assert len(np.unique(found.colors, axis=0)) == 2
    assert (found.colors[:40] == found.colors[0]).all()


@pytest.mark.parametrize("suffix", [".obj", ".glb"])
def test_the_parts_of_a_scene_keep_their_names_and_faces(suffix, tmp_path):
    ball = mesh()
    part = Geometry(np.array(ball.vertices), np.array(ball.vertex_normals), None, np.array(ball.faces))
    bare = Geometry(part.points + 3, None, None, part.faces)
    path = tmp_path / f"scene{suffix}"
    write_scene(path, {"handle": part, "bare one": bare, "mug": part})
    data = path.read_bytes()
    assert data.index(b"handle") < data.index(b"mug")
    found = read(path)
    assert found.faces is not None
    assert_array_equal(found.faces, np.concatenate([part.faces, part.faces + 42, part.faces + 84]))
    assert_allclose(found.points, np.concatenate([part.points, bare.points, part.points]), atol=1e-6)


def test_an_existing_file_is_only_overwritten_when_told_to(tmp_path):
    path = tmp_path / "out.ply"
    path.write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        write(path, cloud())
    assert path.read_text() == "precious"
    write(path, cloud(), force=True)
    assert len(read(path).points) == 40


def test_nothing_partial_is_left_after_an_error(tmp_path, monkeypatch):
    def disk_full(file, parts):
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setitem(WRITERS, ".ply", disk_full)
    with pytest.raises(InputError, match=r"out\.ply: cannot be written \(No space left on device\)"):
        write(tmp_path / "out.ply", cloud())
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_suffix_is_told_with_the_known_ones(tmp_path):
    with pytest.raises(InputError, match=r"cannot write \.step, expected one of \.ply"):
        write(tmp_path / "out.step", cloud())
    with pytest.raises(InputError, match="no parts"):
        write_scene(tmp_path / "out.ply", {})
