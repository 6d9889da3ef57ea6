"""A cloud as a surface: normals, spacing, noise and borders."""

import numpy as np
import pytest

from bitr.assembly.align import moved
from bitr.assembly.surface import Surface, bareness, outward_normals, surface_elements
from bitr.data.poses import random_pose
from bitr.io import as_points, farthest_points
from tests.assembly.shapes import ball, disc, even_ball
from tests.assembly.solids import box


def hemisphere(n=1500):
    points = even_ball(2 * n)
    return points[points[:, 2] > 0]


def test_the_border_of_a_hemisphere_is_its_rim():
    surface = Surface.of(hemisphere())
    border, spacing = surface.border, surface.spacing
    assert len(border) > 40
    assert np.abs(border.points[:, 2]).max() < 1.5 * spacing
    assert np.abs(border.points[:, 2]).mean() < 0.6 * spacing
    assert np.abs(np.linalg.norm(border.points, axis=1) - 1).max() < 0.05
    assert (border.outward[:, 2] < -0.9).all()  # away from the dome
    radial = border.points / np.linalg.norm(border.points, axis=1, keepdims=True)
    assert (np.abs(np.einsum("ni,ni->n", border.normals, radial)) > 0.95).all()
    angle = np.sort(np.arctan2(border.points[:, 1], border.points[:, 0]))
    assert np.diff(angle, append=angle[0] + 2 * np.pi).max() < 6 * spacing  # all the way round


def test_frames_of_a_border_are_orthonormal():
    border = Surface.of(hemisphere()).border
    frames = np.stack([border.tangents, border.normals, border.outward], axis=2)
    np.testing.assert_allclose(
        frames.swapaxes(1, 2) @ frames, np.broadcast_to(np.eye(3), frames.shape), atol=1e-9
    )


def test_a_closed_sphere_has_hardly_any_border():
    even = Surface.of(even_ball(2000))
    assert len(even.border) == 0
    assert even.interior.all()
    drawn = Surface.of(ball(2000, np.random.default_rng(0)))
    assert len(drawn.border) < 0.06 * 2000
    assert drawn.interior.mean() > 0.97


def test_the_border_of_a_disc_is_found_in_a_random_sample():
    surface = Surface.of(disc(2000, np.random.default_rng(0)))
    radius = np.linalg.norm(surface.border.points, axis=1)
    near = radius > 1 - 3 * surface.spacing
    assert near.mean() > 0.7
    out = surface.border.points / radius[:, None]
    assert (np.einsum("ni,ni->n", out, surface.border.outward)[near] > 0.7).mean() > 0.9


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3])
@pytest.mark.parametrize("shape", ["plane", "sphere"])
def test_the_noise_of_planes_and_spheres_is_estimated(shape, share):
    rng = np.random.default_rng(0)
    points = disc(3000, rng) if shape == "plane" else ball(3000, rng)
    spacing = Surface.of(points).spacing
    across = np.array([0.0, 0.0, 1.0]) if shape == "plane" else points
    noisy = Surface.of(points + share * spacing * rng.normal(size=(3000, 1)) * across)
    assert noisy.noise == pytest.approx(share * spacing, rel=0.3)


@pytest.mark.parametrize("shape", ["plane", "sphere"])
def test_curvature_is_no_noise(shape):
    rng = np.random.default_rng(0)
    surface = Surface.of(disc(3000, rng) if shape == "plane" else ball(3000, rng))
    assert surface.noise < 0.02 * surface.spacing


def test_given_normals_tell_the_walls_of_a_thin_plate_apart():
    rng, thickness = np.random.default_rng(0), 0.01
    walls = np.concatenate([disc(2000, rng) + np.array([0, 0, thickness]), disc(2000, rng)])
    rows = farthest_points(walls, 1500)
    points, normals = walls[rows], np.repeat([[0.0, 0, 1], [0.0, 0, -1]], 2000, axis=0)[rows]
    without, with_normals = Surface.of(points), Surface.of(points, normals)
    assert with_normals.noise < 0.02 * with_normals.spacing < without.noise
    assert (np.abs(with_normals.normals[:, 2]) > 0.999).all()
    rim = np.linalg.norm(with_normals.border.points, axis=1) > 0.85
    assert rim.mean() > 0.6
    assert len(with_normals.border) > 100


def test_a_surface_moves_and_scales_with_its_points():
    rng = np.random.default_rng(0)
    points, g = hemisphere(600) * [1, 0.8, 0.6], random_pose(rng, 2.0)
    one, other = Surface.of(points), Surface.of(moved(3 * points, g))
    assert other.spacing == pytest.approx(3 * one.spacing)
    assert other.noise == pytest.approx(3 * one.noise, rel=1e-6)
    np.testing.assert_array_equal(one.interior, other.interior)
    np.testing.assert_allclose(other.border.points, moved(3 * one.border.points, g), atol=1e-8)
    np.testing.assert_allclose(other.border.outward, one.border.outward @ g[:3, :3].T, atol=1e-8)
    cosine = np.einsum("ni,ni->n", one.normals @ g[:3, :3].T, other.normals)
    np.testing.assert_allclose(np.abs(cosine), 1, atol=1e-9)


