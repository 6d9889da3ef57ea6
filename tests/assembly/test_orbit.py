"""Poses that symmetries make of one, and the right answers of pairs of symmetric pieces."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from bitr.assembly.align import Frame, angles
from bitr.assembly.orbit import Orbit, at_joint, pose_gaps, with_symmetry
from bitr.assembly.symmetry import symmetries
from bitr.data import AssemblyPair
from bitr.data.poses import inverse, move_points, pose, random_pose, turn_about
from bitr.data.transforms import assembled, move, move_randomly
from bitr.evaluation.metrics import is_right
from bitr.io import Geometry
from tests.assembly.shapes import BOTTLE, SOLIDS, cyclic, on_hull, prism, solid, turned
from tests.data.cases import fitted

X, Y = solid("cube", 0), 2 * solid("prism 3", 1) + np.array([1.0, 2, 3])
NONE = np.eye(4)[None]


def turns(rotations, center=0.0):
    """Motions about a place."""
    place = np.zeros(3) + center
    return np.stack([pose(r, place - r @ place) for r in rotations])


def frame():
    return Frame.of(X, Y)


def orbit(g, source, reference, most=64):
    return Orbit.of(g, source, reference, frame()).images(most)


def test_without_symmetries_there_is_the_pose_itself():
    g = random_pose(np.random.default_rng(0), 2.0)
    assert np.array_equal(orbit(g, NONE, NONE, 10), g[None])


@pytest.mark.parametrize("side", ["source", "reference"])
def test_of_a_cube_there_are_24(side):
    g, group = random_pose(np.random.default_rng(0), 2.0), turns(SOLIDS["cube"][1])
    group = group[np.argsort(angles(group[:, :3, :3]))]
    found = orbit(g, *((group, NONE) if side == "source" else (NONE, group)))
    assert len(found) == 24
    assert np.array_equal(found[0], g)
    expected = g @ group if side == "source" else group @ g
    assert np.abs(found[:, None] - expected).max((2, 3)).min(0).max() < 1e-12


def test_a_symmetry_that_both_pieces_have_counts_once():
    """Both turn about the same axis once they are in place."""
    g = random_pose(np.random.default_rng(0), 2.0)
    group = turns(cyclic(3))
    assert len(orbit(g, group, g @ group @ inverse(g))) == 3
    assert len(orbit(g, group, turns(cyclic(3)))) == 9


def off_by(degrees):
    return pose(Rotation.from_rotvec(np.radians(degrees) * np.array([0.6, 0, 0.8])).as_matrix(), np.zeros(3))


@pytest.mark.parametrize(("off", "size"), [(0, 24), (5, 24), (40, 24 * 24)])
def test_of_two_cubes_a_pose_that_is_far_off_has_more_images_but_no_more_come_back(off, size):
    group = turns(SOLIDS["cube"][1])
    group = group[np.argsort(angles(group[:, :3, :3]))]
    found = Orbit.of(off_by(off), group, group, frame())
    assert found.size == size
    assert len(found.images(64)) == 24


def test_of_two_different_pieces_all_images_come_back():
    found = Orbit.of(np.eye(4), turns(cyclic(3)), turns(cyclic(4)), frame())
    assert found.size == len(found.images(64)) == 12


def test_few_are_the_first_of_many():
    many = orbit(np.eye(4), turns(cyclic(5)), turns(cyclic(4)))
    assert np.array_equal(orbit(np.eye(4), turns(cyclic(5)), turns(cyclic(4)), 7), many[:7])
    assert len(many) > 7


def test_few_of_many_are_far_from_each_other():
    found = orbit(np.eye(4), turns(cyclic(12)), NONE, 4)
    between = np.degrees(angles(found[:, None, :3, :3] @ found[:, :3, :3].swapaxes(1, 2)))
    assert np.allclose(between[0], [0, 180, 90, 90])


def test_moving_swapping_and_scaling_the_pieces_changes_no_gap():
    rng = np.random.default_rng(0)
    a, b, g1, g2 = (random_pose(rng, 1.0) for _ in range(4))
    expected = pose_gaps(frame(), a[None], b)[0]
    assert pose_gaps(Frame.of(Y, X), inverse(a)[None], inverse(b))[0] == pytest.approx(expected)
    moved = [g2 @ g @ inverse(g1) for g in (a, b)]
    elsewhere = Frame.of(move_points(g1, X), move_points(g2, Y))
    assert pose_gaps(elsewhere, moved[0][None], moved[1])[0] == pytest.approx(expected)
    for g in moved:
        g[:3, 3] *= 1e50
    larger = Frame.of(1e50 * move_points(g1, X), 1e50 * move_points(g2, Y))
    assert pose_gaps(larger, moved[0][None], moved[1])[0] == pytest.approx(expected)


def test_a_swap_inverts_the_poses():
    g, x, y = random_pose(np.random.default_rng(0), 2.0), turns(cyclic(3), 0.1), turns(cyclic(4), -0.2)
    found = orbit(g, x, y)
    swapped = Orbit.of(inverse(g), y, x, Frame.of(Y, X)).images(64)
    assert len(found) == len(swapped) == 12
    assert np.abs(inverse(found)[:, None] - swapped).max((2, 3)).min(1).max() < 1e-12


@pytest.mark.parametrize(
    ("degrees", "shift", "same"), [(9, 0, True), (11, 0, False), (0, 0.08, True), (0, 0.2, False)]
)
def test_poses_are_one_up_to_ten_degrees_and_a_tenth_of_the_size(degrees, shift, same):
    near = Frame.of(X - X.mean(0), X - X.mean(0))
    turn = Rotation.from_rotvec([0, 0, np.radians(degrees)]).as_matrix()
    other = pose(turn, np.array([shift * near.unit, 0, 0]))
    assert (pose_gaps(near, other[None], np.eye(4))[0] <= 1) == same


# which motions leave an assembly as it is: vases cut across, along and aslant

ACROSS, ALONG, ASLANT = [0, 0, 1.0], [1.0, 0, 0], [0.6, 0, 0.8]


def halves(points: np.ndarray, normal: list[float], at: float, seed: int) -> AssemblyPair:
    """The two sides of a plane, moved apart."""
    low = points @ np.array(normal) < at
    rng = np.random.default_rng(seed)
    return move_randomly(assembled(Geometry(points[low]), Geometry(points[~low]), "halves"), rng)


def vase(normal: list[float], at: float, seed: int = 0) -> AssemblyPair:
    return halves(turned(*BOTTLE, 3000, np.random.default_rng(seed)), normal, at, seed)


def turn_about_reference(pair: AssemblyPair, degrees: float) -> np.ndarray:
    """The answer after a turn of the whole about the vase's axis, which halves cut along z share."""
    assert pair.axis is not None
    return pair.ref_from_src @ turn_about(pair.axis, np.radians(degrees))


