"""Fractures: closed pieces that give back the whole, and broken surfaces that match."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose
from scipy.spatial import cKDTree

from bitr.data.generated.fracture import OUTSIDE, WHOLE, Fracture, broken
from bitr.data.generated.solids import random_solid
from bitr.io import Geometry, sample_surface

CASES = [(seed, 2 + seed % 7) for seed in range(10)]
"""Seeds, and the number of pieces that is asked for: 2 to 8."""


@pytest.fixture(scope="module")
def fractures() -> list[tuple[float, Fracture]]:
    """The volume of each solid, and the solid broken."""
    found = []
    for seed, pieces in CASES:
        rng = np.random.default_rng(seed)
        _, whole = random_solid(rng)
        found.append((whole.volume(), broken(whole, pieces, rng)))
    return found


def volume(surface: Geometry) -> float:
    """By the divergence theorem, which needs no more than a surface without gaps."""
    a, b, c = (surface.points[surface.faces[:, i]] for i in range(3))
    return float(np.einsum("ni,ni->n", a, np.cross(b, c)).sum() / 6)


def area_vector(surface: Geometry) -> np.ndarray:
    a, b, c = (surface.points[surface.faces[:, i]] for i in range(3))
    return np.cross(b - a, c - a).sum(axis=0) / 2


def area(surface: Geometry) -> float:
    a, b, c = (surface.points[surface.faces[:, i]] for i in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


def chamfer(a: np.ndarray, b: np.ndarray) -> float:
    return float(cKDTree(a).query(b)[0].mean() + cKDTree(b).query(a)[0].mean())


def test_solids_break_into_as_many_pieces_as_asked(fractures):
    got = [len(found.pieces) for _, found in fractures]
    asked = [pieces for _, pieces in CASES]
    assert all(2 <= g <= a for g, a in zip(got, asked, strict=True))
    assert np.mean(np.equal(got, asked)) >= 0.8


def test_every_piece_is_closed_and_connected(fractures):
    for _, found in fractures:
        for piece in found.pieces:
            mesh = trimesh.Trimesh(found.points, found.faces[found.piece == piece], process=False)
            mesh.remove_unreferenced_vertices()
            assert mesh.is_watertight
            assert mesh.is_winding_consistent
            assert mesh.volume > 0
            assert mesh.body_count == 1


def test_pieces_put_together_give_back_the_volume(fractures):
    for whole, found in fractures:
        assert_allclose(sum(volume(found.surface(piece)) for piece in found.pieces), whole, rtol=1e-6)
        assert_allclose(volume(found.surface(WHOLE)), whole, rtol=1e-6)


def test_a_group_of_pieces_has_no_trace_of_the_cuts_within(fractures):
    """Its surface is closed, and holds the volumes of its pieces."""
    for _, found in fractures:
        for node in map(int, found.broke):
            surface = found.surface(node)
            parts = sum(volume(found.surface(piece)) for piece in found.pieces_of(node))
            assert_allclose(volume(surface), parts, rtol=1e-6)
            assert_allclose(area_vector(surface), 0, atol=1e-6)
        assert set(found.cut[found.bounding(WHOLE)]) == {OUTSIDE}


def test_the_two_sides_of_a_cut_are_the_same_surface(fractures):
    """As far from each other as two samples of one side, as large, and facing each other."""
    for _, found in fractures:
        for cut in range(len(found.broke)):
            a, b = (found.surface(side, cut) for side in (2 * cut + 1, 2 * cut + 2))
            first, again = (sample_surface(a, 1500, seed).points for seed in (0, 1))
            other = sample_surface(b, 1500, 2).points
            assert chamfer(first, other) < 1.15 * chamfer(first, again)
            assert_allclose(area(a), area(b), rtol=1e-4)
            assert_allclose(area_vector(a), -area_vector(b), atol=1e-6)


def test_what_fits_touches_and_has_nothing_in_common(fractures):
    for _, found in fractures:
        assert [1, 2] in found.fits.tolist()
        for a, b in found.fits.tolist():
            assert not set(found.pieces_of(a)) & set(found.pieces_of(b))
            first, second = (sample_surface(found.surface(node), 1500, node).points for node in (a, b))
            spacing = cKDTree(first).query(first, k=2)[0][:, 1].mean()
            near = cKDTree(second).query(first)[0] < 3 * spacing
            assert near.sum() >= 10


def test_pieces_far_apart_do_not_fit():
    """A rod in four: the two ends do not touch."""
    from bitr.data.generated.solids.kernel import kernel

    rod = kernel().Manifold.cube((4.0, 0.4, 0.4), True)
    rng, apart = np.random.default_rng(3), 0
    for _ in range(5):
        found = broken(rod, 4, rng)
        middle = {p: found.surface(p).points[found.faces[found.piece == p]].mean() for p in found.pieces}
        ends = sorted((min(middle, key=middle.get), max(middle, key=middle.get)))
        apart += ends not in found.fits.tolist()
    assert apart == 5


def test_some_cuts_are_planes_and_most_are_rough(fractures):
    """The distance of the broken surface from its best plane, over its size."""
    off = []
    for _, found in fractures:
        for cut in range(len(found.broke)):
            points = sample_surface(found.surface(2 * cut + 1, cut), 500, 0).points
            spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
            off.append(spread[2] / spread[0])
    assert 0.02 < np.mean(np.array(off) < 1e-5) < 0.6
    assert np.mean(np.array(off) > 0.02) > 0.4