def test_the_order_of_the_points_does_not_matter():
    points, rng = hemisphere(600) * [1, 0.8, 0.6], np.random.default_rng(0)
    order = rng.permutation(len(points))
    one, other = Surface.of(points), Surface.of(points[order])
    assert (one.spacing, len(one.border)) == (other.spacing, len(other.border))
    assert one.noise == pytest.approx(other.noise, rel=1e-9)
    np.testing.assert_array_equal(one.interior[order], other.interior)


def test_few_points_and_points_on_a_line_have_no_border():
    for points in (np.random.default_rng(0).normal(size=(5, 3)), np.outer(np.arange(100.0), [1, 2, 3])):
        found = Surface.of(points)
        assert np.isfinite(found.normals).all()
        assert np.isfinite(found.border.outward).all()
    assert len(Surface.of(np.random.default_rng(0).normal(size=(5, 3))).border) == 0


def test_the_border_of_a_disc_is_found():
    surface = Surface.of(disc(2000))
    radius = np.linalg.norm(surface.points, axis=1)
    assert surface.interior[radius < 0.85].mean() > 0.97
    assert surface.interior[radius > 0.99].mean() < 0.3
    assert np.abs(surface.normals[:, 2]).min() > 1 - 1e-9


def test_the_spacing_is_that_of_a_grid_and_scales():
    n = 45
    grid = np.stack([*np.meshgrid(np.arange(n) / n, np.arange(n) / n), np.zeros((n, n))], -1).reshape(-1, 3)
    assert Surface.of(grid).spacing == pytest.approx(1 / n, rel=0.6)
    assert Surface.of(3 * grid).spacing == pytest.approx(3 * Surface.of(grid).spacing)


def thin_box(count=900):
    """Points of a flat closed box, a few spacings thin, with the normals of its faces."""
    dense = as_points(box(1.0, 0.7, 0.12), 8000, 0)
    rows = farthest_points(dense.points, count)
    return dense.points[rows], dense.normals[rows]


def test_normals_point_out_of_a_closed_surface_without_being_given():
    points, normals = thin_box()
    cosine = np.einsum("ni,ni->n", outward_normals(Surface.of(points)), normals)
    assert (cosine > 0).mean() > 0.99
    assert np.median(cosine) > 0.999
    assert (cosine > 0.9).mean() > 0.9  # at creases, too: a blurred normal there has 0.7


def test_creases_and_thin_edges_of_closed_surfaces_are_not_bare_and_the_rim_of_an_opening_is():
    points, normals = thin_box()
    assert bareness(Surface.of(points, normals), normals) < 0.001
    lower = points[:, 0] < np.quantile(points[:, 0], 0.6)
    opened = Surface.of(points[lower], normals[lower])
    assert bareness(opened, normals[lower]) > 0.01


def test_bareness_does_not_change_with_motions_scale_or_order():
    points = hemisphere(600) * [1, 0.8, 0.6]
    normals = points / np.linalg.norm(points, axis=1, keepdims=True)
    g, order = random_pose(np.random.default_rng(0), 2.0), np.random.default_rng(1).permutation(len(points))
    plain = bareness(Surface.of(points, normals), normals)
    turned = (normals @ g[:3, :3].T)[order]
    assert bareness(Surface.of(moved(3 * points, g)[order], turned), turned) == plain > 0.01


def test_outward_normals_turn_with_the_points_whatever_their_order():
    points = thin_box(400)[0] @ np.diag([1.0, 1.1, 0.9])
    g, order = random_pose(np.random.default_rng(0), 1.0), np.random.default_rng(1).permutation(len(points))
    plain = outward_normals(Surface.of(points))
    other = outward_normals(Surface.of(moved(points, g)[order]))
    np.testing.assert_allclose(other, (plain @ g[:3, :3].T)[order], atol=1e-7)


def test_surface_elements_are_those_of_the_damped_system():
    surface = Surface.of(thin_box(150)[0])
    x, n = surface.points, len(surface.points)
    rows = np.zeros((n, n, 3))
    for i in range(n):
        for j in range(n):
            apart = x[j] - x[i]
            length = max(np.linalg.norm(apart), np.sqrt(8) * surface.spacing)
            rows[i, j] = apart / (4 * np.pi * length**3)
    literal = rows.reshape(n, -1)
    system = literal @ literal.T
    weight = np.linalg.solve(system + np.diag(system.diagonal()), np.full(n, 0.5))
    expected = (weight @ literal).reshape(-1, 3)
    found = surface_elements(surface)
    assert np.linalg.norm(found - expected) < 0.01 * np.linalg.norm(expected)
