"""Points on a surface: uniform by area, reproducible, and moving with the mesh."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.transform import Rotation
from scipy.stats import chisquare

from bitr.errors import InputError
from bitr.io import Geometry, as_points, read, sample_surface, write
from tests.io.samples import cloud, mesh


def surface(seed: int = 0, normals: bool = False) -> Geometry:
    ball = mesh(seed)
    return Geometry(
        np.array(ball.vertices),
        np.array(ball.vertex_normals) if normals else None,
        cloud(n=42).colors,
        np.array(ball.faces),
    )


def random_pose(seed: int) -> np.ndarray:
    rng, pose = np.random.default_rng(seed), np.eye(4)
    pose[:3, :3], pose[:3, 3] = Rotation.random(random_state=seed).as_matrix(), rng.normal(size=3) * 100
    return pose


@given(seed=st.integers(0, 100), scale=st.floats(1e-3, 1e3), normals=st.booleans())
def test_the_sample_moves_and_scales_with_the_mesh(seed, scale, normals):
    given_mesh, pose = surface(seed, normals), random_pose(seed)
    sample = sample_surface(given_mesh, 200, seed)
    moved = sample_surface(given_mesh.moved(pose), 200, seed)
    assert_allclose(moved.points, sample.moved(pose).points, atol=1e-11)
    assert_allclose(moved.normals, sample.moved(pose).normals, atol=1e-11)
    assert_array_equal(moved.colors, sample.colors)
    larger = sample_surface(Geometry(given_mesh.points * scale, faces=given_mesh.faces), 200, seed)
    assert_allclose(larger.points, sample.points * scale, atol=1e-12 * scale)


def test_a_moved_mesh_in_float32_is_sampled_at_the_same_places(tmp_path):
    given_mesh = surface()
    for seed in range(20):
        pose = random_pose(seed)
        write(tmp_path / "moved.glb", given_mesh.moved(pose), force=True)
        moved = sample_surface(read(tmp_path / "moved.glb"), 1000, seed)
        assert_allclose(moved.points, sample_surface(given_mesh, 1000, seed).moved(pose).points, atol=1e-5)


def test_the_seed_decides():
    first, same, other = (sample_surface(surface(), 50, seed).points for seed in (1, 1, 2))
    assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_points_lie_on_the_surface_and_are_uniform_by_area():
    given_mesh, n = surface(), 20_000
    sample = sample_surface(given_mesh, n, 0)
    assert sample.faces is None
    corners = given_mesh.points[given_mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    areas = np.linalg.norm(normals, axis=1)
    normals /= areas[:, None]
    # each face has its own normal here, so that normals tell which face a point is from
    face = np.argmax(sample.normals @ normals.T, axis=1)
    offset = np.einsum("nd,nd->n", sample.points - corners[face, 0], normals[face])
    assert_allclose(offset, 0, atol=1e-12)
    assert_allclose(sample.normals, normals[face], atol=1e-12)
    assert chisquare(np.bincount(face, minlength=80), n * areas / areas.sum()).pvalue > 1e-3


def test_within_a_face_the_points_are_uniform():
    triangle = Geometry(np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), faces=np.array([[0, 1, 2]]))
    points = sample_surface(triangle, 20_000, 0).points
    assert (points >= 0).all()
    assert (points[:, 0] + points[:, 1] <= 1 + 1e-12).all()
    # four congruent parts of the triangle
    part = np.select(
        [points[:, 0] > 0.5, points[:, 1] > 0.5, points[:, 0] + points[:, 1] < 0.5], [0, 1, 2], 3
    )
    assert chisquare(np.bincount(part, minlength=4)).pvalue > 1e-3


def test_faces_without_area_are_never_chosen():
    points = np.concatenate([np.eye(3), np.zeros((1, 3))])
    faces = np.array([[0, 0, 0], [0, 1, 2], [1, 1, 3], [0, 1, 1], [3, 3, 3]])
    sample = sample_surface(Geometry(points, faces=faces), 1000, 0)
    assert_allclose(sample.points.sum(axis=1), 1)
    assert np.isfinite(sample.normals).all()


def test_colors_and_normals_are_interpolated():
    points, faces = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2]])
    weights = np.eye(3)  # as colours, the corners' weights themselves
    sample = sample_surface(Geometry(points, weights, weights, faces), 100, 0)
    assert_allclose(sample.colors @ points, sample.points, atol=1e-12)
    assert_allclose(np.linalg.norm(sample.normals, axis=1), 1)
    assert_allclose(np.cross(sample.normals, sample.colors), 0, atol=1e-12)


def test_opposite_normals_fall_back_to_the_face():
    points, faces = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2]])
    sample = sample_surface(Geometry(points, np.zeros((3, 3)), None, faces), 10, 0)
    assert_allclose(sample.normals, np.tile([0.0, 0, 1], (10, 1)))


def test_as_points_samples_meshes_only():
    points = cloud()
    assert as_points(points, 5, 0) is points
    assert len(as_points(surface(), 5, 0).points) == 5
    with pytest.raises(InputError, match="no faces"):
        sample_surface(cloud(), 5, 0)
    with pytest.raises(InputError, match="cannot sample 0 points"):
        sample_surface(surface(), 0, 0)
