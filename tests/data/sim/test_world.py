import numpy as np
import pytest
import trimesh

from bitr.data.sim import Cameras, Surface
from bitr.data.sim.objects import Body, random_plate
from bitr.io import Geometry

CENTER, RADIUS = np.array([0.1, -0.2, 0.3]), 0.05


def sphere():
    ball = trimesh.creation.icosphere(5, radius=RADIUS)
    surface = Geometry(np.asarray(ball.vertices) + CENTER, faces=np.asarray(ball.faces, dtype=np.int64))
    return Body("ball", surface, ())


@pytest.mark.parametrize("elevations", [(0.0,), (40.0, -60.0), (20.0, 50.0, 20.0)])
def test_depth_images_of_a_sphere_lie_on_the_sphere(elevations):
    pytest.importorskip("pybullet")
    seen = Cameras(points=400).see(sphere(), elevations, np.random.default_rng(0))
    assert len(seen.points) == 400
    radii = np.linalg.norm(seen.points - CENTER, axis=1)
    assert np.abs(radii - RADIUS).max() < 1e-4  # a pixel is 0.7 mm wide, an edge of the ball 0.02 mm inside


def test_one_camera_sees_one_side():
    pytest.importorskip("pybullet")
    seen = Cameras(points=400).see(sphere(), (90.0 - 1e-3,), np.random.default_rng(0))
    assert (seen.points[:, 2] > CENTER[2]).all()


def test_cameras_above_a_plate_do_not_see_its_underside_and_the_surface_has_it():
    pytest.importorskip("pybullet")
    plate, rng = random_plate("plate", np.random.default_rng(0)), np.random.default_rng(0)
    low = 0.001
    from_above = Cameras(500).see(plate, (20.0, 50.0) * 3, rng).points
    everything = Surface(500).see(plate, (20.0, 50.0) * 3, rng)
    assert (from_above[:, 2] < low).mean() < 0.02 < 0.1 < (everything.points[:, 2] < low).mean()
    assert np.allclose(np.linalg.norm(everything.normals, axis=1), 1)


def test_the_same_generator_gives_the_same_cloud():
    pytest.importorskip("pybullet")
    clouds = [Cameras(100).see(sphere(), (30.0, -30.0), np.random.default_rng(7)).points for _ in range(2)]
    assert np.array_equal(*clouds)


def test_sensors_with_other_settings_have_other_names():
    assert (
        len({Cameras().name, Cameras(500).name, Cameras(pixels=80).name, Surface().name, Surface(7).name})
        == 5
    )
