"""Matching by the common surface: several motions from nowhere, with the laws, and its halves alone."""

import numpy as np
import pytest

from bitr.assembly.align import Frame, moved
from bitr.assembly.match import (
    TOLERANCE,
    WIDER,
    Correspondences,
    _fit,
    correspond,
    descriptors,
    frame_motions,
    frames,
    match_motions,
)
from bitr.assembly.overlay import bring_together, overlaps
from bitr.assembly.surface import Surface
from bitr.data import dataset
from bitr.data.poses import random_pose
from tests.assembly.cases import LAWS, changed, changed_pose, halves, overlapping, turn_between


def surfaces(x, y):
    frame = Frame.of(x, y)
    return Surface.of(frame.source(x)), Surface.of(frame.reference(y)), frame


def found(pair, most=4):
    """Motions in the coordinates of the pieces, as matched and after two-sided ICP."""
    x, y, frame = surfaces(pair.source.points, pair.reference.points)
    motions = match_motions(correspond(x, y), most)
    return [frame.outside(g) for g in motions], [frame.outside(bring_together(x, y, g)) for g in motions]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_overlapping_pieces_are_found_from_nowhere(seed):
    pair = overlapping(seed)
    rough, fine = found(pair, 20)
    assert min(turn_between(g, pair.ref_from_src) for g in rough) < 5
    assert min(turn_between(g, pair.ref_from_src) for g in fine) < 1


@pytest.mark.parametrize("keep", [0.6, 0.8])
def test_crops_are_found(keep):
    pair = overlapping(5, keep, n=800)
    assert min(turn_between(g, pair.ref_from_src) for g in found(pair)[1]) < 1


def test_several_motions_differ_and_the_best_supported_comes_first():
    pair = halves(0)
    x, y, _ = surfaces(pair.source.points, pair.reference.points)
    all_ = correspond(x, y)
    motions = match_motions(all_, 4)
    support = all_.support(motions)
    assert 1 < len(motions) <= 4
    assert (np.diff(support) <= 1e-9).all()
    apart = [np.abs(a - b).max() for i, a in enumerate(motions) for b in motions[:i]]
    assert min(apart) > 0.05
    np.testing.assert_array_equal(match_motions(all_, 1)[0], motions[0])


@pytest.mark.parametrize("law", LAWS)
def test_the_motions_keep_the_laws(law):
    pair = overlapping(0, n=500)
    x, y = pair.source.points, pair.reference.points
    answers = []
    for points in ((x, y), changed(law, x, y)):
        a, b, frame = surfaces(*points)
        answers.append([frame.outside(g) for g in match_motions(correspond(a, b), 3)])
    expected = [changed_pose(law, g) for g in answers[0]]
    np.testing.assert_allclose(answers[1], expected, atol=1e-7)


def test_motions_of_pieces_that_only_touch_have_little_overlap():
    pair = halves(2)
    x, y, _ = surfaces(pair.source.points, pair.reference.points)
    whole = overlapping(2)
    a, b, frame = surfaces(whole.source.points, whole.reference.points)
    best = max(overlaps(x, y, g).larger for g in match_motions(correspond(x, y), 4))
    assert best < overlaps(a, b, frame.inside(whole.ref_from_src)).larger - 0.2


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


def test_frames_turn_with_the_cloud_and_a_sphere_has_none():
    points = overlapping(0).source.points
    g = random_pose(np.random.default_rng(1), 2.0)
    here, there = frames(Surface.of(points)), frames(Surface.of(moved(points, g)))
    assert here.is_firm.mean() > 0.5
    np.testing.assert_array_equal(here.is_firm, there.is_firm)
    turned = np.einsum("ij,njk->nik", g[:3, :3], here.axes)[here.is_firm]
    alike = np.abs(np.einsum("nij,nij->nj", turned, there.axes[here.is_firm]))
    np.testing.assert_allclose(alike, 1, atol=1e-6)  # the first two axes have no sign
    flat = np.random.default_rng(0).random((300, 3)) * [1, 1, 0]
    assert not frames(Surface.of(flat)).is_firm.any()


def test_one_right_correspondence_gives_the_motion():
    """Of a cloud and its copy, most frames of equal points lead to the motion itself."""
    points = overlapping(0).source.points
    g = random_pose(np.random.default_rng(1), 0.0)
    x, y = Surface.of(points), Surface.of(moved(points, g))
    pairs = Correspondences(x.points, y.points, 0.1, frames(x), frames(y))
    motions = frame_motions(pairs)
    assert len(motions) == 2 * frames(x).is_firm.sum()
    first, second = motions.reshape(2, -1, 4, 4)
    right = [min(turn_between(a, g), turn_between(b, g)) for a, b in zip(first, second, strict=True)]
    assert np.mean(np.array(right) < 1e-3) > 0.99
    back = frame_motions(Correspondences(y.points, x.points, 0.1, frames(y), frames(x)))
    np.testing.assert_allclose(back @ motions, np.broadcast_to(np.eye(4), motions.shape), atol=1e-6)


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_motion_is_found_among_wrong_correspondences(share):
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(500, 3)), random_pose(rng, 2.0)
    y = moved(x, g) + 0.005 * rng.normal(size=x.shape)
    wrong = rng.random(500) > share
    y[wrong] = 2 * rng.normal(size=(wrong.sum(), 3))
    pairs = Correspondences(x, y, 0.05 * WIDER * TOLERANCE)
    motions = match_motions(pairs, 3)
    assert 0.4 * (~wrong).sum() < pairs.support(motions)[0] < (~wrong).sum() + 50
    assert turn_between(motions[0], g) < 1
    np.testing.assert_allclose(motions[0, :3, 3], g[:3, 3], atol=0.05)


@pytest.mark.parametrize("points", [np.zeros((3, 3)), np.zeros((9, 3)), np.zeros((0, 3))])
def test_too_few_correspondences_tell_nothing(points):
    assert match_motions(Correspondences(points, points + 1, 0.1), 4).shape == (0, 4, 4)


def test_correspondences_of_two_places_fix_no_motion():
    """Each place may look like several others, so that many correspondences still tell two places only."""
    x = np.repeat([[0.0, 0, 0], [1.0, 0, 0]], 6, axis=0)
    assert match_motions(Correspondences(x, x, 0.1), 4).shape == (0, 4, 4)


def test_places_that_vary_together_along_one_direction_only_fix_no_motion():
    """Both sides span a plane, but across the common direction nothing goes with anything."""
    a, b = np.repeat([-1.0, 1.0], 2), np.tile([-1.0, 1.0], 2)
    x, y = np.stack([a, b, 0 * a], axis=1), np.stack([a, a * b, 0 * a], axis=1)
    weights = np.ones((1, 4))
    assert len(_fit(Correspondences(x, y, 0.1), weights)) == 0
    assert len(_fit(Correspondences(x, x, 0.1), weights)) == 1


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
