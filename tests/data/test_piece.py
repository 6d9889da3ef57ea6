"""Clouds and meshes as the model and the refinement see them."""

from dataclasses import replace

import numpy as np
import pytest

from bitr.assembly.refine import icp
from bitr.data.piece import as_piece
from bitr.data.poses import random_pose
from bitr.errors import InputError
from bitr.io import Geometry
from tests.assembly.cases import overlapping
from tests.assembly.solids import box


def cloud(n=60, seed=0):
    points, normals, colors = np.random.default_rng(seed).random((3, n, 3))
    return Geometry(points, normals, colors, name="cloud")


def taken(geometry, rows):
    parts = {key: getattr(geometry, key)[rows] for key in ("points", "normals", "colors")}
    return replace(geometry, **parts)


@pytest.mark.parametrize("budget", [40, 60, 200])
def test_of_copies_the_first_stays_with_its_normal_and_colour(budget):
    plain = cloud()
    rows = np.random.default_rng(1).integers(0, 60, 100)
    both = taken(plain, np.concatenate([np.arange(60), rows]))
    both.normals[60:] *= -1
    both.colors[60:] = 0
    found, expected = as_piece(both, budget, 0), as_piece(plain, budget, 0)
    for one, other in ((found.dense, expected.dense), (found.seen, expected.seen)):
        assert np.array_equal(one.points, other.points)
        assert np.array_equal(one.normals, other.normals)
        assert np.array_equal(one.colors, other.colors)


def test_zeros_of_either_sign_are_one_place():
    points = np.concatenate([np.eye(3), -np.eye(3), np.zeros((1, 3)), -np.zeros((1, 3))])
    assert np.array_equal(as_piece(Geometry(points), 20, 0).dense.points, points[:7])


def test_copies_go_along_with_a_motion():
    both, g = taken(cloud(), np.tile(np.arange(60), 3)), random_pose(np.random.default_rng(0), 2.0)
    one, other = as_piece(both, 40, 0), as_piece(both.moved(g), 40, 0)
    assert np.allclose(one.seen.moved(g).points, other.seen.points, atol=1e-12)
    assert np.allclose(one.dense.moved(g).points, other.dense.points, atol=1e-12)


def test_copies_do_not_change_a_refinement():
    pair = overlapping(0, n=400)
    x, y = pair.source.points, pair.reference.points
    many = [as_piece(Geometry(np.repeat(side, 9, axis=0)), 1000, 0).dense.points for side in (x, y)]
    found, expected = icp(*many, pair.ref_from_src), icp(x, y, pair.ref_from_src)
    assert expected.moved
    assert np.array_equal(found.pose, expected.pose)


@pytest.mark.parametrize("budget", [10, 1000])
def test_too_few_places_are_refused(budget):
    three = Geometry(np.repeat(np.eye(3), 20, axis=0), name="three")
    with pytest.raises(InputError, match=r"^three: only 3 of 60 points are at different places"):
        as_piece(three, budget, 0)
    four = Geometry(np.repeat(np.concatenate([np.eye(3), np.zeros((1, 3))]), 20, axis=0))
    assert len(as_piece(four, budget, 0).seen.points) == 4


def test_points_on_a_mesh_are_all_kept():
    piece = as_piece(box(), 50, 0)
    assert len(piece.dense.points) == 16 * 50
    assert len(piece.seen.points) == 50
