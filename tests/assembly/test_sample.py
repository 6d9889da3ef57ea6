"""What the engine looks at: equal densities, chosen by the geometry alone."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from bitr.assembly.sample import DENSE, SURFACE, sample, spread_draw
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.model import BITRConfig
from tests.assembly.cases import LAWS, SMALL, changed
from tests.assembly.shapes import ball
from tests.pieces import bumpy_mesh, motion, moved, two_pieces

CONFIG = BITRConfig()


def sampled(x, y, budget=200, samplings=3, config=CONFIG, **more):
    return sample(Geometry(x, name="x"), Geometry(y, name="y"), config, budget, samplings, **more)


def spacing(points):
    return np.median(cKDTree(points).query(points, k=2)[0][:, 1])


@pytest.mark.slow
def test_both_pieces_are_seen_at_equal_density():
    rng = np.random.default_rng(0)
    small, large = ball(3000, rng), 2 * ball(6000, rng)
    found = sampled(small, large, budget=600, samplings=1)
    source, reference = found.seen[0]
    assert spacing(source.points) == pytest.approx(spacing(reference.points), rel=0.15)
    assert len(reference.points) == 600
    for source, reference in (found.seen[0], (found.source, found.reference)):
        assert len(reference.points) == pytest.approx(4 * len(source.points), rel=0.15)
    assert len(found.source.points) + len(found.reference.points) <= SURFACE + 1


def test_densities_that_hardly_differ_keep_all_points():
    x, y = two_pieces(300)
    found = sampled(x, y, budget=1000)
    assert (len(found.seen[0][0].points), len(found.source.points)) == (len(x), len(x))
    assert (len(found.seen[0][1].points), len(found.reference.points)) == (len(y), len(y))


def test_a_tiny_piece_keeps_an_eighth_of_the_points_of_the_large_one():
    rng = np.random.default_rng(0)
    found = sampled(0.01 * ball(2000, rng), ball(2000, rng), budget=400)
    assert [len(side.points) for side in found.seen[0]] == [50, 400]


@pytest.mark.parametrize("n", [400, 3000])
def test_samplings_differ_and_each_keeps_to_the_budget(n):
    x, y = two_pieces(n)
    found = sampled(x, y, budget=150, samplings=4)
    assert len(found.seen) == 4
    chosen = [{tuple(p) for p in source.points} for source, _ in found.seen]
    assert all(len(points) <= 150 for points in chosen)
    assert all(a != b for i, a in enumerate(chosen) for b in chosen[:i])


def test_samplings_of_a_small_cloud_differ_too():
    x, y = two_pieces(100)
    found = sampled(x, y, budget=1000)
    assert len(found.seen[0][0].points) == len(x)
    assert len(found.seen[1][0].points) == int(0.8 * len(x))


@pytest.mark.parametrize("most", [10, 99, 1000, 5000])
def test_a_draw_does_not_depend_on_the_order_or_on_a_motion(most):
    x, rng = two_pieces(8000)[0], np.random.default_rng(0)
    expected = {tuple(p) for p in x[spread_draw(x, most)]}
    assert len(expected) == min(most, len(x))
    order = rng.permutation(len(x))
    assert {tuple(p) for p in x[order][spread_draw(x[order], most)]} == expected
    np.testing.assert_array_equal(spread_draw(moved(x, motion(1)), most), spread_draw(x, most))
    np.testing.assert_array_equal(spread_draw(1e-3 * x, most), spread_draw(x, most))


def test_a_draw_of_points_at_equal_distances_is_made_by_their_order():
    x = ball(1000, np.random.default_rng(0))
    rows = spread_draw(np.concatenate([x, -x]), 100)
    assert len(np.unique(rows)) == 100
    assert (np.diff(rows) > 0).all()


@pytest.mark.parametrize("law", LAWS)
def test_everything_moves_with_the_pieces_and_swaps_with_them(law):
    x, y = two_pieces(900)
    plain, other = sampled(x, y), sampled(*changed(law, x, y))
    if law == "swapped":
        pairs = [(plain.source, other.reference), (plain.reference, other.source)]
    else:
        pairs = [(plain.source, other.source), (plain.reference, other.reference)]
    for one, two in pairs:
        apart = [np.linalg.norm(side.points, axis=1) for side in (one, two)]
        np.testing.assert_allclose(*apart, atol=1e-9)
        assert one.spacing == pytest.approx(two.spacing, rel=1e-9)
        assert one.noise == pytest.approx(two.noise, rel=1e-6)
        assert len(one.border) == len(two.border)
    for seen, seen_too in zip(plain.seen, other.seen, strict=True):
        expected = changed(law, *(side.points for side in seen))
        for side, points in zip(seen_too, expected, strict=True):
            np.testing.assert_allclose(side.points, points, atol=1e-9)


def test_copies_of_points_count_once_and_large_clouds_are_drawn_from():
    x, y = two_pieces(300)
    twice = sampled(np.concatenate([x, x]), y)
    np.testing.assert_allclose(twice.dense[0].points, x, atol=1e-5)  # a little apart, so that nothing ties
    many = sampled(*two_pieces(60_000), config=SMALL, samplings=1, surface=200)
    assert [len(side.points) for side in many.dense] == [DENSE, DENSE]


def test_a_mesh_is_sampled_by_its_seed():
    mesh = bumpy_mesh(0)
    geometry = Geometry(np.array(mesh.vertices), faces=np.array(mesh.faces, dtype=np.int64), name="mesh")
    cloud = Geometry(two_pieces(300)[0], name="cloud")
    found = [sample(geometry, cloud, SMALL, 100, 1, seed).dense for seed in (0, 0, 1)]
    assert len(found[0][0].points) == DENSE
    np.testing.assert_array_equal(found[0][0].points, found[1][0].points)
    assert not np.array_equal(found[0][0].points, found[2][0].points)


def test_points_at_one_place_are_refused():
    x = two_pieces(100)[0]
    with pytest.raises(InputError, match=r"^x: only 1 of 50 points are at different places, expected at"):
        sampled(np.ones((50, 3)), x)
