"""The classical baselines: solved pairs, unsolved pairs, and the laws of all."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from bitr import InputError
from bitr.data import AssemblyPair, bumpy_shape, dataset
from bitr.data.poses import inverse, pose, random_pose
from bitr.data.transforms import assembled, crop, move, split
from bitr.evaluation import baselines as module
from bitr.evaluation.baselines import BASELINES, baseline, correspondences, match_features, trimmed_icp
from bitr.groups import rotation_angle
from bitr.io import Geometry

AXIS = np.array([1.0, 2.0, -2.0]) / 3


def easy_pair(degrees: float, n: int = 1200, keep: float = 0.9, seed: int = 1) -> AssemblyPair:
    """Two samples of a bumpy shape, either cropped; the source is turned away by that angle and shifted."""
    rng = np.random.default_rng(seed)
    points = bumpy_shape(2 * n, torch.Generator().manual_seed(seed)).numpy()
    source, reference = (crop(Geometry(half), keep, rng) for half in (points[:n], points[n:]))
    turned = pose(Rotation.from_rotvec(np.deg2rad(degrees) * AXIS).as_matrix(), np.array([0.1, -0.05, 0.05]))
    return move(assembled(source, reference, "easy"), turned, np.eye(4))


def scaled(pair: AssemblyPair, factor: float) -> AssemblyPair:
    answer = pair.ref_from_src.copy()
    answer[:3, 3] *= factor
    source, reference = (replace(p, points=factor * p.points) for p in (pair.source, pair.reference))
    return replace(pair, source=source, reference=reference, ref_from_src=answer)


def degrees_off(found: np.ndarray, pair: AssemblyPair) -> float:
    turn = torch.from_numpy(pair.ref_from_src[:3, :3].T @ found[:3, :3])
    return float(torch.rad2deg(rotation_angle(turn)))


def apart(found: np.ndarray, pair: AssemblyPair) -> float:
    """How far the source's centroid is from its place, over the size of the source."""
    x = pair.source.points
    there = x.mean(0) @ (found - pair.ref_from_src)[:3, :3].T + (found - pair.ref_from_src)[:3, 3]
    return float(np.linalg.norm(there) / x.std())


GLOBAL, LOCAL = ("fpfh-ransac", "fgr", "kiss-matcher"), ("icp", "gicp")
NEEDS = {"fpfh-ransac": "open3d", "fgr": "open3d", "kiss-matcher": "kiss_matcher"}


