"""Which motions leave an assembly as it is: vases cut across, along and aslant."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from bitr.data import AssemblyPair
from bitr.data.poses import move_points, pose, turn_about
from bitr.data.transforms import assembled, move, move_randomly
from bitr.evaluation.metrics import is_right
from bitr.hypotheses import with_symmetry
from bitr.hypotheses.turning import angles
from bitr.io import Geometry
from tests.data.cases import fitted
from tests.hypotheses.shapes import BOTTLE, on_hull, prism, turned

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


def off_by(pair: AssemblyPair) -> float:
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
    assert off_by(pair) < 0.05
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
    assert off_by(pair) < 0.08


def test_symmetries_move_with_the_pieces():
    pair = vase(ACROSS, 0.9)
    rng = np.random.default_rng(5)
    motions = [move_randomly(pair, rng).ref_from_src for _ in range(2)]
    one = move(with_symmetry(pair), *motions)
    other = with_symmetry(move(pair, *motions))
    for degrees in (30.0, 150.0):
        assert is_right(other, turn_about_reference(one, degrees))
