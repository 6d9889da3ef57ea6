"""The nearest of several right answers: listed ones, and all turns about an axis."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.spatial.transform import Rotation

from bitr.data.poses import inverse, move_points, pose, random_pose, turn_about
from bitr.evaluation.metrics import nearest_truth, rotation_error_deg
from tests.evaluation.metrics.test_pose import NOWHERE, act, case

Z = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]])


def turns_about_z(count):
    angles = 2 * np.pi * np.arange(count) / count
    return np.stack([pose(Rotation.from_rotvec([0, 0, a]).as_matrix(), NOWHERE) for a in angles])


def test_of_several_truths_the_nearest_counts():
    # a square pillar: turned by 100° it is 10° from its place, not 100°
    x = y = np.random.default_rng(0).normal(size=(50, 3))
    found = pose(Rotation.from_rotvec([0, 0, np.radians(100)]).as_matrix(), NOWHERE)
    truth = nearest_truth(found, turns_about_z(4), x, y)
    assert rotation_error_deg(found, truth) == pytest.approx(10)
    assert rotation_error_deg(found, np.eye(4)) == pytest.approx(100)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_nearest_truth_moves_along_and_is_found_point_by_point(seed):
    found, truth, g1, g2, x, y = case(seed)
    truths = truth @ turns_about_z(5)
    nearest = nearest_truth(found, truths, x, y)
    off = [
        np.square(act(found, x) - act(t, x)).sum(1).mean()
        + np.square(act(inverse(found), y) - act(inverse(t), y)).sum(1).mean()
        for t in truths
    ]
    np.testing.assert_array_equal(nearest, truths[np.argmin(off)])
    moved = nearest_truth(g2 @ found @ inverse(g1), g2 @ truths @ inverse(g1), act(g1, x), act(g2, y))
    np.testing.assert_allclose(moved, g2 @ nearest @ inverse(g1), atol=1e-9)
    np.testing.assert_allclose(
        nearest_truth(inverse(found), inverse(truths), y, x), inverse(nearest), atol=1e-9
    )


def test_a_turn_about_the_axis_is_no_error():
    rng = np.random.default_rng(0)
    x, truth, axis = rng.normal(size=(50, 3)), random_pose(rng, 2.0), rng.normal(size=(2, 3))
    found = truth @ turn_about(axis, 2.1)
    np.testing.assert_allclose(nearest_truth(found, truth[None], x, act(truth, x), axis), found, atol=1e-12)
    assert rotation_error_deg(found, truth) == pytest.approx(np.degrees(2.1))


def test_a_bowl_that_leans_by_ten_degrees_is_ten_degrees_off_however_it_is_turned():
    lean = pose(Rotation.from_rotvec([np.radians(10), 0, 0]).as_matrix(), NOWHERE)
    x = np.random.default_rng(0).normal(size=(50, 3))
    x = np.concatenate([act(turn_about(Z, angle), x) for angle in np.linspace(0, 2 * np.pi, 90)])
    found = lean @ turn_about(Z, 1.0)
    truth = nearest_truth(found, np.eye(4)[None], x, x, Z)
    assert rotation_error_deg(found, truth) == pytest.approx(10, abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_nearest_turn_is_found_exactly_and_moves_along(seed):
    found, truth, g1, g2, x, y = case(seed)
    axis = np.random.default_rng(seed).normal(size=(2, 3))
    flip = pose(Rotation.from_rotvec(np.pi * np.array([1.0, 0, 0])).as_matrix(), NOWHERE)
    truths = truth @ np.stack([np.eye(4), flip])

    def off(t):
        there = np.square(act(found, x) - act(t, x)).sum(1).mean()
        return there + np.square(act(inverse(found), y) - act(inverse(t), y)).sum(1).mean()

    nearest = nearest_truth(found, truths, x, y, axis)
    lowest = min(
        minimize_scalar(lambda a, t=t: off(t @ turn_about(axis, a)), bounds=(start, start + 3)).fun
        for t in truths
        for start in (-3.2, -0.2)
    )
    assert off(nearest) <= lowest * (1 + 1e-9)
    assert min(np.abs(nearest @ [*axis[i], 1] - t @ [*axis[i], 1]).max() for t in truths for i in (0,)) < 1e-9
    moved = nearest_truth(
        g2 @ found @ inverse(g1), g2 @ truths @ inverse(g1), act(g1, x), act(g2, y), move_points(g1, axis)
    )
    np.testing.assert_allclose(moved, g2 @ nearest @ inverse(g1), atol=1e-6)
    one = nearest_truth(found, truth[None], x, y, axis)
    swapped = nearest_truth(inverse(found), inverse(truth)[None], y, x, move_points(truth, axis))
    np.testing.assert_allclose(swapped, inverse(one), atol=1e-6)
