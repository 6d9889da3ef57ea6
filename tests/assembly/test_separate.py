"""Penetration is removed by the shortest motion, lawfully; what cannot be freed is left as it is."""

from dataclasses import replace

import numpy as np
import pytest

from bitr.assembly.assemble import Settings, assemble_geometries
from bitr.assembly.separate import Correction, inertia, separate, shortest
from bitr.data.generated import ShapesConfig, shapes
from bitr.data.poses import inverse, move_points, pose
from bitr.errors import InputError
from bitr.io import Geometry, sample_surface
from tests.assembly.cases import network, told
from tests.assembly.solids import box, bumpy, joined, larger, pushed, separation_laws, shifted, tube
from tests.pieces import motion, two_pieces

STACKED = shifted(0.1, 0.2, 0.95)
"""A box that stands 0.05 deep in another."""


def cloud(geometry, n=1500):
    return sample_surface(geometry, n, seed=1)


def test_a_box_is_lifted_by_its_depth_and_no_more():
    found = separate(box(), box(), STACKED)
    assert found.moved
    assert found.depth_before == pytest.approx(0.05)
    assert found.depth_after < 1e-4
    assert np.allclose(found.pose, shifted(0.1, 0.2, 1.0), atol=1e-4)
    assert found.way == pytest.approx(0.05, abs=1e-4)


