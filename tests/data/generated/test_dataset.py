"""Pairs of generated shapes: reproducible, with the right answer, and as the settings say."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, cKDTree

from bitr.data import AssemblyPair, dataset, info
from bitr.data.generated import ShapeCache, ShapesConfig, shapes
from bitr.data.generated.dataset import MIXES, PIXEL, _seen_from, _two_views
from bitr.data.generated.fracture import FIRST, cache_folder
from bitr.data.poses import move_points
from bitr.errors import InputError
from bitr.io import Geometry, write
from tests.assembly.solids import box
from tests.data.cases import shape

CLEAN = ShapesConfig(points=800, noise=0.0, unevenness=0.0, solids=6)
ONLY = {"fracture": (1.0, 0.0, 0.0), "cut": (0.0, 1.0, 0.0), "crop": (0.0, 0.0, 1.0)}


def clean(kind: str, **settings) -> ShapesConfig:
    return ShapesConfig(**{**vars(CLEAN), "mix": ONLY[kind], **settings})


def digest(pair: AssemblyPair) -> str:
    parts = (pair.source.points, pair.source.normals, pair.reference.points, pair.ref_from_src)
    return hashlib.sha256(b"".join(part.tobytes() for part in parts) + pair.id.encode()).hexdigest()


def in_place(pair: AssemblyPair) -> tuple[np.ndarray, np.ndarray]:
    """Distance of each point of the moved source from the reference, and agreement of the two normals."""
    moved = pair.source.moved(pair.ref_from_src)
    far, nearest = cKDTree(pair.reference.points).query(moved.points)
    return far, np.einsum("ni,ni->n", moved.normals, pair.reference.normals[nearest])


def spacing(points: np.ndarray) -> float:
    return float(cKDTree(points).query(points, k=2)[0][:, 1].mean())


@pytest.mark.parametrize("i", range(4))
def test_broken_surfaces_lie_on_each_other_and_face_each_other(root, i):
    pair = shapes("train", root, config=clean("fracture", points=1500))[i]
    far, agree = in_place(pair)
    near = far < 1.5 * spacing(pair.reference.points)
    assert near.sum() >= 12
    assert np.mean(agree[near] < -0.5) > 0.25  # near the edges of the break the outer surfaces are near, too


def test_a_wrong_pose_parts_the_broken_surfaces(root):
    """The oracle above can fail: turned by 20° about their middle, fewer points face each other."""
    config = clean("fracture", points=1500)
    right, wrong = 0, 0
    for pair in (shapes("train", root, config=config)[i] for i in range(5)):
        c, s = np.cos(np.pi / 9), np.sin(np.pi / 9)
        turn, middle = np.eye(4), pair.source.points.mean(axis=0)
        turn[:2, :2] = [[c, -s], [s, c]]
        turn[:3, 3] = middle - turn[:3, :3] @ middle
        for motion in (np.eye(4), turn):
            moved = pair.source.moved(pair.ref_from_src @ motion)
            far, nearest = cKDTree(pair.reference.points).query(moved.points)
            facing = np.einsum("ni,ni->n", moved.normals, pair.reference.normals[nearest]) < -0.9
            count = int(np.sum(facing & (far < spacing(pair.reference.points))))
            right, wrong = (right + count, wrong) if motion is not turn else (right, wrong + count)
    assert right > 2 * wrong


@pytest.mark.parametrize("i", range(4))
def test_crops_lie_on_each_other_where_they_overlap(root, i):
    config = clean("crop", points=1500, overlap=0.3)
    pair = shapes("train", root, config=config)[i]
    far, agree = in_place(pair)
    near = far < 2 * spacing(pair.reference.points)
    back = cKDTree(pair.source.moved(pair.ref_from_src).points).query(pair.reference.points)[0]
    shared = max(near.mean(), np.mean(back < 2 * spacing(pair.source.points)))
    assert shared > 0.2
    assert np.mean(agree[near] > 0.7) > 0.6  # but for thin walls, whose two sides are near


@pytest.mark.parametrize("i", range(3))
def test_a_cut_shares_out_the_surface(root, i):
    """The two sides lie on two sides of a plane, and the cut is where they meet."""
    pair = shapes("train", root, config=clean("cut"))[i]
    moved = pair.source.moved(pair.ref_from_src).points
    assert len(moved) + len(pair.reference.points) == 2 * CLEAN.points
    assert 0.3 * 1600 - 1 <= len(moved) <= 0.7 * 1600 + 1
    assert cKDTree(moved).query(pair.reference.points)[0].min() < 4 * spacing(moved)
    # a plane n·p ≤ d for the one, n·p ≥ d for the other exists: a feasible linear programme
    others = pair.reference.points
    rows = np.concatenate([np.c_[moved, -np.ones(len(moved))], np.c_[-others, np.ones(len(others))]])
    assert linprog(np.zeros(4), A_ub=rows, b_ub=np.full(len(rows), -1e-9), bounds=[(None, None)] * 4).success


def test_a_pair_depends_on_split_seed_and_number_alone(root):
    first = [digest(pair) for pair in shapes("train", root, 3, CLEAN)[:6]]
    assert [digest(shapes("train", root, 3, CLEAN)[i]) for i in reversed(range(6))] == first[::-1]
    others = [*shapes("train", root, 4, CLEAN)[:2], *shapes("val", root, 3, CLEAN)[:2]]
    assert len({*first, *map(digest, others)}) == 10


SCRIPT = """
import sys
from pathlib import Path
from bitr.data.generated import shapes
from tests.data.generated.test_dataset import CLEAN, digest
pairs = shapes("test", Path(sys.argv[1]), 0, CLEAN)
print(len(list(Path(sys.argv[1], "generated").iterdir())), digest(pairs[0]), digest(pairs[1]))
"""


@pytest.mark.slow
def test_another_process_makes_the_same_pairs_when_they_are_asked_for(root, tmp_path):
    """From the shapes that are stored here, and from none; opening the data set makes none."""
    here = [digest(shapes("test", root, 0, CLEAN)[i]) for i in (0, 1)]
    (tmp_path / "generated").mkdir()
    for folder, before in ((root, "1"), (tmp_path, "0")):
        given = [sys.executable, "-c", SCRIPT, str(folder)]
        there = {**os.environ, "PYTHONPATH": "."}
        done = subprocess.run(given, capture_output=True, text=True, check=True, env=there)
        assert done.stdout.split() == [before, *here]


def test_nothing_comes_from_a_network(tmp_path, monkeypatch):
    def refused(*_):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pairs = info("shapes").open("val", None, 0)
    assert isinstance(pairs[7], AssemblyPair)
    assert ShapeCache(cache_folder(None), (2, 8)).path(FIRST["val"] + 7).is_file()


def test_the_data_set_tells_what_it_is(root):
    described = info("shapes")
    assert described.name == "shapes"
    assert described.present(None)
    assert {split: len(described.open(split, root, 0)) for split in described.splits} == {
        "train": 100_000,
        "val": 1000,
        "test": 1000,
    }
    with pytest.raises(InputError, match="no split 'all'"):
        shapes("all", root)


@pytest.mark.slow
def test_kinds_come_in_the_given_mix(root):
    config = ShapesConfig(points=50, solids=6, mix=(2.0, 1.0, 1.0))
    pairs = shapes("train", root, config=config)[:200]
    kinds = Counter(pair.id.rsplit("/")[-1] for pair in pairs)
    assert_allclose([kinds[kind] / 200 for kind in ONLY], [0.5, 0.25, 0.25], atol=0.1)


def test_sides_have_points_normals_and_motions_of_their_own(root):
    shifts = []
    for pair in shapes("train", root, config=clean("fracture"))[:6]:
        for side in (pair.source, pair.reference):
            assert len(side.points) == CLEAN.points
            assert_allclose(np.linalg.norm(side.normals, axis=1), 1)
            assert np.linalg.norm(side.points - side.points.mean(axis=0), axis=1).max() < 2
        shifts.append(pair.ref_from_src[:3, 3])
    assert np.std(shifts) > 0.3


def test_noise_moves_points_off_the_surface_by_its_level(root):
    """The same draws with and without noise: the differences have at most the given deviation."""
    quiet, loud = (clean("fracture", noise=level) for level in (0.0, 0.02))
    off = []
    for i in range(12):
        a, b = (shapes("train", root, config=config)[i].source.points for config in (quiet, loud))
        off.append(np.std(a - b))
    assert min(off) > 0
    assert 0.008 < max(off) < 0.0205


def test_outliers_are_added_after_the_points(root):
    counts = [
        len(pair.source.points) for pair in shapes("train", root, config=clean("fracture", outliers=0.5))[:12]
    ]
    assert CLEAN.points <= min(counts) < max(counts) <= 1.5 * CLEAN.points


def test_unevenness_makes_one_end_denser(root):
    """The distances to the nearest neighbour spread more."""
    spread = {}
    for level in (0.0, 2.0):
        pairs = shapes("train", root, config=clean("fracture", unevenness=level))[:12]
        gaps = [cKDTree(pair.source.points).query(pair.source.points, k=9)[0][:, 8] for pair in pairs]
        spread[level] = np.mean([gap.std() / gap.mean() for gap in gaps])
    assert spread[2.0] > 1.15 * spread[0.0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("points", 0),
        ("mix", (0.0, 0.0, 0.0)),
        ("mix", (1.0, -1.0, 1.0)),
        ("pieces", (1, 4)),
        ("pieces", (4, 3)),
        ("pieces", (2, 9)),
        ("share", (0.0, 0.5)),
        ("keep", (0.3, 1.2)),
        ("keep", (0.9, 0.3)),
        ("overlap", 1.5),
        ("noise", -0.1),
        ("noise", float("nan")),
        ("outliers", 2.0),
        ("unevenness", -1.0),
        ("solids", 0),
        ("vessels", 1.5),
        ("erosion", -0.01),
    ],
)
def test_settings_out_of_range_are_named(name, value):
    with pytest.raises(InputError, match=rf"ShapesConfig: {name} = .* is out of range"):
        ShapesConfig(**{name: value})


# options: pairs of one kind, and meshes of the user's


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "kinds"), [("cut", {"cut"}), ("crop", {"crop"}), ("apart", {"cut", "fracture"})]
)
def test_an_option_leaves_the_kinds_that_it_names(root, option, kinds):
    pairs = dataset(f"shapes:{option}", "val", root)
    assert {pairs[i].id.rpartition("/")[2] for i in range(12)} == kinds
    assert info(f"shapes:{option}").name == f"shapes:{option}"


def test_an_unknown_option_is_refused_with_those_there_are():
    with pytest.raises(InputError, match=r"shapes:sliced: expected one of fracture, cut, .*chip.*, meshes$"):
        info("shapes:sliced")


@pytest.mark.slow
def test_noisy_crops_have_noise_of_one_per_cent_on_both_sides(root):
    noisy = dataset("shapes:noisy", "val", root)
    clean = shapes("val", root, config=ShapesConfig(mix=(0.0, 0.0, 1.0), noise=0.0))
    for i in range(3):
        assert noisy[i].id == clean[i].id
        for one, other in ((noisy[i].source, clean[i].source), (noisy[i].reference, clean[i].reference)):
            assert (one.points - other.points).std() == pytest.approx(0.01, rel=0.1)


@pytest.mark.slow
def test_half_of_the_worn_and_chipped_shapes_are_vessels_and_all_of_vessels(root):
    for option, share in (("vessel", 1.0), ("eroded", 0.5), ("chip", 0.5)):
        pairs = dataset(f"shapes:{option}", "val", root)
        names = [pairs[i].id.split("/") for i in range(4)]
        assert np.mean(["vessel" in name for name in names]) == share
        assert all(name[-1] == "fracture" for name in names)


@pytest.mark.slow
def test_splits_of_vessels_have_no_shape_in_common_and_seeds_sample_anew(root):
    one, other, again = (dataset("shapes:vessel", "val", root, seed)[0] for seed in (0, 1, 0))
    assert digest(one) == digest(again) != digest(other)
    vessels = ShapeCache(cache_folder(root), (2, 8), is_vessel=True)
    paths = {vessels.path(first) for first in FIRST.values()}
    assert len(paths | {ShapeCache(cache_folder(root), (2, 8)).path(first) for first in FIRST.values()}) == 6


@pytest.mark.slow
def test_worn_breaks_stand_apart_and_fresh_ones_do_not(root):
    """In place, points of a worn break are farther from the other piece by what both have lost."""
    fresh, worn = (
        shapes("val", root, config=clean("fracture", points=2000, erosion=level)) for level in (0.0, 0.04)
    )
    for i in range(3):
        assert fresh[i].id == worn[i].id
        gap = []
        for pair in (fresh[i], worn[i]):
            far, agree = in_place(pair)
            gap.append(np.median(far[(far < 0.12) & (agree < -0.8)]))
        assert gap[1] > gap[0] + 0.004  # 0.01 is lost on either side, on average, beside the sampling


@pytest.mark.slow
def test_the_noise_of_worn_fractures_is_half_a_per_cent(root):
    config = MIXES["eroded"][0]
    noisy = dataset("shapes:eroded", "val", root)
    quiet = shapes("val", root, config=replace(config, noise=0.0, least_noise=0.0))
    assert (noisy[0].source.points - quiet[0].source.points).std() == pytest.approx(0.005, rel=0.1)


@pytest.mark.slow
def test_pieces_that_share_points_by_area_have_one_density(root):
    """The typical spacing is that of the other side, where each side has as many points it is not."""
    pairs = shapes("val", root, config=clean("fracture", points=1500, by_area=True))
    for i in range(4):
        sides = pairs[i].source.points, pairs[i].reference.points
        assert abs(sum(map(len, sides)) - 3000) <= 1
        assert spacing(sides[0]) == pytest.approx(spacing(sides[1]), rel=0.15)


@pytest.fixture
def meshes(tmp_path):
    (tmp_path / "shapes").mkdir()
    write(tmp_path / "shapes" / "brick.obj", box(1.0, 2.0, 3.0))
    write(tmp_path / "shapes" / "tile.obj", box(3.0, 3.0, 1.0))
    return tmp_path


@pytest.mark.slow
def test_meshes_are_cut_and_cropped_in_turn(meshes):
    pairs = dataset("shapes:meshes", "test", meshes)
    assert len(pairs) == 24
    assert [pairs[i].id for i in (0, 1, 2, 3)] == ["brick/0/cut", "tile/0/cut", "brick/1/crop", "tile/1/crop"]
    for pair in (pairs[0], pairs[3]):
        whole = np.concatenate([pair.source.moved(pair.ref_from_src).points, pair.reference.points])
        assert len(whole) == 2000
        assert np.linalg.norm(whole - whole.mean(0), axis=1).max() < 1.5


def test_the_classic_meshes_give_108_pairs(real_data):
    assert len(dataset("shapes:meshes", "test", real_data)) == 108


def test_another_seed_samples_the_meshes_anew(meshes):
    one, other = (dataset("shapes:meshes", "test", meshes, seed)[2] for seed in (0, 1))
    assert one.id == other.id
    assert not np.allclose(one.source.points, other.source.points)


def test_without_meshes_it_is_said_where_to_put_them(tmp_path):
    with pytest.raises(InputError, match=r"put meshes .* into the folder shapes/"):
        dataset("shapes:meshes", "test", tmp_path)


def test_a_cloud_among_the_meshes_is_refused_by_name(meshes):
    write(meshes / "shapes" / "points.ply", Geometry(shape(50, np.random.default_rng(0)).points))
    with pytest.raises(InputError, match=r"points\.ply: is a cloud of points, expected a mesh"):
        dataset("shapes:meshes", "test", meshes)


@pytest.mark.slow
def test_scans_see_nothing_behind_anything_else(root):
    config = ShapesConfig(points=4000, solids=6, mix=ONLY["crop"], is_seen=True, noise=0.0)
    for i in range(3):
        pair = shapes("train", root, config=config)[i]
        source = move_points(pair.ref_from_src, pair.source.points)
        assert pair.source.normals is None
        assert pair.reference.normals is None
        shared = (cKDTree(pair.reference.points).query(source)[0] < 0.05).mean()
        assert 0.1 < shared < 0.99  # the views overlap, and each sees something of its own


def test_no_view_sees_through_a_ball():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(800, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    ball = Geometry(points, faces=ConvexHull(points).simplices.astype(np.int64))
    for view in _two_views(ball, ShapesConfig(points=4000, is_seen=True), rng):
        toward = view.points.mean(axis=0) / np.linalg.norm(view.points.mean(axis=0))
        assert (view.points @ toward > -0.05).mean() > 0.98


def test_a_view_of_a_ball_is_the_half_that_faces_the_eye():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60_000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    seen = points[_seen_from(points, np.array([0.0, 0.6, 0.8]))]
    height = seen @ np.array([0.0, 0.6, 0.8])
    assert (height > 0).mean() > 0.97
    assert height.max() > 0.99
    assert len(seen) > 0.9 * np.pi / PIXEL**2
