"""Δr, Δt and the displacement: numbers worked out by hand, and what does not change them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from bitr.data.poses import inverse, pose, random_pose
from bitr.evaluation.metrics import displacement, rotation_error_deg, translation_error

QUARTER = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # about z, x to y
NOWHERE = np.zeros(3)


def points_of(rng, n):
    return rng.normal(size=(n, 3)) + 5 * rng.normal(size=3)


def case(seed):
    rng = np.random.default_rng(seed)
    poses = [random_pose(rng, 2.0) for _ in range(4)]
    return *poses, points_of(rng, 20), points_of(rng, 30)


def act(g, x):
    return x @ g[:3, :3].T + g[:3, 3]


def test_a_quarter_turn_is_90_degrees_and_3_4_0_is_5_away():
    found = pose(QUARTER, np.array([3.0, 4.0, 0.0]))
    assert rotation_error_deg(found, np.eye(4)) == pytest.approx(90)
    assert translation_error(found, np.eye(4)) == 5


def test_displacement_worked_out_by_hand():
    # m(X) = (1, 0, 0). The quarter turn takes it to (0, 1, 0): √2 away. m(Y) = (0, 0, 2) is on the axis: 0.
    source = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    reference = np.array([[1.0, 0.0, 2.0], [-1.0, 0.0, 2.0]])
    found = pose(QUARTER, NOWHERE)
    assert displacement(found, np.eye(4), source, reference) == pytest.approx(np.sqrt(2) / 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_angle_is_the_papers_and_scipys(seed):
    found, truth, *_ = case(seed)
    turn = found[:3, :3] @ truth[:3, :3].T
    by_trace = np.degrees(np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1)))
    assert rotation_error_deg(found, truth) == pytest.approx(by_trace, abs=1e-5)
    assert rotation_error_deg(found, truth) == pytest.approx(
        np.degrees(Rotation.from_matrix(turn).magnitude()), abs=1e-9
    )


def test_small_angles_keep_their_digits():
    tiny = pose(Rotation.from_rotvec([0, 0, 1e-9]).as_matrix(), NOWHERE)
    assert rotation_error_deg(tiny, np.eye(4)) == pytest.approx(np.degrees(1e-9), rel=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_motions_of_either_cloud_change_neither_rotation_error_nor_displacement(seed):
    found, truth, g1, g2, x, y = case(seed)
    moved, moved_truth = g2 @ found @ inverse(g1), g2 @ truth @ inverse(g1)
    assert rotation_error_deg(moved, moved_truth) == pytest.approx(rotation_error_deg(found, truth))
    before, after = (
        displacement(found, truth, x, y),
        displacement(moved, moved_truth, act(g1, x), act(g2, y)),
    )
    assert after == pytest.approx(before)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_swap_changes_neither_rotation_error_nor_displacement(seed):
    found, truth, _, _, x, y = case(seed)
    back = inverse(found), inverse(truth)
    assert rotation_error_deg(*back) == pytest.approx(rotation_error_deg(found, truth))
    assert displacement(*back, y, x) == pytest.approx(displacement(found, truth, x, y))


def test_the_translation_error_depends_on_the_origin_and_the_displacement_does_not():
    found, truth, x = pose(QUARTER, NOWHERE), np.eye(4), np.random.default_rng(0).normal(size=(9, 3))
    shift = pose(np.eye(3), np.array([10.0, 0.0, 0.0]))
    moved, moved_truth = found @ inverse(shift), truth @ inverse(shift)
    assert translation_error(found, truth) == 0
    assert translation_error(moved, moved_truth) == pytest.approx(10 * np.sqrt(2))
    assert displacement(moved, moved_truth, act(shift, x), x) == pytest.approx(
        displacement(found, truth, x, x)
    )
