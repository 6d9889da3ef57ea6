"""Matching by the common surface: several motions from nowhere, with the laws, and its halves alone."""

import numpy as np
import pytest

from bitr.assembly.match import (
    FIRST,
    TOLERANCE,
    WIDE,
    WIDER,
    Correspondences,
    correspond,
    descriptors,
    match_motions,
)
from bitr.data import dataset
from bitr.data.poses import random_pose
from bitr.refine.frame import Frame, moved
from bitr.refine.icp import bring_together
from bitr.refine.overlap import overlap
from bitr.refine.surface import Surface
from tests.assembly.cases import LAWS, changed, changed_pose, turn_between
from tests.refine.cases import halves, overlapping


def surfaces(x, y):
    frame = Frame.of(x, y)
    return Surface.of(frame.source(x)), Surface.of(frame.reference(y)), frame


def found(pair, effort=FIRST, most=4):
    """Motions in the coordinates of the pieces, as matched and after two-sided ICP."""
    x, y, frame = surfaces(pair.source.points, pair.reference.points)
    motions = match_motions(correspond(x, y, effort), effort, most)
    return [frame.outside(g) for g in motions], [frame.outside(bring_together(x, y, g)[0]) for g in motions]


@pytest.mark.parametrize("seed", range(4))
def test_overlapping_pieces_are_found_from_nowhere(seed):
    pair = overlapping(seed)
    rough, fine = found(pair)
    assert turn_between(rough[0], pair.ref_from_src) < 5
    assert turn_between(fine[0], pair.ref_from_src) < 1


@pytest.mark.parametrize("keep", [0.6, 0.8])
def test_crops_are_found_by_either_effort(keep):
    pair = overlapping(5, keep, n=800)
    for effort in (FIRST, WIDE):
        assert min(turn_between(g, pair.ref_from_src) for g in found(pair, effort)[1]) < 1


def test_several_motions_differ_and_the_best_supported_comes_first():
    pair = halves(0)
    x, y, _ = surfaces(pair.source.points, pair.reference.points)
    all_ = correspond(x, y, FIRST)
    motions = match_motions(all_, FIRST, 4)
    support = all_.support(motions)
    assert 1 < len(motions) <= 4
    assert (np.diff(support) <= 1e-9).all()
    apart = [np.abs(a - b).max() for i, a in enumerate(motions) for b in motions[:i]]
    assert min(apart) > 0.05
    np.testing.assert_array_equal(match_motions(all_, FIRST, 1)[0], motions[0])


@pytest.mark.parametrize("law", LAWS)
def test_the_motions_keep_the_laws(law):
    pair = overlapping(0, n=500)
    x, y = pair.source.points, pair.reference.points
    answers = []
    for points in ((x, y), changed(law, x, y)):
        a, b, frame = surfaces(*points)
        answers.append([frame.outside(g) for g in match_motions(correspond(a, b, FIRST), FIRST, 3)])
    expected = [changed_pose(law, g) for g in answers[0]]
    np.testing.assert_allclose(answers[1], expected, atol=1e-7)


def test_motions_of_pieces_that_only_touch_have_little_overlap():
    pair = halves(2)
    x, y, _ = surfaces(pair.source.points, pair.reference.points)
    whole = overlapping(2)
    a, b, frame = surfaces(whole.source.points, whole.reference.points)
    best = max(overlap(x, y, g) for g in match_motions(correspond(x, y, FIRST), FIRST, 4))
    assert best < overlap(a, b, frame.inside(whole.ref_from_src)) - 0.2


def test_a_description_does_not_change_when_the_cloud_moves():
    points = overlapping(0).source.points
    here, there = (Surface.of(p) for p in (points, moved(points, random_pose(np.random.default_rng(1), 2.0))))
    a, b = descriptors(here, here.spacing), descriptors(there, here.spacing)
    np.testing.assert_allclose(a, b, atol=1e-6)
    np.testing.assert_allclose(np.square(a).sum(1), 1, atol=1e-12)


def test_points_of_different_surroundings_are_described_differently():
    points = overlapping(0).source.points
    rows = descriptors(surface := Surface.of(points), surface.spacing)
    alike = rows @ rows.T
    assert np.median(alike[~np.eye(len(rows), dtype=bool)]) < 0.95


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_motion_is_found_among_wrong_correspondences(share):
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(500, 3)), random_pose(rng, 2.0)
    y = moved(x, g) + 0.005 * rng.normal(size=x.shape)
    wrong = rng.random(500) > share
    y[wrong] = 2 * rng.normal(size=(wrong.sum(), 3))
    pairs = Correspondences(x, y, 0.05 * WIDER * TOLERANCE)
    motions = match_motions(pairs, FIRST, 3)
    assert 0.4 * (~wrong).sum() < pairs.support(motions)[0] < (~wrong).sum() + 50
    assert turn_between(motions[0], g) < 1
    np.testing.assert_allclose(motions[0, :3, 3], g[:3, 3], atol=0.05)


@pytest.mark.parametrize("points", [np.zeros((3, 3)), np.zeros((9, 3)), np.zeros((0, 3))])
def test_too_few_correspondences_tell_nothing(points):
    assert match_motions(Correspondences(points, points + 1, 0.1), FIRST, 4).shape == (0, 4, 4)


def test_correspondences_of_two_places_fix_no_motion():
    """Each place may look like several others, so that many correspondences still tell two places only."""
    x = np.repeat([[0.0, 0, 0], [1.0, 0, 0]], 6, axis=0)
    assert match_motions(Correspondences(x, x, 0.1), FIRST, 4).shape == (0, 4, 4)


def test_support_counts_what_agrees():
    x = np.random.default_rng(0).normal(size=(10, 3))
    far = np.eye(4)
    far[0, 3] = 5
    pairs = Correspondences(x, x, 0.1)
    assert pairs.support(np.stack([np.eye(4), far])).tolist() == [10, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "share"), [("indoor", 0.8), ("outdoor", 1.0)])
def test_real_scans_are_found_from_nowhere(real_data, name, share):
    pairs = dataset(name, "val", real_data)[:5]
    right = [min(turn_between(g, pair.ref_from_src) for g in found(pair)[1]) < 5 for pair in pairs]
    assert np.mean(right) >= share
