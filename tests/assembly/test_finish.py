"""From rough motions to finished ones: each method with its own, and pieces that touch."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from bitr.assembly.align import gaps, moved
from bitr.assembly.finish import METHODS, MODES, Candidates, bring_to_touch, finish, model_modes
from bitr.assembly.propose import propose
from bitr.assembly.sample import sample
from bitr.assembly.surface import Surface, common_spacing
from bitr.data.poses import inverse, pose, random_pose
from tests.assembly.cases import cut_pair, overlapping, shift, small_model, turn_between
from tests.assembly.shapes import ball
from tests.pieces import motion

MODEL = small_model()


def finished(x, y, methods=METHODS, init=None):
    sampled = sample(x, y, MODEL.config, 100, 2)
    proposals = propose(sampled, MODEL, frozenset(methods), init)
    return sampled, proposals, finish(sampled, proposals, frozenset(methods))


def least_gap(x, y, g):
    return cKDTree(moved(x.points, g)).query(y.points)[0].min()


@pytest.mark.parametrize("away", [2.2, 3.0, 10.0])
def test_the_gap_between_pieces_that_touch_is_closed(away):
    rng = np.random.default_rng(0)
    x, y = Surface.of(ball(800, rng)), Surface.of(ball(800, rng))
    start = shift(away)
    ended = bring_to_touch(x, y, start)
    spacing = common_spacing(x, y)
    assert least_gap(x, y, start) > 1.5 * spacing
    assert least_gap(x, y, ended) < 2 * spacing
    np.testing.assert_array_equal(ended[:3, :3], start[:3, :3])
    np.testing.assert_allclose(ended[0, 3], 2, atol=3 * spacing)


def test_pieces_in_contact_stay_as_they_are():
    rng = np.random.default_rng(0)
    x, y = Surface.of(ball(800, rng)), Surface.of(ball(800, rng))
    start = shift(1.99)
    np.testing.assert_array_equal(bring_to_touch(x, y, start), start)


def test_touching_keeps_the_laws():
    rng = np.random.default_rng(1)
    points = ball(400, rng) * [1, 0.8, 0.6], ball(300, rng) * [0.5, 0.7, 0.9]
    x, y = (Surface.of(p) for p in points)
    start = shift(3.0, 0.4, -0.2) @ pose(random_pose(rng, 0.0)[:3, :3], np.zeros(3))
    plain = bring_to_touch(x, y, start)
    np.testing.assert_allclose(bring_to_touch(y, x, inverse(start)), inverse(plain), atol=1e-9)
    g1, g2 = motion(1), motion(2)
    there = [Surface.of(moved(p, g)) for p, g in zip(points, (g1, g2), strict=True)]
    bi = bring_to_touch(*there, g2 @ start @ inverse(g1))
    np.testing.assert_allclose(bi, g2 @ plain @ inverse(g1), atol=1e-9)


@pytest.mark.slow
def test_every_method_finishes_what_is_proposed():
    x, y, _ = cut_pair(800)
    _, proposals, found = finished(x, y, init=motion(3))
    assert set(found.methods) == {*METHODS, "given"} - {"mate"}  # the pieces are open
    assert set(found.origins) <= {"model", "match", "seam", "given"}
    assert len(found) == len(found.poses) == len(found.methods) == len(found.origins) == len(found.starts)
    given = [i for i, method in enumerate(found.methods) if method == "given"]
    np.testing.assert_array_equal(found.poses[given], proposals.given)
    raw = [i for i, method in enumerate(found.methods) if method == "model"]
    assert 1 <= len(raw) <= MODES
    np.testing.assert_array_equal(found.poses[raw], found.starts[raw])
    rotations = found.poses[:, :3, :3]
    np.testing.assert_allclose(
        rotations @ rotations.swapaxes(1, 2), np.broadcast_to(np.eye(3), rotations.shape), atol=1e-9
    )
    assert {found.origins[i] for i, method in enumerate(found.methods) if method == "overlap"} >= {"given"}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["overlap", "seam", "touch", "model"])
def test_a_method_that_is_forced_is_the_only_one_beside_the_models_pose(method):
    x, y, _ = cut_pair(400)
    assert set(finished(x, y, ["model", method])[2].methods) == {"model", method}


@pytest.mark.slow
def test_a_given_pose_near_the_truth_is_finished_by_overlap():
    pair = overlapping(0, n=500)
    near = shift(0.02, 0.02, 0.02) @ pair.ref_from_src
    sampled, _, found = finished(pair.source, pair.reference, ["overlap", "model"], near)
    ended = [
        sampled.frame.outside(found.poses[i])
        for i in range(len(found))
        if (found.methods[i], found.origins[i]) == ("overlap", "given")
    ]
    assert turn_between(ended[0], pair.ref_from_src) < 1


def test_gaps_are_zero_for_the_same_and_do_not_change_with_a_swap():
    rng = np.random.default_rng(0)
    poses = np.stack([random_pose(rng, 0.5) for _ in range(6)])
    assert gaps(poses, poses[2])[2] == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(gaps(inverse(poses), inverse(poses[2])), gaps(poses, poses[2]), atol=1e-6)
    assert gaps(shift(0.06)[None], np.eye(4))[0] == pytest.approx(0.5)
    half_turn = np.diag([-1.0, -1.0, 1.0, 1.0])
    assert gaps(half_turn[None], np.eye(4))[0] == pytest.approx(15)


def test_modes_are_ordered_by_what_agrees_with_them():
    poses = np.stack([shift(5.0), shift(0.0), shift(0.01), shift(0.02), shift(9.0)])
    share = np.array([0.3, 0.2, 0.15, 0.15, 0.2])
    found = model_modes(poses, share, 8)
    np.testing.assert_array_equal(found[1:, 0, 3], [5.0, 9.0])
    assert found[0, 0, 3] in (0.0, 0.01, 0.02)
    assert len(model_modes(poses, share, 2)) == 2


def test_candidates_can_be_put_in_another_order():
    poses = np.stack([shift(float(i)) for i in range(3)])
    found = Candidates(poses, ("overlap", "seam", "model"), ("match", "seam", "model"), poses).take([2, 0])
    assert found.methods == ("model", "overlap")
    assert found.origins == ("model", "match")
    np.testing.assert_array_equal(found.poses[:, 0, 3], [2, 0])
