"""Surfaces, and the step that all refinements make."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from bitr.data.poses import inverse, pose
from bitr.refine.matches import ALONG, DAMPING, Matches, step
from bitr.refine.overlap import overlap
from bitr.refine.surface import Surface
from tests.app.cases import motion


def disc(n=2000):
    rng = np.random.default_rng(0)
    radius, angle = np.sqrt(rng.random(n)), 2 * np.pi * rng.random(n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), 0 * radius], axis=1)


def some_matches(seed=0, size=0.3):
    rng = np.random.default_rng(seed)
    p, normal = rng.normal(size=(2, 40, 3))
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    return Matches(p, p + size * rng.normal(size=(40, 3)), normal, rng.random(40))


def test_swapping_the_matches_inverts_the_step():
    found = some_matches()
    back = step(Matches(found.q, found.p, found.normal, found.weight))
    np.testing.assert_allclose(back, inverse(step(found)), atol=1e-14)


def test_moving_the_matches_moves_the_step():
    found, g = some_matches(), motion(1)
    p, q, n = (points @ g[:3, :3].T for points in (found.p, found.q, found.normal))
    moved = step(Matches(p + g[:3, 3], q + g[:3, 3], n, found.weight))
    np.testing.assert_allclose(moved, g @ step(found) @ inverse(g), atol=1e-12)


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
    np.testing.assert_allclose(step(found), expected, atol=1e-6)


def test_steps_lead_to_the_motion_of_points_that_correspond():
    rng = np.random.default_rng(0)
    x, normal = rng.normal(size=(2, 100, 3))
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    g = pose(Rotation.from_rotvec([0.3, -0.2, 0.1]).as_matrix(), np.array([0.1, 0.2, -0.3]))
    y, found = x @ g[:3, :3].T + g[:3, 3], np.eye(4)
    for _ in range(20):
        p = x @ found[:3, :3].T + found[:3, 3]
        found = step(Matches(p, y, normal, np.ones(100))) @ found
    np.testing.assert_allclose(found, g, atol=1e-9)


def test_the_border_of_a_disc_is_found():
    surface = Surface.of(disc())
    radius = np.linalg.norm(surface.points, axis=1)
    assert surface.interior[radius < 0.85].mean() > 0.97
    assert surface.interior[radius > 0.99].mean() < 0.3
    assert np.abs(surface.normals[:, 2]).min() > 1 - 1e-9


def test_the_spacing_is_that_of_a_grid_and_scales():
    n = 45
    grid = np.stack([*np.meshgrid(np.arange(n) / n, np.arange(n) / n), np.zeros((n, n))], -1).reshape(-1, 3)
    assert Surface.of(grid).spacing == pytest.approx(1 / n, rel=0.6)
    assert Surface.of(3 * grid).spacing == pytest.approx(3 * Surface.of(grid).spacing)


def test_discs_overlap_where_they_cover_each_other_and_not_where_they_touch():
    x, y = Surface.of(disc()), Surface.of(disc(2100))
    assert overlap(x, y, np.eye(4)) > 0.85
    beside = pose(np.eye(3), np.array([2.0, 0, 0]))
    assert overlap(x, y, beside) == 0.0
    above = pose(np.eye(3), np.array([0, 0, x.spacing]))
    assert overlap(x, y, above) == 0.0
    upright = pose(Rotation.from_rotvec([np.pi / 2, 0, 0]).as_matrix(), np.zeros(3))
    assert overlap(x, y, upright) == 0.0
    half = pose(np.eye(3), np.array([0.5, 0, 0]))
    assert 0.4 < overlap(x, y, half) < 0.75
    assert overlap(y, x, inverse(half)) == overlap(x, y, half)
