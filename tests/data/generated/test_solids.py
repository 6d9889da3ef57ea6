"""Generated solids: closed, connected, of size 1, and no two alike."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose
from scipy.spatial import cKDTree

from bitr.data.generated.kernel import Fractal, kernel, level_set, solid, sweep_section
from bitr.data.generated.solids import EDGE, FAMILIES, STRETCH, add_detail, random_solid
from bitr.errors import InputError


def mesh_of(made) -> trimesh.Trimesh:
    mesh = made.to_mesh64()
    return trimesh.Trimesh(mesh.vert_properties[:, :3], mesh.tri_verts.astype(np.int64), process=False)


@pytest.fixture(scope="module")
def many() -> list[tuple[str, trimesh.Trimesh]]:
    return [
        (family, mesh_of(made))
        for family, made in (random_solid(np.random.default_rng(i)) for i in range(45))
    ]


@pytest.mark.slow
def test_every_solid_is_closed_connected_and_fits_the_unit_ball(many):
    for family, mesh in many:
        assert mesh.is_watertight, family
        assert mesh.is_winding_consistent, family
        assert mesh.body_count == 1, family
        assert mesh.volume > 0.01, family
        assert_allclose(mesh.vertices.mean(axis=0), 0, atol=1e-9)
        assert_allclose(np.linalg.norm(mesh.vertices, axis=1).max(), 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_makes_solids(family):
    for seed in range(8):
        mesh = mesh_of(FAMILIES[family][1](np.random.default_rng(seed)))
        assert mesh.is_watertight
        assert mesh.volume > 0


@pytest.mark.slow
def test_solids_are_varied(many):
    """In size and slenderness, in how much of their hull they fill, and in how many holes they have."""
    assert len({family for family, _ in many}) >= 7
    volume = np.array([mesh.volume for _, mesh in many])
    assert np.quantile(volume, 0.9) > 5 * np.quantile(volume, 0.1)
    extents = np.array([np.sort(mesh.bounding_box_oriented.primitive.extents) for _, mesh in many])
    slender = extents[:, 0] / extents[:, 2]
    assert np.quantile(slender, 0.9) > 2 * np.quantile(slender, 0.1)
    filled = volume / np.array([mesh.convex_hull.volume for _, mesh in many])
    assert np.quantile(filled, 0.1) < 0.4
    assert np.quantile(filled, 0.9) > 0.8
    assert len({mesh.euler_number for _, mesh in many}) >= 3
    described = np.column_stack([extents, volume, filled])
    assert cKDTree(described).query(described, k=2)[0][:, 1].min() > 1e-3


def test_no_solid_is_symmetric(many):
    """Half a turn about a principal axis leaves it farther from itself than two samples of it are."""
    off = []
    for seed, (_, mesh) in enumerate(many):
        first, second = (trimesh.sample.sample_surface(mesh, 3000, seed=2 * seed + k)[0] for k in range(2))
        axes = np.linalg.svd(first - first.mean(axis=0), full_matrices=False)[2]
        tree, center = cKDTree(second), first.mean(axis=0)
        turned = [(first - center) @ (2 * np.outer(axis, axis) - np.eye(3)) + center for axis in axes]
        off.append(min(tree.query(points)[0].mean() for points in turned) / tree.query(first)[0].mean())
    assert min(off) > 1.06  # bowls and plates come closest
    assert np.median(off) > 2


def test_the_seed_decides():
    first, same, other = (random_solid(np.random.default_rng(seed))[1].to_mesh64() for seed in (5, 5, 6))
    assert np.array_equal(first.vert_properties, same.vert_properties)
    assert np.array_equal(first.tri_verts, same.tri_verts)
    assert first.vert_properties.shape != other.vert_properties.shape


def test_the_slope_of_a_field_is_its_greatest_stretch():
    rng = np.random.default_rng(0)
    field, at = Fractal.random(rng, 3, 3, 1.0, 3, 0.5), rng.normal(size=(200, 3))
    step = 1e-6 * rng.normal(size=(200, 3))
    seen = np.linalg.norm(field(at + step) - field(at - step), axis=1) / np.linalg.norm(2 * step, axis=1)
    each = np.array([field.slope(point[None]) for point in at])
    assert np.all(seen <= each * (1 + 1e-5))
    assert_allclose(field.slope(at), each.max())
    assert_allclose(field.times(3.0).slope(at), 3 * each.max())


def test_detail_takes_no_two_places_to_one():
    """Distances shrink by no more than the stretch that is allowed: walls stay walls."""
    before = np.array(mesh_of(kernel().Manifold.sphere(1.0, 40).refine_to_length(EDGE)).vertices)
    pairs = cKDTree(before).query_pairs(0.3, output_type="ndarray")
    for seed in range(5):
        after = add_detail(before, np.random.default_rng(seed))
        old, new = (np.linalg.norm(p[pairs[:, 0]] - p[pairs[:, 1]], axis=1) for p in (before, after))
        assert (new / old).min() > 1 - STRETCH
        assert (new / old).max() < 1 + STRETCH
        assert np.abs(after - before).max() > 0.005


def test_a_level_set_has_the_volume_of_its_field():
    made = level_set(lambda p: 0.8 - np.linalg.norm(p, axis=1))
    assert_allclose(made.volume(), 4 / 3 * np.pi * 0.8**3, rtol=0.02)
    assert mesh_of(made).is_watertight


def test_a_straight_tube_has_the_volume_of_its_section():
    angle = 2 * np.pi * np.arange(64) / 64
    section = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    path = np.linspace([0, 0, 0], [1.0, 2.0, 2.0], 20)
    area = 64 / 2 * np.sin(2 * np.pi / 64)
    assert_allclose(sweep_section(path, np.full(20, 0.3), section).volume(), 3 * 0.09 * area)
    assert_allclose(
        sweep_section(path, np.full(20, 0.3), section, twist=0.4).volume(), 3 * 0.09 * area, rtol=2e-3
    )


def test_an_open_surface_is_no_solid():
    with pytest.raises(ValueError, match="bound no solid"):
        solid(np.eye(3), np.array([[0, 1, 2]]))


def test_without_manifold3d_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "manifold3d", None)
    with pytest.raises(InputError, match=r'pip install -e "\.\[data\]"'):
        random_solid(np.random.default_rng(0))
