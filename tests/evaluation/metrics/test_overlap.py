"""3DMatch's criterion: by hand, and beside the distances of the points themselves."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bitr.data import dataset
from bitr.data.poses import pose, random_pose
from bitr.evaluation.metrics import information_matrix, overlap, registration_rmse


def test_the_information_matrix_of_one_point_by_hand():
    # p = (1, 2, 3): G = [I | −2[p]×], −2[p]× = [[0, 6, −4], [−6, 0, 2], [4, −2, 0]]
    g = np.array([[1, 0, 0, 0, 6, -4], [0, 1, 0, -6, 0, 2], [0, 0, 1, 4, -2, 0]])
    np.testing.assert_array_equal(information_matrix(np.array([[1.0, 2.0, 3.0]])), g.T @ g)


def test_a_shift_of_3_4_0_is_an_rmse_of_5():
    information = information_matrix(np.random.default_rng(0).normal(size=(40, 3)))
    truth = random_pose(np.random.default_rng(1), 3.0)
    assert registration_rmse(truth, truth, information) == pytest.approx(0, abs=1e-9)
    shifted = pose(np.eye(3), np.array([3.0, 4.0, 0.0])) @ truth
    assert registration_rmse(shifted, truth, information) == pytest.approx(5)


def test_a_quarter_turn_about_a_point_one_away_by_hand():
    # q = (0, 0, sin 45°), p = (1, 0, 0): 2 sin 45° = √2, which is the chord of a quarter circle
    turned = pose(Rotation.from_rotvec([0, 0, np.pi / 2]).as_matrix(), np.zeros(3))
    information = information_matrix(np.array([[1.0, 0.0, 0.0]]))
    assert registration_rmse(turned, np.eye(4), information) == pytest.approx(np.sqrt(2))


@pytest.mark.parametrize("angle", [1e-3, 1e-2, 0.05])
def test_for_small_errors_it_is_the_rms_distance_of_the_points(angle):
    rng = np.random.default_rng(0)
    points, truth = rng.normal(size=(100, 3)) + 2, random_pose(rng, 2.0)
    turn = pose(Rotation.from_rotvec(angle * rng.normal(size=3)).as_matrix(), angle * rng.normal(size=3))
    found = truth @ turn
    off = points @ found[:3, :3].T + found[:3, 3] - points @ truth[:3, :3].T - truth[:3, 3]
    rms = np.sqrt(np.square(off).sum(1).mean())
    assert registration_rmse(found, truth, information_matrix(points)) == pytest.approx(rms, rel=2 * angle)


def test_the_overlap_is_what_has_a_partner_in_place():
    truth = random_pose(np.random.default_rng(0), 1.0)
    source = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    reference = source[1:] @ truth[:3, :3].T + truth[:3, 3] + np.array([0.0, 0.04, 0.0])
    np.testing.assert_array_equal(overlap(source, reference, truth), source[1:])
    assert len(overlap(source, reference, truth, within=0.03)) == 0


def test_neighbouring_fragments_of_3dmatch_overlap(real_data):
    pair = dataset("indoor", root=real_data)[0]
    shared = overlap(pair.source.points, pair.reference.points, pair.ref_from_src)
    assert len(shared) > len(pair.source.points) / 3
    near = pair.ref_from_src @ pose(np.eye(3), np.array([0.1, 0.0, 0.0]))
    assert registration_rmse(near, pair.ref_from_src, information_matrix(shared)) == pytest.approx(0.1)
