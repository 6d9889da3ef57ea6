"""Chamfer, part accuracy and ADD-S: by hand, and beside all distances."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from bitr.data.poses import pose, random_pose
from bitr.evaluation.metrics import add_s, chamfer, part_accuracy, part_chamfer, shape_chamfer

BAR = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])


def shifted(*by):
    return pose(np.eye(3), np.array(by, dtype=np.float64))


def test_chamfer_by_hand():
    # from a: 0² and 3²; from b: 0². (0 + 9)/2 + 0 = 4.5
    a, b = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 3.0]]), np.array([[0.0, 0.0, 0.0]])
    assert chamfer(a, b) == chamfer(b, a) == 4.5


def test_chamfer_is_that_of_all_distances():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(60, 3)), rng.normal(size=(80, 3))
    squared = cdist(a, b, "sqeuclidean")
    assert chamfer(a, b) == pytest.approx(squared.min(1).mean() + squared.min(0).mean())


def test_a_part_by_hand():
    # a bar of three points shifted along itself by one: the ends are 1 off, either way: 2 · 1/3
    assert part_chamfer(shifted(1, 0, 0), np.eye(4), BAR) == pytest.approx(2 / 3)
    assert part_accuracy(np.array([0.0, 0.0099, 0.01, np.nan])) == 0.5


def test_the_whole_by_hand():
    # with a reference at the bar's far end nothing that was moved there is alone: only (0, 0, 0) is missing
    reference = np.array([[3.0, 0.0, 0.0]])
    # found 1 2 3 3, right 0 1 2 3: no point of the former is alone, of the latter 0 is 1 from 1
    assert shape_chamfer(shifted(1, 0, 0), np.eye(4), BAR, reference) == pytest.approx(1 / 4)


def test_add_s_by_hand_and_beside_all_distances():
    # right 0 1 2, found 1 2 3: 0 is 1 away from 1, the others are there
    assert add_s(shifted(1, 0, 0), np.eye(4), BAR) == pytest.approx(1 / 3)
    rng = np.random.default_rng(0)
    points, found, truth = rng.normal(size=(50, 3)), random_pose(rng, 1.0), random_pose(rng, 1.0)
    there, right = (points @ g[:3, :3].T + g[:3, 3] for g in (found, truth))
    assert add_s(found, truth, points) == pytest.approx(cdist(right, there).min(1).mean())


def test_turning_a_symmetric_part_by_its_symmetry_is_no_error():
    square = np.array([[1.0, 1.0, 0.0], [-1.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [1.0, -1.0, 0.0]])
    quarter = pose(Rotation.from_rotvec([0, 0, np.pi / 2]).as_matrix(), np.zeros(3))
    assert add_s(quarter, np.eye(4), square) == pytest.approx(0, abs=1e-12)
    assert part_chamfer(quarter, np.eye(4), square) == pytest.approx(0, abs=1e-12)


def test_moving_everything_changes_nothing():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 3)), rng.normal(size=(40, 3))
    found, truth, g = (random_pose(rng, 1.0) for _ in range(3))
    assert shape_chamfer(g @ found, g @ truth, x, y @ g[:3, :3].T + g[:3, 3]) == pytest.approx(
        shape_chamfer(found, truth, x, y)
    )
    assert add_s(g @ found, g @ truth, x) == pytest.approx(add_s(found, truth, x))