def made(name: str):
    """The baseline, where its library is there."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    return baseline(name)


@pytest.mark.parametrize(("name", "degrees"), [("bound", 0.5), ("icp", 5.0), ("gicp", 0.5)])
def test_a_small_turn_is_undone(name, degrees):
    pair = easy_pair(15, n=2000)
    found = made(name).solve(pair)
    assert degrees_off(found, pair) < degrees
    assert apart(found, pair) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bound", *GLOBAL])
def test_a_large_turn_is_undone_by_what_needs_no_start(name):
    pair = easy_pair(140, n=2000)
    pair = move(pair, random_pose(np.random.default_rng(0), 5.0), np.eye(4))
    found = made(name).solve(pair)
    assert degrees_off(found, pair) < 10
    assert apart(found, pair) < 0.15


@pytest.mark.parametrize("name", LOCAL)
def test_a_large_turn_is_too_much_for_what_starts_from_none(name):
    pair = easy_pair(140)
    assert degrees_off(made(name).solve(pair), pair) > 45


def test_identity_and_centroids_turn_nothing():
    pair = easy_pair(140)
    np.testing.assert_array_equal(baseline("identity").solve(pair), np.eye(4))
    found = baseline("centroids").solve(pair)
    moved = pair.source.moved(found).points
    np.testing.assert_array_equal(found[:3, :3], np.eye(3))
    np.testing.assert_allclose(moved.mean(0), pair.reference.points.mean(0), atol=1e-12)


@pytest.mark.parametrize("name", BASELINES)
def test_the_same_pair_gets_the_same_rigid_motion(name):
    method, pair = made(name), easy_pair(40, n=600)
    found = method.solve(pair)
    np.testing.assert_array_equal(method.solve(pair), found)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found[:3, :3] @ found[:3, :3].T, np.eye(3), atol=1e-12)
    assert np.linalg.det(found[:3, :3]) > 0
    np.testing.assert_array_equal(found[3], (0, 0, 0, 1))


@pytest.mark.parametrize("name", [name for name in BASELINES if name != "bound"])
def test_only_the_bound_looks_at_the_answer(name):
    method, pair = made(name), easy_pair(20, n=400)
    other = replace(pair, ref_from_src=random_pose(np.random.default_rng(1), 1.0))
    np.testing.assert_array_equal(method.solve(other), method.solve(pair))


@pytest.mark.parametrize("factor", [1e-3, 1e4])
@pytest.mark.parametrize("name", [name for name in BASELINES if name != "identity"])
def test_a_scale_changes_the_translation_alone(name, factor):
    method, pair = made(name), easy_pair(20, n=600)
    found, again = method.solve(pair), method.solve(scaled(pair, factor))
    np.testing.assert_allclose(again[:3, :3], found[:3, :3], atol=1e-4)  # KISS-Matcher works in float32
    np.testing.assert_allclose(again[:3, 3] / factor, found[:3, 3], atol=1e-4)


@pytest.mark.parametrize("name", ["bound", "gicp", *GLOBAL])
def test_moving_both_far_away_moves_the_answer(name):
    """A common shift g of both pieces: g h g⁻¹. Map coordinates leave float32 no digits for the shape."""
    shift = pose(np.eye(3), np.array([3e5, -2e5, 1e3]))
    method, pair = made(name), easy_pair(20, n=600)
    expected = shift @ method.solve(pair) @ inverse(shift)
    np.testing.assert_allclose(method.solve(move(pair, shift, shift)), expected, atol=1e-3)


def test_icp_is_exact_where_the_reference_holds_the_source():
    rng = np.random.default_rng(0)
    y = rng.uniform(-1, 1, (400, 3))
    truth = pose(easy_pair(1).ref_from_src[:3, :3], np.array([0.01, -0.02, 0.01]))
    x = (y[:200] - truth[:3, 3]) @ truth[:3, :3]
    x[:40] += 10  # the farthest fifth is not fitted
    np.testing.assert_allclose(trimmed_icp(x, y), truth, atol=1e-12)


def test_correspondences_are_mutual_and_near():
    line = np.arange(30.0)[:, None] * [1, 0, 0]
    y = np.concatenate([line + np.array([0, 0.1, 0]), [[3.0, 0.3, 0], [200.0, 0, 0]]])
    x = np.concatenate([line, [[100.0, 0, 0]]])
    i, j = correspondences(x, y)
    np.testing.assert_array_equal(i, np.arange(30))  # the lonely points of either cloud have no partner
    np.testing.assert_array_equal(j, np.arange(30))
    np.testing.assert_array_equal(correspondences(y, x), (j, i))


def test_pieces_that_lie_apart_have_no_bound():
    pair = easy_pair(0)
    away = pair.source.moved(pose(np.eye(3), np.array([50.0, 0, 0])))
    with pytest.raises(InputError, match="0 points of the pieces lie together"):
        baseline("bound").solve(replace(pair, source=away))


def test_pieces_that_touch_have_a_bound():
    cloud = easy_pair(0).source
    pair = assembled(*split(cloud, 0.4, np.random.default_rng(0)), "halves")
    found = baseline("bound").solve(pair)
    assert 0 < degrees_off(found, pair) < 15


@pytest.mark.parametrize("name", ["bound", *LOCAL])
def test_meshes_are_sampled(name, monkeypatch):
    monkeypatch.setattr(module, "POINTS", 300)
    points = easy_pair(0, n=800).source.points
    mesh = Geometry(points, faces=ConvexHull(points).simplices.astype(np.int64))
    small = easy_pair(10).ref_from_src
    pair = move(assembled(mesh, mesh, "mesh"), small, np.eye(4))
    found = baseline(name).solve(pair)
    assert degrees_off(found, pair) < 2


@pytest.mark.parametrize("name", [name for name in BASELINES if name not in ("identity", "centroids")])
def test_too_few_points_raise(name):
    method, rng = made(name), np.random.default_rng(0)
    one = Geometry(rng.normal(size=(1, 3)))
    for source, reference in ((one, Geometry(rng.normal(size=(50, 3)))), (Geometry(np.ones((50, 3))), one)):
        with pytest.raises(InputError, match="expected at least"):
            method.solve(AssemblyPair(source, reference, np.eye(4), "few"))


def test_what_open3d_refuses_is_counted_as_failed():
    pytest.importorskip("open3d")

    def match(registration, x, y):
        none = registration.correspondences_from_features(x[1], y[1])[:0]
        option = registration.FastGlobalRegistrationOption()
        return registration.registration_fgr_based_on_correspondence(x[0], y[0], none, option)

    with pytest.raises(InputError, match="easy: no features match"):
        match_features(easy_pair(10, n=100), match)


@pytest.mark.parametrize("name", NEEDS)
def test_a_missing_library_is_named_in_one_line(name, monkeypatch):
    monkeypatch.setitem(sys.modules, NEEDS[name], None)
    with pytest.raises(InputError, match=r'pip install -e "\.\[baselines\]"') as caught:
        baseline(name)
    assert NEEDS[name] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_open3d_runs_on_one_thread_since_more_would_race():
    pytest.importorskip("open3d")
    from threadpoolctl import threadpool_info, threadpool_limits

    seen = []

    def match(*_):
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
        return SimpleNamespace(transformation=np.eye(4))

    with threadpool_limits(2, "openmp"):
        match_features(easy_pair(10, n=100), match)
    assert set(seen) == {1}


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="did you mean kiss-matcher"):
        baseline("kissmatcher")
    with pytest.raises(InputError, match=r"expected one of identity, .*fgr"):
        baseline("xyz")


def test_a_room_is_registered(real_data):
    pytest.importorskip("open3d")
    pair = dataset("indoor", "val", root=real_data)[0]
    assert degrees_off(baseline("fpfh-ransac").solve(pair), pair) < 15
