import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bitr.data.poses import inverse, move_points, pose, random_pose
from bitr.hypotheses import Nearness, Orbit
from bitr.hypotheses.turning import angles
from tests.hypotheses.shapes import SOLIDS, cyclic, solid

X, Y = solid("cube", 0), 2 * solid("prism 3", 1) + np.array([1.0, 2, 3])
NONE = np.eye(4)[None]


def turns(rotations, center=0.0):
    """Motions about a place."""
    place = np.zeros(3) + center
    return np.stack([pose(r, place - r @ place) for r in rotations])


def nearness():
    return Nearness.of(X, Y)


def orbit(g, source, reference, most=64):
    return Orbit.of(g, source, reference, nearness()).images(most)


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
    found = Orbit.of(off_by(off), group, group, nearness())
    assert found.size == size
    assert len(found.images(64)) == 24


def test_of_two_different_pieces_all_images_come_back():
    found = Orbit.of(np.eye(4), turns(cyclic(3)), turns(cyclic(4)), nearness())
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
    expected = nearness().gaps(a[None], b)[0]
    assert Nearness.of(Y, X).gaps(inverse(a)[None], inverse(b))[0] == pytest.approx(expected)
    moved = [g2 @ g @ inverse(g1) for g in (a, b)]
    elsewhere = Nearness.of(move_points(g1, X), move_points(g2, Y))
    assert elsewhere.gaps(moved[0][None], moved[1])[0] == pytest.approx(expected)
    for g in moved:
        g[:3, 3] *= 1e50
    larger = Nearness.of(1e50 * move_points(g1, X), 1e50 * move_points(g2, Y))
    assert larger.gaps(moved[0][None], moved[1])[0] == pytest.approx(expected)


def test_a_swap_inverts_the_poses():
    g, x, y = random_pose(np.random.default_rng(0), 2.0), turns(cyclic(3), 0.1), turns(cyclic(4), -0.2)
    found = orbit(g, x, y)
    swapped = Orbit.of(inverse(g), y, x, Nearness.of(Y, X)).images(64)
    assert len(found) == len(swapped) == 12
    assert np.abs(inverse(found)[:, None] - swapped).max((2, 3)).min(1).max() < 1e-12


@pytest.mark.parametrize(
    ("degrees", "shift", "same"), [(9, 0, True), (11, 0, False), (0, 0.08, True), (0, 0.2, False)]
)
def test_poses_are_one_up_to_ten_degrees_and_a_tenth_of_the_size(degrees, shift, same):
    near = Nearness.of(X - X.mean(0), X - X.mean(0))
    turn = Rotation.from_rotvec([0, 0, np.radians(degrees)]).as_matrix()
    other = pose(turn, np.array([shift * near.size, 0, 0]))
    assert (near.gaps(other[None], np.eye(4))[0] <= 1) == same
