"""What every geometry must pass: finite rows, enough of them, some extent, faces that exist."""

from __future__ import annotations

import numpy as np
import pytest
from bitr.io.meshes import triangulate
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from bitr.errors import InputError
from bitr.io import Geometry, as_geometry
from tests.io.samples import cloud, mesh


@given(
    bad=st.lists(st.integers(0, 39), max_size=30, unique=True),
    value=st.sampled_from([np.nan, np.inf, -np.inf]),
)
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


@given(lengths=st.lists(st.integers(0, 7), max_size=12))
def test_polygons_become_fans_in_their_order(lengths):
    polygons = [np.arange(n) + 100 * i for i, n in enumerate(lengths)]
    expected = [(p[0], p[k], p[k + 1]) for p in polygons for k in range(1, len(p) - 1)]
    found = triangulate(
        np.array([c for p in polygons for c in p], dtype=np.int64), np.array(lengths, dtype=np.int64)
    )
    assert_array_equal(found, np.array(expected, dtype=np.int64).reshape(-1, 3))
