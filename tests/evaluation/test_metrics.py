"""Metrics: numbers worked out by hand, independent computations, and their invariances."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from bitr.data import AssemblyPair, dataset
from bitr.data.poses import inverse, move_points, pose, random_pose, turn_about
from bitr.evaluation.metrics import (
    BENCHMARKS,
    CHANCE_MEAN,
    CHANCE_STD,
    add_s,
    chamfer,
    chance_density,
    chance_quantile,
    chance_recall,
    diameter,
    displacement,
    euler_rmse_deg,
    information_matrix,
    is_right,
    mating_errors,
    nearest_truth,
    overlap,
    part_chamfer,
    recall,
    registration_rmse,
    rotation_error_deg,
    shape_chamfer,
    translation_error,
)
from bitr.io import Geometry

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


BY_NAME = {benchmark.name: benchmark for benchmark in BENCHMARKS}


@pytest.mark.parametrize(
    ("name", "degrees", "length"), [("KITTI", 5, 2), ("ETH", 2, 0.3), ("ModelNet", 1, 0.1)]
)
def test_both_errors_must_be_below_the_thresholds(name, degrees, length):
    below = np.array([0.99, 1.01, 0.99, 1.0, np.nan])
    other = np.array([0.99, 0.99, 1.01, 0.5, np.nan])
    accepted = BY_NAME[name].accepts(degrees * below, length * other)
    assert accepted.tolist() == [True, False, False, False, False]


def test_errors_are_of_the_accepted_pairs_alone():
    # two of four accepted: (1 + 3)/2 degrees, (0.1 + 0.5)/2 long; one failed, one is far off
    degrees, lengths = np.array([1.0, 3.0, 170.0, np.nan]), np.array([0.1, 0.5, 9.0, np.nan])
    found = recall(BY_NAME["KITTI"].accepts(degrees, lengths), degrees, lengths)
    assert found.recall == 0.5
    assert found.rre == pytest.approx(2)
    assert found.rte == pytest.approx(0.3)


def test_scenes_weigh_the_same():
    # kitchen: 1 of 1; hall: 1 of 3; loft: 0 of 1. Recall (1 + 1/3 + 0)/3 = 4/9, and 2/5 without scenes
    accepted = np.array([True, True, False, False, False])
    degrees, lengths = np.array([4.0, 2.0, 90.0, 90.0, 90.0]), np.zeros(5)
    found = recall(accepted, degrees, lengths, ["kitchen", "hall", "hall", "hall", "loft"])
    assert found.recall == pytest.approx(4 / 9)
    assert found.rre == pytest.approx(3)
    assert recall(accepted, degrees, lengths).recall == pytest.approx(2 / 5)


def test_nothing_accepted_has_no_errors():
    found = recall(np.array([False, False]), np.full(2, 99.0), np.full(2, 99.0))
    assert (found.recall, found.rre, found.rte) == (0, None, None)


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


X = np.array([[-1.0, 0, 0], [1.0, 0, 0], [0, 2.0, 0], [0, -2.0, 0]])
CONCENTRIC = AssemblyPair(Geometry(X), Geometry(0.5 * X), np.eye(4), "a")
"""Both about the origin, so that a turn about it displaces nothing; the assembled shape has radius 2."""


def off(degrees, along=0.0):
    """Turned about the third axis, and then shifted."""
    a = np.radians(degrees)
    turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    return pose(turn, np.array([0, 0, along]))


def test_right_is_less_than_15_degrees_and_a_tenth_of_the_radius():
    assert is_right(CONCENTRIC, off(14))
    assert not is_right(CONCENTRIC, off(16))
    assert is_right(CONCENTRIC, off(0, 0.19))
    assert not is_right(CONCENTRIC, off(0, 0.21))
    assert is_right(CONCENTRIC, off(14, 0.19))


def test_unit_place_and_order_make_no_difference():
    larger = replace(CONCENTRIC, source=Geometry(100 * X), reference=Geometry(50 * X))
    assert is_right(larger, off(0, 19.0))
    assert not is_right(larger, off(0, 21.0))
    away = np.array([7.0, 8, 9])
    moved = replace(CONCENTRIC, reference=Geometry(0.5 * X + away), ref_from_src=pose(np.eye(3), away))
    assert is_right(moved, pose(np.eye(3), away) @ off(14, 0.19))
    assert not is_right(moved, pose(np.eye(3), away) @ off(14, 0.21))
    swapped = AssemblyPair(CONCENTRIC.reference, CONCENTRIC.source, np.eye(4), "b")
    assert is_right(swapped, inverse(off(14, 0.19)))
    assert not is_right(swapped, inverse(off(16)))


def test_every_symmetry_gives_a_right_answer():
    assert not is_right(CONCENTRIC, off(170))
    assert is_right(replace(CONCENTRIC, symmetry=np.stack([off(0), off(180)])), off(170))
    assert not is_right(replace(CONCENTRIC, symmetry=np.stack([off(0), off(180)])), off(90))
    assert is_right(replace(CONCENTRIC, axis=np.array([[0.0, 0, 0], [0, 0, 1]])), off(90))


def test_a_uniform_rotation_is_126_and_a_half_degrees_off():
    angles = np.degrees(Rotation.random(200_000, random_state=np.random.RandomState(0)).magnitude())
    assert round(CHANCE_MEAN, 3) == 126.476
    assert angles.mean() == pytest.approx(CHANCE_MEAN, abs=0.3)
    assert angles.std() == pytest.approx(CHANCE_STD, abs=0.3)
    assert np.median(angles) == pytest.approx(chance_quantile(0.5), abs=0.4)
    assert (angles < 60).mean() == pytest.approx(float(chance_recall(60.0)), abs=3e-3)


def test_density_mean_and_recall_fit_together():
    def moment(power, upto=180.0):
        return quad(lambda d: d**power * float(chance_density(np.array(d))), 0, upto)[0]

    assert moment(0) == pytest.approx(1)
    assert moment(1) == pytest.approx(CHANCE_MEAN)
    assert np.sqrt(moment(2) - moment(1) ** 2) == pytest.approx(CHANCE_STD)
    assert moment(0, 75.0) == pytest.approx(float(chance_recall(75.0)))


def test_90_degrees_by_hand():
    # (π/2 − 1)/π = 1/2 − 1/π
    assert float(chance_recall(90.0)) == pytest.approx(0.5 - 1 / np.pi)
    assert float(chance_recall(chance_quantile(0.3))) == pytest.approx(0.3)


# metrics of fracture assembly


def test_euler_angles_by_hand():
    """30° about x and −90° about z: the root of (30² + 0 + 90²)/3. Differences go the short way round."""
    found = pose(Rotation.from_euler("xyz", [30, 0, -90], degrees=True).as_matrix(), NOWHERE)
    assert euler_rmse_deg(found, np.eye(4)) == pytest.approx(np.sqrt((30**2 + 90**2) / 3))
    a, b = (pose(Rotation.from_euler("z", angle, degrees=True).as_matrix(), NOWHERE) for angle in (170, -170))
    assert euler_rmse_deg(a, b) == pytest.approx(20 / np.sqrt(3))  # not 340
    assert rotation_error_deg(a, b) == pytest.approx(20)


def test_euler_angles_depend_on_the_frame_and_the_geodesic_does_not():
    """The same error of 60°, seen from files that lie otherwise: the trap of published figures."""
    off = pose(Rotation.from_euler("y", 60, degrees=True).as_matrix(), NOWHERE)
    turn = pose(Rotation.from_euler("xyz", [20, 80, 40], degrees=True).as_matrix(), NOWHERE)
    assert euler_rmse_deg(off, np.eye(4)) == pytest.approx(60 / np.sqrt(3))
    assert abs(euler_rmse_deg(turn @ off, turn) - 60 / np.sqrt(3)) > 10
    assert rotation_error_deg(turn @ off, turn) == pytest.approx(60)


def test_the_diameter_is_the_greatest_distance():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(80, 3))
    assert diameter(points) == pytest.approx(cdist(points, points).max())
    assert diameter(points * (1, 1, 0)) == pytest.approx(cdist(points[:, :2], points[:, :2]).max())
    assert diameter(BAR) == 2
    assert diameter(np.linspace(0, 1, 20)[:, None] * (3.0, 4.0, 0.0)) == pytest.approx(5)


def test_mating_by_hand():
    """A bar 0 1 2 beside 3 4, which is the smaller piece and moves, by one.

    The whole is 4 long. Seen from the source, the reference 3 4 stands at 2 3 instead, by g⁻¹.
    CD: 0 1 2 2 3 against 0 1 2 3 4: none of the first is alone, of the second 4 is 1 from 3: 1/5, over 4².
    CRD: two of five points are 1 off: 2/5, over 4. RMSE(T): 1/√3, over 4.
    Parts: CD(1 2 3, 0 1 2) = 2/3 and CD(2 3, 3 4) = 1, over 4², are above 0.01.
    """
    reference = np.array([[3.0, 0.0, 0.0], [4.0, 0.0, 0.0]])
    found = mating_errors(shifted(1, 0, 0), np.eye(4), BAR, reference, 3 / 5)
    assert found["cd"] == pytest.approx(1 / 5 / 16)
    assert found["crd"] == pytest.approx(2 / 5 / 4)
    assert found["translation_rmse"] == pytest.approx(1 / np.sqrt(3) / 4)
    assert found["euler_rmse_deg"] == 0
    assert found["placed"] == 0
    for shift, placed in ((0.28, 1), (0.29, 0)):  # 2 · 0.28² / 4² = 0.0098, 2 · 0.29² / 4² = 0.0105
        assert mating_errors(shifted(shift, 0, 0), np.eye(4), BAR, reference, 3 / 5)["placed"] == placed
    right = mating_errors(np.eye(4), np.eye(4), BAR, reference, 3 / 5)
    assert (right["cd"], right["crd"], right["translation_rmse"], right["placed"]) == (0, 0, 0, 1)


def test_no_part_counts_as_placed_because_it_stands_still():
    """Wrong by a half turn about the source's middle: the source covers itself, the reference is far off."""
    reference = np.array([[3.0, 0.0, 0.0], [4.0, 0.0, 0.0]])
    turn = pose(np.diag([-1.0, -1.0, 1.0]), np.array([2.0, 0.0, 0.0]))
    assert mating_errors(turn, np.eye(4), BAR, reference, 3 / 5)["placed"] == 0.5


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_mating_errors_keep_the_laws(seed):
    found, truth, g1, g2, x, y = case(seed)
    before = mating_errors(found, truth, x, y, 0.4)
    moved = mating_errors(g2 @ found @ inverse(g1), g2 @ truth @ inverse(g1), act(g1, x), act(g2, y), 0.4)
    swapped = mating_errors(inverse(found), inverse(truth), y, x, 0.6)
    scale = np.diag([7.0, 7.0, 7.0, 1.0])
    scaled = mating_errors(
        scale @ found @ np.linalg.inv(scale), scale @ truth @ np.linalg.inv(scale), 7 * x, 7 * y, 0.4
    )
    for name in ("translation_rmse", "cd", "crd", "placed"):
        for other in (moved, swapped, scaled):
            assert other[name] == pytest.approx(before[name])
    equal = mating_errors(found, truth, x, y, 0.5), mating_errors(inverse(found), inverse(truth), y, x, 0.5)
    assert equal[0]["crd"] == pytest.approx(equal[1]["crd"])
