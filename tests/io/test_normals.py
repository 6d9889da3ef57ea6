import numpy as np
import pytest
from bitr.io import estimate_normals

from tests.app.cases import motion, moved, two_pieces


def test_on_a_sphere_they_point_outwards():
    points = np.random.default_rng(0).normal(size=(4000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    found = estimate_normals(points[:200], points)
    assert np.einsum("ni,ni->n", found, points[:200]).min() > 0.99


def test_on_a_plane_they_are_its_normal():
    flat = np.random.default_rng(0).uniform(size=(300, 3)) * [1, 1, 0]
    assert np.allclose(np.abs(estimate_normals(flat, flat)), [0, 0, 1])


@pytest.mark.parametrize("factor", [1e-150, 1.0, 1000.0])
def test_they_turn_with_the_cloud(factor):
    points, _ = two_pieces(2000)
    pose = motion(1)
    found = estimate_normals(moved(points, pose)[:300] * factor, moved(points, pose) * factor)
    assert np.allclose(found, estimate_normals(points[:300], points) @ pose[:3, :3].T, atol=1e-6)


def test_fewer_points_than_neighbours():
    points = np.random.default_rng(0).normal(size=(5, 3))
    assert np.allclose(np.linalg.norm(estimate_normals(points, points), axis=1), 1)
