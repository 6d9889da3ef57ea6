"""Matching by the common surface: from any start, with the laws, and its two halves by themselves."""

import numpy as np
import pytest
from bitr.refine.matching.consistency import best_motion
from bitr.refine.matching.descriptors import descriptors
from bitr.refine.matching.match import FIRM
from scipy.spatial.transform import Rotation

from bitr.data import dataset
from bitr.data.poses import inverse, pose, random_pose
from bitr.refine import auto, icp, match
from bitr.refine.frame import moved
from bitr.refine.overlap import firmness
from bitr.refine.surface import Surface
from tests.refine.cases import halves, overlapping


def turn_between(a, b):
    return np.degrees(Rotation.from_matrix(a[:3, :3].T @ b[:3, :3]).magnitude())


def found(pair, start=None):
    return match(pair.source.points, pair.reference.points, np.eye(4) if start is None else start)


@pytest.mark.parametrize("seed", range(4))
def test_overlapping_pieces_are_found_from_anywhere(seed):
    """The pairs are moved at random, and the start knows nothing of that; ICP alone finds none of them."""
    pair = overlapping(seed)
    result = found(pair)
    assert result.moved
    assert turn_between(result.pose, pair.ref_from_src) < 1
    assert turn_between(icp(pair.source.points, pair.reference.points, np.eye(4)).pose, result.pose) > 5


def test_a_good_start_is_not_lost_where_nothing_matches():
    pair = halves(2)
    result = found(pair, pair.ref_from_src)
    assert not result.moved
    np.testing.assert_array_equal(result.pose, pair.ref_from_src)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_auto_finds_overlapping_pieces_and_leaves_others_to_icp(seed):
    pair = overlapping(seed)
    x, y = pair.source.points, pair.reference.points
    np.testing.assert_array_equal(auto(x, y, np.eye(4)).pose, found(pair).pose)
    pair = halves(seed)
    x, y = pair.source.points, pair.reference.points
    for start in (pair.ref_from_src, np.eye(4)):
        np.testing.assert_array_equal(auto(x, y, start).pose, icp(x, y, start).pose)


@pytest.mark.parametrize("seed", range(3))
def test_auto_does_not_lay_halves_of_a_round_thing_over_each_other(seed):
    """A jug's halves have the same round surface: match is deceived by most of them."""
    pair = dataset("jugs", "val")[seed]
    x, y = pair.source.points, pair.reference.points
    np.testing.assert_array_equal(auto(x, y, pair.ref_from_src).pose, icp(x, y, pair.ref_from_src).pose)


def test_what_is_round_slides_and_what_is_not_does_not():
    rng = np.random.default_rng(0)
    circle, height = rng.uniform(0, 2 * np.pi, 2000), rng.uniform(-1, 1, 2000)
    tube = np.stack([np.cos(circle), np.sin(circle), height], axis=1)
    bumpy = tube * (1 + 0.3 * np.sin(3 * circle) * np.cos(2 * height))[:, None]
    held = [firmness(Surface.of(p), Surface.of(p), np.eye(4)) for p in (tube, bumpy)]
    assert held[0] < FIRM < held[1]
    turned = moved(bumpy, g := random_pose(rng, 2.0))
    assert firmness(Surface.of(3 * bumpy), Surface.of(3 * turned), pose(g[:3, :3], 3 * g[:3, 3])) == (
        pytest.approx(held[1])
    )
    assert firmness(Surface.of(turned), Surface.of(bumpy), inverse(g)) == pytest.approx(held[1])
    assert firmness(Surface.of(bumpy), Surface.of(bumpy), pose(np.eye(3), np.full(3, 9.0))) == 0


@pytest.mark.parametrize("seed", range(2))
def test_the_laws_hold_far_from_the_start(seed):
    pair, rng = overlapping(seed, n=500), np.random.default_rng(seed)
    x, y, g = pair.source.points, pair.reference.points, found(overlapping(seed, n=500)).pose
    g1, g2 = random_pose(rng, 3.0), random_pose(rng, 3.0)
    start = g2 @ inverse(g1)
    bi = match(moved(x, g1), moved(y, g2), start).pose
    np.testing.assert_allclose(bi, g2 @ g @ inverse(g1), atol=1e-8)
    np.testing.assert_allclose(match(y, x, np.eye(4)).pose, inverse(g), atol=1e-8)
    scaled = match(7 * x, 7 * y, np.eye(4)).pose
    np.testing.assert_allclose(scaled, pose(g[:3, :3], 7 * g[:3, 3]), atol=1e-8)


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
    answer = best_motion(x, y, 0.05)
    assert answer is not None
    motion, support = answer
    assert 0.4 * (~wrong).sum() < support < (~wrong).sum() + 50
    assert turn_between(motion, g) < 1
    np.testing.assert_allclose(motion[:3, 3], g[:3, 3], atol=0.05)


def test_too_few_correspondences_tell_nothing():
    assert best_motion(np.zeros((3, 3)), np.ones((3, 3)), 0.1) is None
    assert best_motion(np.zeros((9, 3)), np.zeros((9, 3)), 0.1) is None


@pytest.mark.parametrize(("name", "share"), [("indoor", 0.8), ("outdoor", 1.0)])
def test_real_scans_are_found_from_anywhere(real_data, name, share):
    pairs = dataset(name, "val", real_data)[:6]
    right = [turn_between(found(pair).pose, pair.ref_from_src) < 5 for pair in pairs]
    assert np.mean(right) >= share