def test_it_works_in_any_unit_and_far_from_the_origin():
    away = shifted(1e6, 2e6, 3e6)
    found = separate(larger(box(), 1000.0), larger(box(), 1000.0).moved(away), away @ shifted(100, 200, 950))
    assert found.depth_before == pytest.approx(50)
    assert np.allclose(found.pose, away @ shifted(100, 200, 1000), atol=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_bumpy_meshes_come_apart(seed):
    x, y = bumpy(seed), bumpy(seed + 7)
    found = separate(x, y, pushed(x, y))
    assert found.moved
    assert found.depth_before > 0.1
    assert found.depth_after < 2e-4
    assert found.way < 1.1 * found.depth_before
    again = separate(x, y, found.pose)
    assert not again.moved
    assert again.depth_before == pytest.approx(found.depth_after, abs=1e-9)


@pytest.mark.parametrize("kind", [lambda g: g, cloud], ids=["mesh", "cloud"])
def test_the_laws_hold(kind):
    for seed in range(2):
        x, y = kind(bumpy(seed)), kind(bumpy(seed + 7))
        start = pushed(x, y)
        assert separate(x, y, start).moved
        found = separation_laws(x, y, start, seed)
        assert max(found.bi, found.swap, found.scale) < 1e-9


def test_the_laws_hold_where_only_one_piece_has_an_inside():
    x, y = bumpy(0), replace(cloud(bumpy(7)), normals=None)
    start = pushed(x, y)
    assert separate(x, y, start).moved
    found = separation_laws(x, y, start)
    assert max(found.bi, found.swap, found.scale) < 1e-9


def test_clouds_with_normals_come_apart_to_within_their_spacing():
    x, y = bumpy(0), bumpy(7)
    start = pushed(x, y)
    exact, found = separate(x, y, start), separate(cloud(x), cloud(y), start)
    assert found.moved
    assert found.depth_before == pytest.approx(exact.depth_before, abs=0.05)
    assert separate(x, y, found.pose).depth_before < 0.3 * exact.depth_before


def test_pieces_that_do_not_reach_into_each_other_are_left():
    start = shifted(0.1, 0.2, 1.001)
    found = separate(box(), box(), start)
    assert not found.moved
    assert found.pose is start
    assert found.depth_before == found.depth_after == 0
    assert found.reason == "the pieces do not reach into each other"


def test_what_is_too_deep_is_left_and_told():
    for other, start, words in (
        (box(), shifted(0.3, 0, 0), "moves them by more than 25%"),
        (box(1.5, 0.9, 1.5), np.eye(4), "interlock|more than 25%"),
    ):
        found = separate(box(), other, start)
        assert not found.moved
        assert found.pose is start
        assert found.depth_after == found.depth_before > 0.1
        assert any(word in found.reason for word in words.split("|"))


def test_a_peg_in_a_hole_that_is_too_narrow_interlocks():
    """Two walls, 0.9 apart, and a box of width 1 between them: any shift drives it into one of them."""
    walls = [box(0.2, 3, 3).moved(shifted(x, 0, 0)) for x in (-0.55, 0.55)]
    faces = np.concatenate([walls[0].faces, walls[1].faces + 8])
    both = Geometry(np.concatenate([wall.points for wall in walls]), faces=faces)
    found = separate(box(1, 3, 3), both, np.eye(4))
    assert not found.moved
    assert "interlock" in found.reason
    assert found.depth_before == pytest.approx(0.05)


@pytest.fixture(scope="module")
def fractures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    (folder / "generated").mkdir()
    return shapes("val", folder, 3, ShapesConfig(mix=(1.0, 0.0, 0.0)))[:6]


@pytest.mark.slow
def test_pieces_of_a_fracture_are_not_torn_apart(fractures):
    """Noisy samples of two surfaces that coincide where the solid broke."""
    found = [separate(pair.source, pair.reference, pair.ref_from_src) for pair in fractures]
    assert not any(each.moved for each in found)
    assert any(each.depth_before for each in found)


def test_pieces_of_a_fracture_that_were_pushed_into_each_other_come_back(fractures):
    freed = 0
    for pair in fractures:
        there = move_points(pair.ref_from_src, pair.source.points).mean(0)
        way = pair.reference.points.mean(0) - there
        start = shifted(*(0.1 * way / np.linalg.norm(way))) @ pair.ref_from_src
        found = separate(pair.source, pair.reference, start)
        if found.moved:
            freed += 1
            left = np.linalg.norm(
                move_points(found.pose @ np.linalg.inv(pair.ref_from_src), there[None]) - there
            )
            assert left < 0.1
            assert found.depth_after < found.depth_before
    assert freed >= 2


@pytest.mark.parametrize("behind", [0.05, 0.1, 0.15])
def test_a_sheet_behind_a_sheet_is_not_inside(behind):
    flat = np.random.default_rng(0).uniform(-1, 1, (1500, 3)) * [1, 1, 0]
    up = np.tile([0.0, 0, 1], (1500, 1))
    found = separate(Geometry(0.7 * flat, up), Geometry(flat, up), shifted(0, 0, -behind))
    assert not found.moved
    assert found.free
    assert found.depth_before == 0


@pytest.mark.parametrize("kind", [lambda g: g, cloud], ids=["mesh", "cloud"])
def test_in_an_open_tube_nothing_is_told_until_its_wall_is_crossed(kind):
    ball = larger(kind(bumpy(0)), 0.15)
    for x in (0.0, 0.3, 0.6):
        found = separate(ball, tube(), shifted(x, 0, 0))
        assert not found.moved
        assert not found.free
        assert found.depth_before is None
        assert "nowhere comes through it" in found.reason
    start = shifted(1.1, 0, 0)
    found = separate(ball, tube(), start)
    assert found.moved
    assert found.free
    assert found.pose[0, 3] > 1.1
    laws = separation_laws(ball, tube(), start)
    assert max(laws.swap, laws.scale) < 1e-9


def test_behind_a_triangle_there_is_no_inside():
    """It cuts off a corner of the box by 0.29; behind it the box goes on for 1.44."""
    triangle = Geometry(np.eye(3), faces=np.array([[0, 1, 2]]))
    found = separate(triangle, box(), np.eye(4))
    assert found.depth_before < 0.29


def test_a_part_that_is_inside_out_does_not_make_its_surroundings_solid():
    other = box(0.5, 0.5, 0.5).moved(shifted(4, 0, 0))
    both = joined(box(), replace(other, faces=other.faces[:, ::-1]))
    found = separate(box(0.4, 0.4, 0.4), both, shifted(3, 0, 0))
    assert found.free
    assert found.depth_before == 0


def test_points_without_normals_tell_no_inside():
    bare, start = replace(cloud(box()), normals=None), np.eye(4)
    found = separate(bare, bare, start)
    assert found.pose is start
    assert found.depth_before is None
    assert found.depth_after is None
    assert "nothing tells the inside" in found.reason
    nowhere, few = Geometry(np.ones((20, 3))), Geometry(np.eye(3), np.eye(3))
    for source, reference in ((nowhere, nowhere), (few, box()), (box(), few)):
        found = separate(source, reference, start)
        assert found.pose is start
        assert "show no surface" in found.reason


def test_numbers_that_are_none_are_refused():
    with pytest.raises(InputError, match="pose: is empty or not finite"):
        separate(box(), box(), np.full((4, 4), np.nan))


def test_the_shortest_twist_meets_its_bounds_and_no_shorter_one_does():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2, 50, 3))
    mass = inertia(*points, points.mean((0, 1)))
    for _ in range(5):
        rows, bounds = rng.normal(size=(8, 6)) + 1, rng.random(8)
        found = shortest(rows, bounds, mass)
        assert (rows @ found > bounds - 1e-9).all()
        assert np.isclose(rows @ found, bounds).any()
        others = found + 0.1 * rng.normal(size=(2000, 6))
        lawful = others[(others @ rows.T >= bounds).all(1)]
        assert len(lawful)
        assert (np.einsum("ni,ij,nj->n", lawful, mass, lawful) > found @ mass @ found).all()
    assert shortest(np.stack([rows[0], -rows[0]]), np.ones(2), mass) is None
    assert not shortest(rows, np.zeros(8), mass).any()


