"""Samples of surfaces and of clouds: reproducible, and moving with the shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.transform import Rotation
from scipy.stats import chisquare

from bitr.errors import InputError
from bitr.io import (
    Geometry,
    as_points,
    estimate_normals,
    even_draw,
    farthest_points,
    read,
    sample_surface,
    spacing_of,
    write,
)
from tests.io.samples import cloud, mesh


def surface(seed: int = 0, normals: bool = False) -> Geometry:
    ball = mesh(seed)
    return Geometry(
        np.array(ball.vertices),
        np.array(ball.vertex_normals) if normals else None,
        cloud(n=42).colors,
        np.array(ball.faces),
    )


def random_pose(seed: int, size: float = 100.0) -> np.ndarray:
    rng, pose = np.random.default_rng(seed), np.eye(4)
    pose[:3, :3], pose[:3, 3] = Rotation.random(random_state=seed).as_matrix(), rng.normal(size=3) * size
    return pose


def shape(n: int, seed: int = 0) -> np.ndarray:
    return sample_surface(surface(seed), n, seed).points


def move(points: np.ndarray, pose: np.ndarray) -> np.ndarray:
    return points @ pose[:3, :3].T + pose[:3, 3]


@pytest.mark.slow
@given(seed=st.integers(0, 100), scale=st.floats(1e-3, 1e3), normals=st.booleans())
@settings(deadline=None)
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


def naive(points, count):
    """Farthest-point sampling, word for word."""
    picked = [int(np.linalg.norm(points - points.mean(0), axis=1).argmax())]
    while len(picked) < count:
        distance = np.linalg.norm(points[:, None] - points[picked], axis=2).min(1)
        picked.append(int(distance.argmax()))
    return picked


def test_it_is_farthest_point_sampling():
    points = shape(500)
    assert farthest_points(points, 60).tolist() == naive(points, 60)


@given(
    seed=st.integers(0, 1000), factor=st.sampled_from([1e-6, 1.0, 1000.0]), away=st.sampled_from([1.0, 1e6])
)
@settings(deadline=None)
def test_the_choice_moves_with_the_cloud(seed, factor, away):
    points = shape(300, seed)
    elsewhere = move(points, random_pose(seed, away)) * factor
    assert farthest_points(elsewhere, 40).tolist() == farthest_points(points, 40).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_ties_are_decided_by_the_order_of_the_points_and_not_by_rounding(seed):
    axis = np.arange(8.0)
    grid = np.stack(np.meshgrid(axis, axis, axis), -1).reshape(-1, 3)
    assert (
        farthest_points(move(grid, random_pose(seed, 2.0)), 100).tolist()
        == farthest_points(grid, 100).tolist()
    )


def test_copies_are_not_picked_twice():
    points = np.repeat(np.random.default_rng(0).normal(size=(5, 3)), 20, axis=0)
    picked = farthest_points(points, 50)
    assert len(picked) == 5
    assert len(np.unique(points[picked], axis=0)) == 5


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_very_small_and_very_large_numbers(factor):
    points = shape(200)
    assert farthest_points(points * factor, 20).tolist() == farthest_points(points, 20).tolist()


def test_the_draw_depends_on_the_seed_and_the_number_of_points_alone():
    draw = even_draw(10_000, 500, seed=3)
    assert draw.tolist() == even_draw(10_000, 500, seed=3).tolist()
    assert draw.tolist() != even_draw(10_000, 500, seed=4).tolist()
    assert (np.diff(draw) > 0).all()
    assert len(draw) == 500
    assert even_draw(500, 500, seed=3).tolist() == list(range(500))


def test_the_draw_is_even():
    counts = sum(np.bincount(even_draw(100, 50, seed), minlength=100) for seed in range(400))
    assert abs(counts.mean() - 200) < 1e-9
    assert counts.min() > 150  # five standard deviations
    assert counts.max() < 250


def test_normals_of_a_sphere_point_outwards():
    points = np.random.default_rng(0).normal(size=(4000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    found = estimate_normals(points[:200], points)
    assert np.einsum("ni,ni->n", found, points[:200]).min() > 0.99


def test_normals_of_a_plane_are_its_own():
    flat = np.random.default_rng(0).uniform(size=(300, 3)) * [1, 1, 0]
    assert np.allclose(np.abs(estimate_normals(flat, flat)), [0, 0, 1])


@pytest.mark.parametrize("factor", [1e-150, 1.0, 1000.0])
def test_normals_turn_with_the_cloud(factor):
    points = shape(2000)
    pose = random_pose(1, 2.0)
    found = estimate_normals(move(points, pose)[:300] * factor, move(points, pose) * factor)
    assert np.allclose(found, estimate_normals(points[:300], points) @ pose[:3, :3].T, atol=1e-6)


def test_normals_of_fewer_points_than_neighbours():
    points = np.random.default_rng(0).normal(size=(5, 3))
    assert np.allclose(np.linalg.norm(estimate_normals(points, points), axis=1), 1)


def test_spacing_is_the_side_of_a_points_square_on_the_surface():
    """Points of a plane, uniform at a known density; a motion and the order change nothing, a scale all."""
    rng = np.random.default_rng(0)
    plane = np.column_stack([rng.uniform(0, 100, (4000, 2)), np.zeros(4000)])
    found = spacing_of(plane)
    assert found == pytest.approx(100 / np.sqrt(4000), rel=0.1)
    assert spacing_of(5 * plane[::-1] + 7) == pytest.approx(5 * found, rel=1e-9)
    assert spacing_of(plane[:1]) == 0.0
