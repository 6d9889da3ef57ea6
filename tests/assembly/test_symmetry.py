import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull

from bitr.assembly.align import angles
from bitr.assembly.symmetry import symmetries
from bitr.data import bumpy_shape, cut, jug
from bitr.data.poses import move_points, random_pose
from bitr.io import farthest_points
from tests.assembly.shapes import CUBE_CORNERS, CYLINDER, SOLIDS, ball, bottle, on_hull, solid

WORDS = {
    "cube": "after 23 turns, those of a cube",
    "tetrahedron": "after 11 turns, those of a tetrahedron",
    "box": "after half turns about three axes",
    "prism 2": "after half turns about three axes",
    "prism 3": "after turns by 120° about one axis and half turns about three others",
    "prism 4": "after turns by 90° about one axis and half turns about four others",
    "prism 5": "after turns by 72° about one axis and half turns about five others",
    "prism 6": "after turns by 60° about one axis and half turns about six others",
    "pyramid 2": "after a half turn about one axis",
    "pyramid 3": "after turns by 120° about one axis",
    "pyramid 4": "after turns by 90° about one axis",
    "pyramid 5": "after turns by 72° about one axis",
    "pyramid 6": "after turns by 60° about one axis",
}


def farthest_between(a, b):
    """Degrees from a rotation of either set to the nearest of the other."""
    between = np.degrees(angles(a[:, None] @ b.swapaxes(1, 2)))
    return max(between.min(0).max(), between.min(1).max())


def same_motions(a, b, size):
    """The largest difference between two sets of motions, lengths over a size."""
    assert len(a) == len(b)
    gap = np.abs(a[:, None] - b) / np.array([[1, 1, 1, size]] * 3 + [[1, 1, 1, 1]])
    return max(gap.max((2, 3)).min(0).max(), gap.max((2, 3)).min(1).max())


@pytest.mark.parametrize("name", SOLIDS)
@pytest.mark.parametrize(("seed", "even", "noise"), [(0, False, 0.02), (1, True, 0.01)])
def test_all_symmetries_of_a_solid_are_found_and_no_others(name, seed, even, noise):
    cloud = solid(name, seed, 6000 if even else 1000, noise)
    if even:
        cloud = cloud[farthest_points(cloud, 1000)]
    found = symmetries(cloud)
    assert found.axis is None
    assert len(found.motions) == len(SOLIDS[name][1])
    assert farthest_between(found.motions[:, :3, :3], SOLIDS[name][1]) < 6
    assert np.array_equal(found.motions[0], np.eye(4))
    assert found.describe() == WORDS[name]


@pytest.mark.parametrize("name", ["cube", "prism 5", "pyramid 4"])
def test_a_symmetry_takes_the_surface_onto_itself(name):
    """Also where the origin is far from the middle."""
    planes, far = ConvexHull(SOLIDS[name][0]).equations, np.array([10.0, -5, 3])
    cloud = solid(name, 3) + far
    for motion in symmetries(cloud).motions:
        moved = move_points(motion, cloud) - far
        off = (moved @ planes[:, :3].T + planes[:, 3]).max(1)  # of the face that is nearest
        assert np.sqrt(np.mean(off**2)) < 0.05


@pytest.mark.parametrize("seed", range(3))
def test_a_bottle_is_round_and_stands_upright(seed):
    foot = np.array([3.0, 4, 5])
    found = symmetries(bottle(seed) + foot)
    assert found.axis is not None
    assert abs(found.axis[2]) > np.cos(np.radians(4))
    assert np.linalg.norm(np.cross(found.place - foot, found.axis)) < 0.03
    assert len(found.motions) == 1
    assert found.describe() == "after any turn about one axis"
    expected = 22.5 * np.array([0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8])
    assert np.allclose(np.sort(np.degrees(angles(found.listed()[:, :3, :3]))), expected)


@pytest.mark.parametrize("seed", range(3))
def test_a_cylinder_can_be_turned_over_too(seed):
    found = symmetries(bottle(seed, profile=CYLINDER))
    assert found.axis is not None
    assert len(found.motions) == 2
    assert found.describe() == "after any turn about one axis and after half turns across it"
    listed = found.listed()
    assert len(listed) == 32
    upside_down = listed[listed[:, 2, 2] < 0]
    assert np.allclose(upside_down @ upside_down, np.eye(4), atol=1e-9)
    assert np.allclose(move_points(upside_down[0], np.array([[0, 0, 0.8]])), [[0, 0, 0.8]], atol=0.05)