def farthest_off(pair: AssemblyPair) -> float:
    """How far, at most, the symmetries move the source away from itself, or the reference from itself."""
    assert pair.symmetry is not None
    tree = cKDTree(np.concatenate([pair.source.moved(pair.ref_from_src).points, pair.reference.points]))
    places = [move_points(pair.ref_from_src @ s, pair.source.points) for s in pair.symmetry]
    return max(float(tree.query(moved)[0].mean()) for moved in places)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_vase_cut_across_may_be_turned_about_its_axis(seed):
    pair = with_symmetry(vase(ACROSS, 0.9, seed))
    assert pair.axis is not None
    for degrees in (40.0, 90.0, 213.0):
        assert is_right(pair, turn_about_reference(pair, degrees))
    assert farthest_off(pair) < 0.05
    aside = pose(np.eye(3), np.array([0.4, 0.0, 0.0]))
    assert not is_right(pair, aside @ pair.ref_from_src)
    upside_down = turn_about(np.stack([pair.source.points.mean(0), pair.source.points[0]]), np.pi)
    assert not is_right(pair, pair.ref_from_src @ upside_down)


@pytest.mark.parametrize(("normal", "at"), [(ALONG, 0.0), (ASLANT, 0.7)])
def test_a_vase_cut_along_or_aslant_has_one_answer(normal, at):
    points = turned(*BOTTLE, 3000, np.random.default_rng(0))
    pair = with_symmetry(halves(points, normal, at, 0))
    assert pair.axis is None
    np.testing.assert_array_equal(pair.symmetry, np.eye(4)[None])
    assert is_right(pair, pair.ref_from_src)
    src_from_vase = fitted(points[points @ np.array(normal) < at], pair.source.points)
    axis = move_points(src_from_vase, np.array([[0, 0, 0.0], [0, 0, 1.0]]))
    assert not is_right(pair, pair.ref_from_src @ turn_about(axis, np.radians(60)))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_chip_fits_a_round_pot_at_one_place_only(swapped):
    """The pot is nearly round without it; the joint is not."""
    points = turned(*BOTTLE, 6000, np.random.default_rng(0))
    across, up = points[:, 1] + 0.2, points[:, 2] - 0.45  # of a triangle
    chip = (points[:, 0] > 0) & (across > 0) & (up > 0) & (up + 0.8 * across < 0.4)
    assert 0.01 < chip.mean() < 0.05
    assert symmetries(points[~chip]).axis is not None
    sides = [Geometry(points[chip]), Geometry(points[~chip])]
    pair = with_symmetry(assembled(*(sides[::-1] if swapped else sides), "pot"))
    assert pair.axis is None
    np.testing.assert_array_equal(pair.symmetry, np.eye(4)[None])
    pieces = pair.source.points, pair.reference.points
    found = at_joint((symmetries(pieces[0]), symmetries(pieces[1])), *pieces, pair.ref_from_src)
    assert all(each.trivial for each in found)


