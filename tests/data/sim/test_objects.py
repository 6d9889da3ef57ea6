import numpy as np
import pytest
import trimesh
from scipy.spatial import ConvexHull

from bitr.data.sim.objects import (
    CELL,
    center_of_mass,
    convex_pieces,
    find_hole,
    random_bowl,
    random_hanger,
    random_mug,
    random_plate,
)
from bitr.io import Geometry

THICKEST_PEG = 0.0055
MAKERS = (random_mug, random_bowl, random_plate, lambda name, rng: random_hanger(name, rng)[0])


def mesh_of(surface):
    return trimesh.Trimesh(surface.points, surface.faces, process=False)


def depth_in(pieces, points):
    """Depth of each point in the piece that it is deepest in; below 0 for points outside of all."""
    equations = [ConvexHull(piece).equations for piece in pieces]
    return np.max([-(points @ e[:, :3].T + e[:, 3]).max(axis=1) for e in equations], axis=0)


@pytest.mark.parametrize("make", MAKERS, ids=["mug", "bowl", "plate", "hanger"])
@pytest.mark.parametrize("seed", range(4))
def test_the_pieces_that_touch_fill_the_surface_that_is_seen(make, seed):
    body = make("it", np.random.default_rng(seed))
    volume = sum(ConvexHull(piece).volume for piece in body.pieces)
    assert volume == pytest.approx(mesh_of(body.surface).volume, rel=0.03)  # outwards, chords inside circles
    assert np.abs(depth_in(body.pieces, body.surface.points)).max() < 0.06 * body.size


@pytest.mark.parametrize("make", [random_bowl, random_plate], ids=["bowl", "plate"])
def test_the_centre_of_mass_is_that_of_the_mesh(make):
    body = make("it", np.random.default_rng(5))
    assert np.allclose(center_of_mass(body.pieces), mesh_of(body.surface).center_mass, atol=1e-3)
    assert np.allclose(center_of_mass(body.about_center().pieces), 0, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_every_mug_has_a_handle_that_every_peg_fits_through(seed):
    mug = random_mug("mug", np.random.default_rng(seed))
    hole = find_hole(mug)
    assert hole is not None
    assert hole.radius > 1.5 * THICKEST_PEG
    assert np.cross(hole.axis, (0, 0, 1)) @ (hole.center - mug.surface.points.mean(axis=0)) > 0
    bar = hole.center + np.linspace(-0.1, 0.1, 201)[:, None] * hole.axis
    assert depth_in(mug.pieces, bar).max() < -1.5 * THICKEST_PEG


@pytest.mark.parametrize("make", [random_bowl, random_plate], ids=["bowl", "plate"])
def test_what_has_no_handle_has_no_hole(make):
    assert find_hole(make("it", np.random.default_rng(0)), directions=6) is None


def test_the_peg_to_hang_on_is_the_highest_and_goes_up_and_out():
    counts = set()
    for seed in range(30):
        _, pegs = random_hanger("hanger", np.random.default_rng(seed))
        counts.add(len(pegs))
        assert pegs[0].base[2] == max(peg.base[2] for peg in pegs)
        assert all(0.2 < peg.direction[2] < 0.6 for peg in pegs)
    assert counts == {1, 2}


def test_pieces_of_a_mesh_keep_its_hole_open_and_cover_its_skin():
    ring = trimesh.creation.torus(0.05, 0.008, 48, 24)
    surface = Geometry(np.asarray(ring.vertices), faces=np.asarray(ring.faces, dtype=np.int64))
    pieces = convex_pieces(surface)
    assert max(np.ptp(piece, axis=0).max() for piece in pieces) < CELL + 0.005
    on_it = np.asarray(trimesh.sample.sample_surface(ring, 2000, seed=0)[0])
    assert np.abs(depth_in(pieces, on_it)).max() < 0.002
    axis = np.zeros((11, 3))
    axis[:, 2] = np.linspace(-0.05, 0.05, 11)
    assert depth_in(pieces, axis).max() < -0.03