def test_a_ball_can_be_turned_at_will():
    found = symmetries(ball(1000, np.random.default_rng(0)))
    assert found.ball
    assert not found.trivial
    assert found.describe() == "after any turn"
    between = angles(found.motions[:, None, :3, :3] @ found.motions[:, :3, :3].swapaxes(1, 2))
    assert len(found.motions) == 60
    assert np.sort(between, axis=1)[:, 1].min() > 0.5


def test_half_a_pipe_has_one_half_turn():
    rng = np.random.default_rng(0)
    angle, height = np.pi * (rng.random(1000) - 0.5), 2 * rng.random(1000) - 1
    pipe = np.stack([0.6 * np.cos(angle), 0.6 * np.sin(angle), height], axis=1)
    found = symmetries(pipe + 0.01 * rng.normal(size=pipe.shape))
    assert found.describe() == "after a half turn about one axis"
    assert abs(found.motions[1][0, 0]) > 0.99


def shapes_without_symmetry():
    for seed in range(6):
        rng = torch.Generator().manual_seed(seed)
        yield bumpy_shape(1000, rng)
        yield cut(bumpy_shape(2000, rng), 0.5, rng)[0]
        yield jug(1000, rng)
        yield cut(jug(2000, rng), 0.5, rng)[0]


@pytest.mark.slow
def test_shapes_without_symmetries_have_none():
    found = [symmetries(cloud.numpy()) for cloud in shapes_without_symmetry()]
    assert all(one.trivial for one in found)
    assert all(np.array_equal(one.motions, np.eye(4)[None]) for one in found)


def test_a_handle_ends_the_roundness_of_a_bottle():
    rng = np.random.default_rng(0)
    along = np.pi * rng.random(80)
    handle = np.stack([0.5 + 0.4 * np.sin(along), 0 * along, 0.6 + 0.4 * np.cos(along)], axis=1)
    cloud = np.concatenate([bottle(0, 920), handle + 0.03 * rng.normal(size=handle.shape)])
    assert symmetries(cloud).trivial


def test_a_longer_side_leaves_fewer_turns():
    """Of a box of 1 by 1 by 1.3 only those about the long axis are left, and half turns."""
    cloud = on_hull(CUBE_CORNERS * [1, 1, 1.3], 1000, np.random.default_rng(0))
    assert symmetries(cloud).describe() == (
        "after turns by 90° about one axis and half turns about four others"
    )


@pytest.mark.parametrize(
    "cloud", [solid("cube", 0), solid("prism 3", 0), bottle(0), ball(800, np.random.default_rng(0))]
)
def test_symmetries_move_with_the_cloud(cloud):
    """Moved, scaled and shuffled: symmetries(gX) = g symmetries(X) g⁻¹."""
    rng = np.random.default_rng(1)
    g, factor = random_pose(rng, 5.0), 1000.0
    expected = g @ symmetries(cloud).listed() @ np.linalg.inv(g)
    expected[:, :3, 3] *= factor
    found = symmetries(factor * move_points(g, cloud)[rng.permutation(len(cloud))])
    assert same_motions(found.listed(), expected, factor) < 1e-9


@pytest.mark.parametrize("cloud", [solid("cube", 0), solid("pyramid 3", 0), bottle(0, profile=CYLINDER)])
def test_with_each_symmetry_its_inverse_is_one(cloud):
    found = symmetries(cloud).listed()
    assert same_motions(np.linalg.inv(found), found, 1.0) < 1e-9


def test_more_points_than_are_used_change_little():
    found = symmetries(solid("prism 4", 0, n=30_000))
    assert farthest_between(found.motions[:, :3, :3], SOLIDS["prism 4"][1]) < 3


@pytest.mark.parametrize(
    "cloud",
    [
        CUBE_CORNERS,
        np.zeros((100, 3)),
        np.outer(np.arange(100.0), [1, 2, 3]),
        np.random.default_rng(0).random((200, 3)) * [1, 1, 0],
        np.repeat(np.random.default_rng(0).normal(size=(5, 3)), 30, axis=0),
    ],
    ids=["few", "one place", "line", "plane", "copies"],
)
def test_clouds_without_a_shape_are_left_alone(cloud):
    assert symmetries(cloud).trivial


@pytest.mark.parametrize("points", [1e6 * np.ones(3), np.array([0.0, -1e5, 0])])
def test_far_from_the_origin(points):
    assert len(symmetries(solid("prism 3", 0) + points).motions) == 6


def test_repeated_points_do_no_harm():
    cloud = np.repeat(solid("prism 3", 0, n=500), 9, axis=0)
    assert len(symmetries(cloud).motions) == 6
