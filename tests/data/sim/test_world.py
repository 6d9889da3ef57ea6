import numpy as np
import pytest
import trimesh

from bitr.data.sim.objects import Body, random_plate
from bitr.data.sim.world import see
from bitr.io import Geometry, sample_surface

CENTER, RADIUS = np.array([0.1, -0.2, 0.3]), 0.05


def sphere():
    ball = trimesh.creation.icosphere(5, radius=RADIUS)
    surface = Geometry(np.asarray(ball.vertices) + CENTER, faces=np.asarray(ball.faces, dtype=np.int64))
    return Body("ball", surface, ())


@pytest.mark.parametrize("elevations", [(0.0,), (40.0, -60.0), (20.0, 50.0, 20.0)])
def test_depth_images_of_a_sphere_lie_on_the_sphere(elevations):
    pytest.importorskip("pybullet")
    seen = see(sphere(), elevations, np.random.default_rng(0), 400)
    assert len(seen) == 400
    radii = np.linalg.norm(seen - CENTER, axis=1)
    assert np.abs(radii - RADIUS).max() < 1e-4  # a pixel is 0.7 mm wide, an edge of the ball 0.02 mm inside


def test_one_camera_sees_one_side():
    pytest.importorskip("pybullet")
    seen = see(sphere(), (90.0 - 1e-3,), np.random.default_rng(0), 400)
    assert (seen[:, 2] > CENTER[2]).all()


def test_cameras_above_a_plate_do_not_see_its_underside_and_the_surface_has_it():
    pytest.importorskip("pybullet")
    plate, rng = random_plate("plate", np.random.default_rng(0)), np.random.default_rng(0)
    low = 0.001
    from_above = see(plate, (20.0, 50.0) * 3, rng, 500)
    everything = sample_surface(plate.surface, 500, 0).points
    assert (from_above[:, 2] < low).mean() < 0.02 < 0.1 < (everything[:, 2] < low).mean()


def test_the_same_generator_gives_the_same_cloud():
    pytest.importorskip("pybullet")
    clouds = [see(sphere(), (30.0, -30.0), np.random.default_rng(7), 100) for _ in range(2)]
    assert np.array_equal(*clouds)
