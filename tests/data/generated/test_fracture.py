"""Fractures: closed pieces that give back the whole, broken surfaces that match, and stored ones."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose
from scipy.spatial import cKDTree

from bitr.data import storage
from bitr.data.generated import ShapeCache, ShapesConfig, broken_solid, fracture
from bitr.data.generated.dataset import num_solids
from bitr.data.generated.fracture import FIRST, OUTSIDE, WHOLE, Fracture, break_solid, cache_folder
from bitr.data.generated.kernel import kernel
from bitr.data.generated.solids import random_solid
from bitr.data.generated.vessels import thin_vessel
from bitr.errors import InputError
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
        found.append((whole.volume(), break_solid(whole, pieces, rng)))
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


@pytest.mark.slow
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
    rod = kernel().Manifold.cube((4.0, 0.4, 0.4), True)
    rng, apart = np.random.default_rng(3), 0
    for _ in range(5):
        found = break_solid(rod, 4, rng)
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


# vessels, chips and wear


@pytest.mark.parametrize("seed", range(4))
def test_vessels_are_thin_connected_and_differ(seed):
    whole = thin_vessel(np.random.default_rng(seed))
    mesh = whole.to_mesh64()
    surface = Geometry(mesh.vert_properties[:, :3], faces=mesh.tri_verts.astype(np.int64))
    assert len(whole.decompose()) == 1
    assert np.linalg.norm(surface.points, axis=1).max() == pytest.approx(1, abs=0.01)
    width = np.ptp(surface.points, axis=0)[:2].max() / 2  # of the widest place, with handles
    assert 0.01 < 2 * volume(surface) / area(surface) < 0.13 * max(width, 0.5)
    assert whole.volume() != thin_vessel(np.random.default_rng(seed + 100)).volume()


def test_vessels_break_into_closed_pieces_that_give_back_the_whole():
    found = broken_solid(3, (2, 4), is_vessel=True)
    assert len(found.fits)
    parts = sum(volume(found.surface(piece)) for piece in found.pieces)
    assert parts == pytest.approx(volume(found.surface(WHOLE)), rel=1e-4)


@pytest.mark.parametrize("is_vessel", [False, True])
def test_a_chip_has_less_than_a_tenth_of_the_surface(is_vessel):
    for seed in range(3):
        found = broken_solid(seed, (2, 8), is_vessel=is_vessel, is_chipped=True)
        assert found.pieces == [1, 2]
        areas = [area(found.surface(piece)) for piece in found.pieces]
        assert 0.004 < min(areas) / sum(areas) < 0.1
        assert found.fits.tolist() == [[1, 2]]


def sawn_block() -> Fracture:
    """A cube of side 1 about the origin, sawn in two across z: its crease is a square of side 1."""
    block = kernel().Manifold.cube((1.0, 1.0, 1.0), True).as_original()
    saw = kernel().Manifold.cube((3.0, 3.0, 3.0), True).translate((0, 0, -1.5)).as_original()
    return fracture._gather(dict(zip((1, 2), block.split(saw), strict=True)), {saw.original_id(): 0}, [0])


def test_the_crease_of_a_sawn_block_is_the_square_around_the_cut():
    points, outward = fracture.find_crease(sawn_block(), 1, 0.01)
    assert np.abs(points[:, 2]).max() < 1e-6
    assert np.abs(np.abs(points[:, :2]).max(axis=1) - 0.5).max() < 1e-6
    assert len(points) >= 400
    up = outward[:, 2]  # the lower half: up out of the cut, and out of the side
    assert np.abs(up - np.sqrt(0.5)).max() < 1e-6 or np.abs(up + np.sqrt(0.5)).max() < 1e-6


def test_wear_takes_from_the_break_and_its_edge_and_leaves_the_rest():
    """Nothing grows; far from the cut nothing moves; the edge is lowest at the crease."""
    found, width = sawn_block(), 0.05
    worn = fracture.sample_worn(found, 1, 20_000, width, np.random.default_rng(0))
    sign = np.sign(worn.points[:, 2].mean())
    x, y, depth = np.abs(worn.points[:, 0]), np.abs(worn.points[:, 1]), sign * worn.points[:, 2]
    assert max(x.max(), y.max()) <= 0.5 + 1e-6
    assert depth.min() >= -1e-6
    old = depth > 0.15
    assert np.abs(np.maximum.reduce([x, y, depth])[old] - 0.5).max() < 1e-6
    middle = (np.maximum(x, y) < 0.35) & (depth < 0.1)
    assert 0.5 < depth[middle].mean() / (0.25 * width) < 1.5
    inset = (0.5 - np.maximum(x, y) + depth)[np.minimum(x, y) < 0.4]  # 0 at the sharp edge
    assert inset.min() > 0.4 * 0.3 * width  # 0.57 radii, which are 0.3 widths at least
    assert_allclose(np.linalg.norm(worn.normals, axis=1), 1)


# stored shapes: as they were made, made again when damaged, and never seen half written

SEED = 12


def same(a: Fracture, b: Fracture) -> bool:
    return all(np.array_equal(getattr(a, field.name), getattr(b, field.name)) for field in fields(Fracture))


@pytest.fixture(scope="module")
def made() -> Fracture:
    return broken_solid(SEED, (2, 3))


@pytest.fixture
def store(tmp_path: Path, made: Fracture, monkeypatch: pytest.MonkeyPatch) -> ShapeCache:
    """A cache in an empty folder that counts how often a solid is made."""
    calls: list[int] = []

    def counted(seed: int, pieces: tuple[int, int], **kind: bool) -> Fracture:
        calls.append(seed)
        return made

    monkeypatch.setattr(fracture, "broken_solid", counted)
    monkeypatch.setattr(ShapeCache, "calls", calls, raising=False)
    return ShapeCache(tmp_path, (2, 3))


def test_a_shape_is_made_once_and_comes_back_as_it_was(store, made):
    assert same(store.get(SEED), made)
    assert same(store.get(SEED), made)
    assert store.calls == [SEED]
    assert [path.name for path in store.path(SEED).parent.iterdir()] == [f"{SEED}.shape"]


@pytest.mark.parametrize("kept", [0, 3, 4, 20, 500, -1])
def test_a_file_cut_short_is_made_again(store, made, kept):
    store.get(SEED)
    whole = store.path(SEED).read_bytes()
    store.path(SEED).write_bytes(whole[:kept])
    assert same(store.get(SEED), made)
    assert store.path(SEED).read_bytes() == whole
    assert store.calls == [SEED] * 2


def test_a_changed_byte_anywhere_is_noticed(store, made):
    store.get(SEED)
    whole = store.path(SEED).read_bytes()
    places = [*range(0, 400, 7), *np.random.default_rng(0).integers(0, len(whole), 40)]
    for place in places:
        store.path(SEED).write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert same(store.get(SEED), made)
    store.path(SEED).write_bytes(bytes(4))
    assert same(store.get(SEED), made)
    assert len(store.calls) == len(places) + 2


def test_an_interrupted_write_leaves_nothing(store, made, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.get(SEED)
    assert list(store.path(SEED).parent.iterdir()) == []
    assert same(store.get(SEED), made)


def test_many_may_ask_at_once(store, made):
    with ThreadPoolExecutor(8) as pool:
        assert all(same(found, made) for found in pool.map(store.get, [SEED] * 24))
    assert same(store.get(SEED), made)


def test_a_folder_that_cannot_be_written_to_is_named(store, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"file.*cannot be stored.*XDG_CACHE_HOME"):
        ShapeCache(tmp_path / "file", (2, 3)).get(SEED)


def test_other_parameters_recipes_and_versions_are_kept_apart(store, tmp_path, monkeypatch):
    assert ShapeCache(tmp_path, (2, 4)).path(SEED).parent != store.path(SEED).parent
    with monkeypatch.context() as patch:
        patch.setattr(storage, "version", lambda name: "another")
        another_version = store.path(SEED)
    before = store.path(SEED)
    monkeypatch.setattr(fracture, "RECIPE", "another")
    assert len({before, another_version, store.path(SEED)}) == 3


def test_the_recipe_has_the_name_of_what_it_makes():
    """If this fails, seeds give other solids: give ``RECIPE`` another name, and put the new volumes here."""
    volumes = [
        [volume(found.surface(piece)) for piece in found.pieces]
        for found in (broken_solid(seed, (2, 3)) for seed in range(3))
    ]
    assert fracture.RECIPE == "46a660f3549e"
    assert_allclose(volumes, [[0.15053, 0.55897], [0.12613, 0.40946], [0.15215, 0.1788]], rtol=1e-3)


def test_the_folder_is_below_the_root_only_where_it_was_made(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cached"))
    assert cache_folder(None) == cache_folder(tmp_path) == tmp_path / "cached" / "bitr" / "shapes"
    (tmp_path / "generated").mkdir()
    assert cache_folder(tmp_path) == tmp_path / "generated"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder(None) == tmp_path / ".cache" / "bitr" / "shapes"


def test_splits_have_no_seed_in_common():
    seeds = {
        split: set(range(first, first + num_solids(split, ShapesConfig()))) for split, first in FIRST.items()
    }
    assert len(set.union(*seeds.values())) == sum(map(len, seeds.values()))
    assert FIRST["train"] + 10**8 < FIRST["val"] < FIRST["test"]


@pytest.mark.parametrize(("low", "high"), [(2, 2), (4, 5)])
def test_a_solid_has_as_many_pieces_as_the_range_allows(low, high):
    for seed in range(3):
        assert low <= len(broken_solid(seed, (low, high)).pieces) <= high
