from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bitr.data.poses import inverse, pose
from bitr.hypotheses import Nearness, merged, ranked
from tests.hypotheses.shapes import cyclic, solid

X = solid("cube", 0)
NEAR = Nearness.of(X - X.mean(0), X - X.mean(0))
NONE = np.eye(4)[None]
THIRDS = np.stack([pose(r, np.zeros(3)) for r in cyclic(3)])


def turned(*degrees, axis=(1.0, 0.0, 0.0)):
    rotations = Rotation.from_rotvec(np.radians(degrees)[:, None] * np.array(axis)).as_matrix()
    return np.stack([pose(r, np.zeros(3)) for r in rotations])


def test_one_proposal_without_symmetries_is_all_there_is():
    found = ranked(turned(30), [0.3], NONE, NONE, NEAR, 8)
    assert np.array_equal(found.poses, turned(30))
    assert found.weights.tolist() == [1.0]
    assert found.proposal == (0,)


def test_images_of_a_symmetric_piece_have_equal_weights():
    found = ranked(turned(30), [0.3], THIRDS, NONE, NEAR, 8)
    assert found.weights.tolist() == [pytest.approx(1 / 3)] * 3
    assert len(set(found.weights.tolist())) == 1
    assert found.proposal == (0, None, None)


def test_proposals_that_agree_are_one_and_weigh_more():
    found = ranked(turned(0, 90, 94, 180), [0.2, 0.1, 0.2, 0.1], NONE, NONE, NEAR, 8)
    assert found.proposal == (2, 0, 3)  # the better one of the two that agree
    expected = np.array([2 * 0.21, 0.21, 0.11])
    assert np.allclose(found.weights, expected / expected.sum())


def test_the_first_proposal_stands_for_those_that_agree_with_it():
    found = ranked(turned(0, 4), [0.1, 0.9], NONE, NONE, NEAR, 8)
    assert found.proposal == (0,)
    assert np.array_equal(found.poses[0], np.eye(4))


def test_proposals_that_agree_up_to_a_symmetry_are_one():
    poses = np.concatenate([NONE, turned(120, axis=(0.0, 0.0, 1.0)), turned(90)])
    found = ranked(poses, [0.2, 0.2, 0.2], THIRDS, NONE, NEAR, 8)
    assert found.proposal == (0, None, None, 2, None, None)
    assert np.allclose(found.weights, [2 / 9] * 3 + [1 / 9] * 3)


def test_no_more_than_were_asked_for_and_their_weights_add_up_to_one():
    found = ranked(turned(0, 90, 180), [0.2, 0.3, 0.4], THIRDS, NONE, NEAR, 4)
    assert len(found.poses) == len(found.weights) == len(found.proposal) == 4
    assert found.weights.sum() == pytest.approx(1)
    assert (np.diff(found.weights) <= 0).all()
    assert np.array_equal(found.poses[0], turned(180)[0])


def test_pieces_that_nowhere_meet_still_have_weights():
    assert np.allclose(ranked(turned(0, 90), [0.0, 0.0], NONE, NONE, NEAR, 4).weights, [0.5, 0.5])


def test_poses_that_came_together_are_merged():
    found = ranked(turned(0, 90, 180), [0.2, 0.3, 0.4], NONE, NONE, NEAR, 4)
    together = merged(replace(found, poses=turned(180, 175, 0)), NEAR)
    assert np.array_equal(together.poses, turned(180, 0))
    assert np.allclose(together.weights, np.array([0.41, 0.21]) / 0.62)
    assert together.proposal == (2, 0)


def test_a_swap_inverts_the_poses_and_keeps_their_weights():
    poses, fitness = turned(0, 80, 170), [0.2, 0.1, 0.3]
    found = ranked(poses, fitness, THIRDS, NONE, NEAR, 64)
    swapped = ranked(inverse(poses), fitness, NONE, THIRDS, NEAR, 64)
    assert np.allclose(found.weights, swapped.weights)
    gap = np.abs(inverse(found.poses)[:, None] - swapped.poses).max((2, 3))
    assert gap.min(1).max() < 1e-12
