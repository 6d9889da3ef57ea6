from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bitr.data.poses import inverse, pose, random_pose
from bitr.hypotheses import Nearness, merged, ranked
from tests.hypotheses.shapes import SOLIDS, cyclic, dihedral, solid

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


FIFTHS = np.stack([pose(r, np.zeros(3)) for r in cyclic(5)])


@pytest.mark.parametrize("step", range(1, 5))
@pytest.mark.parametrize("most", [2, 3, 64])
def test_a_swap_inverts_the_first_pose_and_keeps_all_weights_however_few_are_asked_for(most, step):
    """Also where two proposals agree up to a turn of which the inverse might come back and not itself."""
    rng = np.random.default_rng(0)
    g, other = random_pose(rng, 0.3), random_pose(rng, 0.3)
    poses, fitness = np.stack([g, g @ FIFTHS[step], other]), [0.3, 0.3, 0.35]
    found = ranked(poses, fitness, FIFTHS, NONE, NEAR, most)
    swapped = ranked(inverse(poses), fitness, NONE, FIFTHS, NEAR, most)
    assert found.proposal[0] == swapped.proposal[0] == 0  # two votes
    assert np.allclose(inverse(found.poses[:1])[0], swapped.poses[0])
    assert np.allclose(found.weights, swapped.weights)


@pytest.mark.parametrize("most", [1, 2, 5, 8])
def test_fewer_are_the_first_of_more_with_weights_in_the_same_proportions(most):
    """Of two poses of which one has 9 images, and the other 3."""
    few, many = (ranked(turned(90, 0), [0.3, 0.2], THIRDS, THIRDS, NEAR, k) for k in (most, 64))
    assert len(many.poses) == 12
    assert np.array_equal(few.poses, many.poses[:most])
    assert few.proposal == many.proposal[:most]
    assert np.allclose(few.weights, many.weights[:most] / many.weights[:most].sum())


def test_of_two_alike_pieces_a_pose_that_takes_symmetries_to_symmetries_comes_first():
    """The other one fits a little better, but has three times as many images."""
    found = ranked(turned(90, 0), [0.3, 0.2], THIRDS, THIRDS, NEAR, 64)
    assert found.proposal[0] == 1
    assert found.weights[0] == pytest.approx(found.weights[-1] * 3 * 0.21 / 0.31)
    assert len(found.poses) == 3 + 9


@pytest.mark.parametrize("most", [2, 7, 64])
def test_a_swap_keeps_order_and_weights_where_both_pieces_are_symmetric(most):
    """Of two cubes and others, with poses that are right, that agree, and that are anywhere."""
    rng = np.random.default_rng(0)
    cube = sorted(SOLIDS["cube"][1], key=lambda r: -np.trace(r))  # the identity first
    groups = [np.stack([pose(r, np.zeros(3)) for r in turns]) for turns in (cube, dihedral(3), cyclic(5))]
    for x, y in [(x, y) for x in groups for y in groups]:
        poses, fitness = np.stack([random_pose(rng, 0.3) for _ in range(4)]), rng.random(4).tolist()
        poses[2], poses[3, :3, :3] = y[-1] @ poses[0] @ x[1], np.eye(3)
        found = ranked(poses, fitness, x, y, NEAR, most)
        swapped = ranked(inverse(poses), fitness, y, x, NEAR, most)
        assert found.proposal == swapped.proposal
        assert 2 not in found.proposal
        assert np.allclose(found.weights, swapped.weights)