def test_the_joint_of_a_bottle_cut_across_leaves_its_turns():
    points = turned(*BOTTLE, 4000, np.random.default_rng(0))
    pair = move_randomly(halves(points, ACROSS, 0.4, 0), np.random.default_rng(1))
    pieces = pair.source.points, pair.reference.points
    for found in at_joint((symmetries(pieces[0]), symmetries(pieces[1])), *pieces, pair.ref_from_src):
        assert found.axis is not None


def test_one_round_piece_is_enough():
    """The lower half has a handle, the upper half is round."""
    rng = np.random.default_rng(0)
    body = turned(*BOTTLE, 3000, rng)
    handle = np.array([0.75, 0, 0.4]) + 0.2 * on_hull(prism(4), 400, rng)
    whole = np.concatenate([body, handle])
    low = whole[:, 2] < 0.9
    for first, second in ((low, ~low), (~low, low)):
        apart = move_randomly(assembled(Geometry(whole[first]), Geometry(whole[second]), "jug"), rng)
        pair = with_symmetry(apart)
        assert pair.axis is not None
        assert is_right(pair, turn_about_reference(pair, 100.0))


def test_a_square_bar_may_be_turned_by_quarters():
    points = on_hull(prism(4) * [0.5, 0.5, 1.0], 3000, np.random.default_rng(0))
    pair = with_symmetry(halves(points, ACROSS, 0.3, 0))
    assert pair.axis is None
    assert pair.symmetry is not None
    turns = np.degrees(angles(pair.symmetry[:, :3, :3]))
    assert {round(t / 90) for t in turns} == {0, 1, 2}
    assert np.abs(turns - 90 * np.round(turns / 90)).max() < 5
    assert farthest_off(pair) < 0.08


def test_symmetries_move_with_the_pieces():
    pair = vase(ACROSS, 0.9)
    rng = np.random.default_rng(5)
    motions = [move_randomly(pair, rng).ref_from_src for _ in range(2)]
    one = move(with_symmetry(pair), *motions)
    other = with_symmetry(move(pair, *motions))
    for degrees in (30.0, 150.0):
        assert is_right(other, turn_about_reference(one, degrees))


@pytest.mark.parametrize("seed", [0, 1])
def test_crops_of_a_vase_may_lie_anywhere_around_it(seed):
    """Neither crop is symmetric, and nothing tells where on the round whole they come from."""
    rng = np.random.default_rng(seed)
    points = turned(*BOTTLE, 4000, rng)
    source, reference = points[points[:, 0] < 0.3], points[points[:, 1] + 0.2 * points[:, 2] < 0.3]
    in_place = assembled(Geometry(source), Geometry(reference), "crops")
    assert with_symmetry(in_place).axis is None
    pair = with_symmetry(in_place, Geometry(points))
    assert pair.axis is not None
    axis = np.array([[0, 0, 0.0], [0, 0, 1.0]])
    for degrees in (50.0, 170.0):
        assert is_right(pair, turn_about(axis, np.radians(degrees)))
        assert not is_right(pair, turn_about(axis[:, ::-1], np.radians(degrees)))
    moved = move_randomly(pair, rng)
    about = move_points(fitted(source, moved.source.points), axis)
    assert is_right(moved, moved.ref_from_src @ turn_about(about, 1.2))


def test_crops_of_a_square_bar_may_be_turned_by_quarters():
    points = on_hull(prism(4) * [0.5, 0.5, 1.0], 4000, np.random.default_rng(0))
    sides = points[points[:, 0] < 0.1], points[points[:, 1] + points[:, 2] < 0.4]
    in_place = assembled(*map(Geometry, sides), "crops")
    pair, alone = with_symmetry(in_place, Geometry(points)), with_symmetry(in_place)
    quarter = turn_about(np.array([[0, 0, 0.0], [0, 0, 1.0]]), np.pi / 2)
    assert is_right(pair, quarter)
    assert not is_right(alone, quarter)
    assert not is_right(pair, turn_about(np.array([[0, 0, 0.0], [0, 0, 1.0]]), np.pi / 4))
