"""Surfaces that lie on each other: the measures, and the step of two-sided ICP."""

from dataclasses import astuple

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from bitr.assembly.align import moved
from bitr.assembly.overlay import ALONG, DAMPING, Matches, fit, overlaps
from bitr.assembly.surface import Surface, common_noise, common_spacing
from bitr.data.poses import inverse, pose, random_pose
from tests.assembly.shapes import ball, disc, even_ball
from tests.pieces import motion, two_pieces


def some_matches(seed=0, size=0.3):
    rng = np.random.default_rng(seed)
    p, normal = rng.normal(size=(2, 40, 3))
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    return Matches(p, p + size * rng.normal(size=(40, 3)), normal, rng.random(40))


def test_swapping_the_matches_inverts_the_step():
    found = some_matches()
    back = Matches(found.q, found.p, found.normal, found.weight).step()
    np.testing.assert_allclose(back, inverse(found.step()), atol=1e-14)


def test_moving_the_matches_moves_the_step():
    found, g = some_matches(), motion(1)
    p, q, n = (points @ g[:3, :3].T for points in (found.p, found.q, found.normal))
    elsewhere = Matches(p + g[:3, 3], q + g[:3, 3], n, found.weight).step()
    np.testing.assert_allclose(elsewhere, g @ found.step() @ inverse(g), atol=1e-12)


def test_the_step_is_the_least_of_the_linear_score():
    """The same problem, written out and handed to a general solver."""
    found = some_matches()
    weight = found.weight / found.weight.sum()
    middle = (found.p + found.q) / 2
    center = weight @ middle

    def score(z):
        gap = found.p - found.q + np.cross(z[:3], middle - center) + z[3:]
        across = np.einsum("ni,ni->n", gap, found.normal)
        return weight @ (across**2 + ALONG * np.square(gap).sum(1)) + DAMPING * z @ z

    best = minimize(score, np.zeros(6), tol=1e-14).x
    turn = Rotation.from_rotvec(best[:3]).as_matrix()
    expected = pose(turn, center + best[3:] / 2 + turn @ (best[3:] / 2 - center))
    np.testing.assert_allclose(found.step(), expected, atol=1e-6)


def test_steps_lead_to_the_motion_of_points_that_correspond():
    rng = np.random.default_rng(0)
    x, normal = rng.normal(size=(2, 100, 3))
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    g = pose(Rotation.from_rotvec([0.3, -0.2, 0.1]).as_matrix(), np.array([0.1, 0.2, -0.3]))
    y, found = x @ g[:3, :3].T + g[:3, 3], np.eye(4)
    for _ in range(20):
        p = x @ found[:3, :3].T + found[:3, 3]
        found = Matches(p, y, normal, np.ones(100)).step() @ found
    np.testing.assert_allclose(found, g, atol=1e-9)


def test_discs_overlap_where_they_cover_each_other_and_not_where_they_touch():
    x, y = Surface.of(disc(2000)), Surface.of(disc(2100))
    assert overlaps(x, y, np.eye(4)).larger > 0.85
    beside = pose(np.eye(3), np.array([2.0, 0, 0]))
    assert overlaps(x, y, beside).larger == 0.0
    above = pose(np.eye(3), np.array([0, 0, x.spacing]))
    assert overlaps(x, y, above).larger == 0.0
    upright = pose(Rotation.from_rotvec([np.pi / 2, 0, 0]).as_matrix(), np.zeros(3))
    assert overlaps(x, y, upright).larger == 0.0
    half = pose(np.eye(3), np.array([0.5, 0, 0]))
    assert 0.4 < overlaps(x, y, half).larger < 0.75
    assert overlaps(y, x, inverse(half)).larger == overlaps(x, y, half).larger


def test_noise_does_not_hide_an_overlap():
    rng = np.random.default_rng(0)
    bumpy = [p * (1 + 0.2 * np.sin(3 * p[:, :1]) * np.cos(2 * p[:, 1:2])) for p in (ball(3000, rng),) * 2]
    clean = [Surface.of(p) for p in bumpy]
    noisy = [Surface.of(p + 0.3 * clean[0].spacing * rng.normal(size=p.shape)) for p in bumpy]
    assert common_noise(*noisy) > 0.3 * common_spacing(*noisy)
    assert overlaps(*clean, np.eye(4)).larger > 0.95
    assert overlaps(*noisy, np.eye(4)).larger > 0.7
    assert overlaps(*noisy, pose(np.eye(3), np.array([0.5, 0, 0]))).larger < 0.35