def test_inertia_is_the_mean_square_way():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 3)), rng.normal(size=(40, 3)) + 1
    center, twist = (x.mean(0) + y.mean(0)) / 2, rng.normal(size=6)
    ways = [twist[3:] + np.cross(twist[:3], p - center) for p in (x, y)]
    expected = np.mean([np.square(way).sum(1).mean() for way in ways])
    # c is the mean of the means, so that turns and shifts do not mix
    assert twist @ inertia(x, y, center) @ twist == pytest.approx(expected, rel=1e-5)


def test_a_correction_of_the_opposite_twist_is_its_inverse():
    rng = np.random.default_rng(0)
    twist, center, places = rng.normal(size=6), rng.normal(size=3), rng.normal(size=(5, 3))
    one, other = Correction(center, twist), Correction(center, -twist)
    assert np.allclose(one.matrix @ other.matrix, np.eye(4))
    assert np.allclose(one.half_way_back(move_points(one.matrix, places)), other.half_way_back(places))


# at the end of the pipeline

START = pose(np.eye(3), np.array([0.93, 0.02, -0.01]))
"""Puts one unit cube 0.07 deep into the other."""


@pytest.fixture
def assembled(monkeypatch):
    """Assembles with a model that says what it is told to."""

    def run(source, reference, pose, **settings):
        with monkeypatch.context() as patch:
            told(patch, pose)
            return assemble_geometries(
                source, reference, network(fitted=True), Settings(fast=True, points=60, **settings)
            )

    return run


def test_pieces_that_reach_into_each_other_are_brought_apart(assembled):
    a = assembled(box(), box(), START, separate=True)
    assert a.penetration_before == pytest.approx(0.07, abs=0.01)
    assert a.penetration_after < 0.01
    assert a.transformation[0, 3] == pytest.approx(1, abs=0.01)
    assert not a.warnings
    np.testing.assert_array_equal(a.hypotheses[0].transformation, a.transformation)


def test_nothing_is_separated_unless_asked_for(assembled):
    a = assembled(box(), box(), START)
    np.testing.assert_allclose(a.transformation, START, atol=1e-12)
    assert a.penetration_before is None
    assert a.penetration_after is None


def test_the_answer_still_moves_with_the_pieces(assembled):
    source, reference = box(), box()
    expected = assembled(source, reference, START, separate=True).transformation
    g = motion(1)
    moved = replace(source, points=source.points @ g[:3, :3].T + g[:3, 3])
    of_moved = assembled(moved, reference, START @ inverse(g), separate=True).transformation
    swapped = assembled(reference, source, inverse(START), separate=True).transformation
    np.testing.assert_allclose(of_moved, expected @ inverse(g), atol=1e-9)
    np.testing.assert_allclose(swapped, inverse(expected), atol=1e-9)


def test_clouds_without_normals_are_left_and_the_answer_says_so(assembled):
    x, y = (Geometry(points, name=name) for points, name in zip(two_pieces(120), "xy", strict=True))
    a = assembled(x, y, np.eye(4), separate=True)
    np.testing.assert_allclose(a.transformation, np.eye(4), atol=1e-12)
    assert a.penetration_before is None
    assert any("not separated: nothing tells the inside" in warning for warning in a.warnings)


@pytest.mark.slow
def test_pieces_that_touch_are_brought_apart_without_being_asked(monkeypatch):
    """A finished touch must not penetrate; the depths are told only where they were asked for."""
    told(monkeypatch, START)
    a = assemble_geometries(box(), box(), network(), Settings("touch", points=60))
    assert a.method == "touch"
    assert a.transformation[0, 3] == pytest.approx(1, abs=0.02)
    assert a.penetration_before is None
