"""Borders that meet: found without a model, lawful, and as a naive twin computes them."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bitr.assembly.align import Frame, distinct
from bitr.assembly.seam import _steps, closeness, end_motions, flat_ends, meet, seam_motions, settle
from bitr.assembly.surface import Surface, common_spacing
from bitr.data.poses import inverse, pose, random_pose
from tests.assembly.cases import LAWS, changed, changed_pose, cut_pair, turn_between
from tests.assembly.shapes import ball
from tests.reference import seam as naive


def surfaces(x, y):
    frame = Frame.of(x, y)
    return Surface.of(frame.source(x)), Surface.of(frame.reference(y)), frame


@pytest.fixture(scope="module")
def halves():
    source, reference, truth = cut_pair()
    x, y, frame = surfaces(source.points, reference.points)
    return x, y, frame.inside(truth)


def near(truth, rng, degrees=10.0, shift=0.1):
    """Motions a little off the truth."""
    found = []
    for _ in range(4):
        axis, away = rng.normal(size=(2, 3))
        turn = Rotation.from_rotvec(np.radians(degrees) * axis / np.linalg.norm(axis)).as_matrix()
        found.append(pose(turn, shift * away / np.linalg.norm(away)) @ truth)
    return np.stack(found)


@pytest.mark.parametrize("seed", range(3))
def test_two_halves_of_a_blob_are_found_without_a_model(seed):
    source, reference, truth = cut_pair(seed=seed)
    x, y, frame = surfaces(source.points, reference.points)
    motions, score = seam_motions(x, y, 12)
    off = [turn_between(motion, frame.inside(truth)) for motion in motions]
    assert min(off) < 5
    best = int(np.argmin(off))
    assert np.linalg.norm((motions[best] - frame.inside(truth))[:3, 3]) < 3 * common_spacing(x, y)
    assert (np.diff(score) <= 1e-12).all()
    assert len(motions) == len(score) <= 12


def test_borders_settle_where_they_meet(halves):
    x, y, truth = halves
    starts = near(truth, np.random.default_rng(0))
    ended = settle(x, y, starts)
    before, after = ([turn_between(g, truth) for g in motions] for motions in (starts, ended))
    assert np.median(after) < 4 < np.median(before)
    reach = 2 * common_spacing(x, y)
    gain = closeness(meet(x.border, y.border, ended), reach) - closeness(
        meet(x.border, y.border, starts), reach
    )
    assert (gain > 0).all()


def test_meeting_borders_are_paired_as_by_the_naive_twin(halves):
    x, y, truth = halves
    motions = near(truth, np.random.default_rng(1))[:2]
    found = meet(x.border, y.border, motions)
    for g, motion in enumerate(motions):
        expected = naive.meet(x.border, y.border, motion)
        for name in ("p", "q", "normal_p", "normal_q", "outward_p", "outward_q"):
            np.testing.assert_allclose(
                getattr(found, name)[g], [getattr(m, name) for m in expected], atol=1e-12, err_msg=name
            )
        np.testing.assert_allclose(found.share, [m.share for m in expected])
        np.testing.assert_allclose(found.squared[g], [m.squared for m in expected], atol=1e-12)
        np.testing.assert_allclose(found.alignment[g], [m.alignment for m in expected], atol=1e-12)


@pytest.mark.parametrize("width", [1.5, 5.0])
def test_a_step_is_that_of_the_naive_twin(halves, width):
    x, y, truth = halves
    motions, spacing = near(truth, np.random.default_rng(2))[:2], common_spacing(x, y)
    found = _steps(meet(x.border, y.border, motions), width * spacing, spacing)
    for step, motion in zip(found, motions, strict=True):
        expected = naive.step(naive.meet(x.border, y.border, motion), width * spacing, spacing)
        np.testing.assert_allclose(step, expected, atol=1e-9)


def test_a_step_of_swapped_borders_is_the_inverse(halves):
    x, y, truth = halves
    motions, spacing = near(truth, np.random.default_rng(3)), common_spacing(x, y)
    there = _steps(meet(x.border, y.border, motions), 3 * spacing, spacing) @ motions
    back = _steps(meet(y.border, x.border, inverse(motions)), 3 * spacing, spacing) @ inverse(motions)
    np.testing.assert_allclose(back, inverse(there), atol=1e-9)


def test_some_rows_of_the_borders_can_be_looked_at_alone(halves):
    x, y, truth = halves
    motions, rows = near(truth, np.random.default_rng(4)), (np.array([3, 1]), np.array([0, 5, 2]))
    few, all_ = meet(x.border, y.border, motions, *rows), meet(x.border, y.border, motions)
    chosen = np.concatenate([rows[0], len(x.border) + rows[1]])
    np.testing.assert_allclose(few.p, all_.p[:, chosen], atol=1e-12)
    np.testing.assert_allclose(few.q, all_.q[:, chosen], atol=1e-12)
    assert few.share.sum() == pytest.approx(1)


@pytest.mark.parametrize("law", LAWS)
def test_the_motions_keep_the_laws(law):
    source, reference, _ = cut_pair(900)
    x, y, frame = surfaces(source.points, reference.points)
    other_x, other_y, other = surfaces(*changed(law, source.points, reference.points))
    plain, score = seam_motions(x, y, 6)
    found, other_score = seam_motions(other_x, other_y, 6)
    np.testing.assert_allclose(other_score, score, atol=1e-6)
    expected = [changed_pose(law, frame.outside(g)) for g in plain]
    np.testing.assert_allclose([other.outside(g) for g in found], expected, atol=1e-6)


def test_closeness_is_one_where_borders_meet_and_zero_far_away(halves):
    x, y, _ = halves
    away = pose(np.eye(3), np.full(3, 50.0))[None]
    assert closeness(meet(x.border, y.border, away), 1.0) == 0
    assert len(seam_motions(x, y, 1)[0]) == 1


def test_closed_surfaces_have_no_seam():
    rng = np.random.default_rng(0)
    x, y = Surface.of(np.array(rng.normal(size=(4, 3)))), Surface.of(ball(300, rng))
    motions, score = seam_motions(x, y, 5)
    assert motions.shape == (0, 4, 4)
    assert len(score) == 0


def test_motions_that_are_alike_are_one(halves):
    _, _, truth = halves
    rng = np.random.default_rng(5)
    motions = np.concatenate([near(truth, rng, 1.0, 0.01), random_pose(rng, 1.0)[None]])
    score = np.array([0.5, 0.9, 0.4, 0.3, 0.6])
    assert distinct(motions, score, 5, np.radians(6), 0.1).tolist() == [1, 4]
    assert distinct(motions, score, 1, np.radians(6), 0.1).tolist() == [1]


def test_a_sawn_end_is_found_and_laid_against_the_other(halves):
    """Its points alone find the pose, and its outward direction is the plane's normal."""
    x, y, truth = halves
    ends = flat_ends(x), flat_ends(y)
    assert min(map(len, ends)) >= 1
    first, second = (side[0].border.outward[0] for side in ends)
    assert np.linalg.norm(truth[:3, :3] @ first + second) < 0.1
    assert min(turn_between(g, truth) for g in end_motions(*ends, 3)) < 5
    assert flat_ends(Surface.of(ball(400, np.random.default_rng(1)))) == ()


@pytest.mark.parametrize("law", LAWS)
def test_the_motions_of_flat_ends_keep_the_laws(law):
    source, reference, _ = cut_pair(900)
    answers = []
    for points in ((source.points, reference.points), changed(law, source.points, reference.points)):
        x, y, frame = surfaces(*points)
        answers.append([frame.outside(g) for g in end_motions(flat_ends(x), flat_ends(y), 3)])
    expected = np.array([changed_pose(law, g) for g in answers[0]])
    assert len(expected) == len(answers[1])
    for g in answers[1]:  # a swap of the pieces changes the order of pairs of ends
        assert np.abs(expected - g).max((1, 2)).min() < 1e-6