def test_what_is_round_slides_and_what_is_not_does_not():
    rng = np.random.default_rng(0)
    circle, height = rng.uniform(0, 2 * np.pi, 2000), rng.uniform(-1, 1, 2000)
    tube = np.stack([np.cos(circle), np.sin(circle), height], axis=1)
    bumpy = tube * (1 + 0.3 * np.sin(3 * circle) * np.cos(2 * height))[:, None]
    held = [overlaps(Surface.of(p), Surface.of(p), np.eye(4)).firmness for p in (tube, bumpy)]
    assert 10 * held[0] < held[1]
    turned = moved(bumpy, g := random_pose(rng, 2.0))
    scaled = overlaps(Surface.of(3 * bumpy), Surface.of(3 * turned), pose(g[:3, :3], 3 * g[:3, 3]))
    assert scaled.firmness == pytest.approx(held[1])
    assert overlaps(Surface.of(turned), Surface.of(bumpy), inverse(g)).firmness == pytest.approx(held[1])
    away = pose(np.eye(3), np.full(3, 9.0))
    assert overlaps(Surface.of(bumpy), Surface.of(bumpy), away).firmness == 0


def test_an_overlap_has_a_larger_and_a_smaller_share():
    whole = even_ball(3000) * [1, 0.8, 0.6]
    part = whole[whole[:, 2] > 0.1]
    x, y = Surface.of(part), Surface.of(whole)
    there, back = overlaps(x, y, np.eye(4)), overlaps(y, x, np.eye(4))
    assert astuple(there) == pytest.approx(astuple(back))
    assert there.larger > 0.95
    assert there.smaller == pytest.approx(len(part) / len(whole), abs=0.1)
    assert there.residual < 0.2


def by_hand(x, y):
    """The definition, on the full matrix of distances."""

    def spacing(points):
        among = np.linalg.norm(points[:, None] - points, axis=2) + np.diag([np.inf] * len(points))
        return np.median(among.min(1))

    tau = 2 * np.sqrt((spacing(x) ** 2 + spacing(y) ** 2) / 2)
    between = np.linalg.norm(x[:, None] - y, axis=2)
    near = [between.min(1), between.min(0)]
    close = np.concatenate([d[d <= tau] for d in near])
    return np.mean([(d <= tau).mean() for d in near]), np.sqrt((close**2).mean())


def test_it_is_what_the_docstring_says():
    x, y = two_pieces(600)
    found = fit(x, y, np.eye(4))
    assert (found.fitness, found.inlier_rmse) == pytest.approx(by_hand(x, y))
    assert 0 < found.fitness < 0.5  # they touch along the cut, and nowhere else


def test_equal_clouds_fit_perfectly():
    x, _ = two_pieces(300)
    found = fit(x, x, np.eye(4))
    assert found.fitness == 1
    assert found.inlier_rmse == 0


def test_clouds_that_are_apart_have_no_partners():
    x, y = two_pieces(300)
    found = fit(x, y + 100, np.eye(4))
    assert found.fitness == 0
    assert found.inlier_rmse is None


def test_swapping_or_moving_the_pieces_changes_nothing():
    x, y = two_pieces(600)
    pose = motion(0)
    for other in (fit(y, x, np.eye(4)), fit(moved(x, pose), y, inverse(pose)), fit(x, moved(y, pose), pose)):
        assert other.fitness == pytest.approx(fit(x, y, np.eye(4)).fitness)
        assert other.inlier_rmse == pytest.approx(fit(x, y, np.eye(4)).inlier_rmse)


@pytest.mark.parametrize("factor", [1e-200, 1000.0, 1e200])
def test_the_unit_changes_only_the_length(factor):
    x, y = two_pieces(600)
    found, plain = fit(factor * x, factor * y, np.eye(4)), fit(x, y, np.eye(4))
    assert found.fitness == pytest.approx(plain.fitness)
    assert found.inlier_rmse == pytest.approx(factor * plain.inlier_rmse)
