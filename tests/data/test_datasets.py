"""The data sets of the paper on real files: counts, splits, and answers checked by how the pieces meet."""

import json
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from bitr.data import dataset, datasets
from bitr.data.fragments import CLASSES, fractures, merge
from bitr.data.poses import inverse, random_pose
from bitr.data.scan_formats import Scan
from bitr.data.scans import outdoor_sequences, outdoor_split, pairs_of_low_overlap
from bitr.data.shapenet import airplanes, vehicles
from bitr.data.stats import overlap
from bitr.data.storage import SPLITS, frozen_splits, split_by_hash, split_of
from bitr.data.transforms import move
from bitr.io import Geometry
from bitr.io.subsample import farthest_points
from tests.data.cases import fitted, gaps

ALIKE = (("D00544", "D00594", "m1479"), ("D00886", "m1482"), ("D00021", "m1480"), ("D00224", "D00269"))
"""Motorbikes that are nearly the same."""
COUNTS = {
    "bunny": (1000, 100, 100),
    "airplane": (260, 30, 42),
    "airplane:0.3": (260, 30, 42),
    "car-motorbike": (816, 24, 60),
    "winebottle": (116, 18, 31),
    "winebottle:all": (500, 18, 31),
    "beerbottle": (78, 24, 48),
    "bottle": (187, 11, 39),
    "drinkbottle": (119, 25, 61),
    "indoor": (329, 37, 59),
    "indoor:low": (100, 79, 100),
    "outdoor": (10, 2, 3),
}


def turned(pair):
    """The pair with a wrong answer: the source turned about its middle, by a quarter turn or so."""
    middle = pair.source.points.mean(0)
    wrong = random_pose(np.random.default_rng(1), 0.0)
    wrong[:3, 3] = middle - wrong[:3, :3] @ middle
    return move(pair, wrong, np.eye(4)).source


@pytest.mark.parametrize("name", COUNTS)
def test_counts(real_data, name):
    assert tuple(len(dataset(name, split, real_data)) for split in SPLITS) == COUNTS[name]


def test_red_kitchen_is_the_papers_test_set_and_nothing_else(real_data):
    test = dataset("indoor", "test", real_data)
    assert len(test) == 59
    assert {test.make.pairs[i].place for i in range(59)} == {"7-scenes-redkitchen"}
    for split in ("train", "val"):
        places = {pair.place for pair in dataset("indoor", split, real_data).make.pairs}
        assert not any("kitchen" in place for place in places)


def test_wine_bottles_give_165_pairs_on_10_shapes(real_data):
    found = fractures("winebottle", real_data)
    assert len(found) == len({f.id for f in found}) == 165
    assert len({f.shape for f in found}) == 10
    assert sum(f.is_native for f in found) == 9  # one bottle broke into nearly the whole and a chip


def test_all_bottles_train_but_only_wine_bottles_are_tested(real_data):
    shapes = {s: {f.shape for f in dataset("winebottle:all", s, real_data).make.fractures} for s in SPLITS}
    assert shapes["test"] == {f.shape for f in dataset("winebottle", "test", real_data).make.fractures}
    assert shapes["train"] > {f.shape for f in dataset("winebottle", "train", real_data).make.fractures}
    assert all(not shapes[a] & shapes[b] for a, b in combinations(SPLITS, 2))


@pytest.mark.parametrize("name", sorted(p for p in COUNTS if p != "bunny"))
def test_items_depend_on_their_name_split_seed_and_number_alone(real_data, name):
    pairs = dataset(name, "val", real_data, seed=3)
    a, b, other = pairs[1], dataset(name, "val", real_data, seed=3)[1:][0], dataset(name, "val", real_data)[1]
    np.testing.assert_array_equal(a.source.points, b.source.points)
    np.testing.assert_array_equal(a.ref_from_src, b.ref_from_src)
    assert a.id == b.id == other.id
    assert np.abs(a.ref_from_src - other.ref_from_src).max() > 1e-3
    assert pairs[-1].id == pairs[len(pairs) - 1].id
    with pytest.raises(IndexError):
        pairs[len(pairs)]


def test_no_shape_or_near_duplicate_is_in_two_splits(real_data):
    groups = json.loads((real_data / "airplane/near_duplicate_groups.json").read_text())
    shapes = airplanes(real_data)
    assert groups.keys() == shapes.keys() == frozen_splits("airplane").keys()
    by_split = {s: {groups[id] for id in shapes if split_of("airplane", id) == s} for s in SPLITS}
    assert all(not by_split[a] & by_split[b] for a, b in combinations(SPLITS, 2))
    assert vehicles(real_data).keys() == frozen_splits("car-motorbike").keys()
    for alike in ALIKE:
        assert len({split_of("car-motorbike", f"motorbike/{name}") for name in alike}) == 1


@pytest.mark.parametrize("name", CLASSES)
def test_no_bottle_is_in_two_splits_of_any_class(real_data, name):
    of_class = {f.shape: split_of(name, f.shape) for f in fractures(name, real_data)}
    assert of_class == frozen_splits(name)
    for other in CLASSES:
        for shape, split in frozen_splits(other).items():
            assert of_class.get(shape, split) == split


def test_no_scan_is_in_two_splits(real_data):
    scans = outdoor_sequences(real_data)
    numbers = {
        s: {(p, scan.number) for p, found in outdoor_split(scans, s).items() for scan in found}
        for s in SPLITS
    }
    assert all(not numbers[a] & numbers[b] for a, b in combinations(SPLITS, 2))
    listed = {f"{place}/{n}": s for s in SPLITS for place, n in numbers[s]}
    assert listed == frozen_splits("outdoor")


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("name", "reach"), [("indoor", 0.1), ("outdoor", 0.9), ("airplane", 0.06)])
def test_overlapping_pairs_meet_in_their_place(real_data, name, reach, split):
    """The nearest neighbour is about a spacing away; for a source turned about its middle, it is not."""
    pairs = dataset(name, split, real_data)
    rows = range(0, len(pairs), max(1, len(pairs) // 10))
    # indoor clouds are cropped in training, and then need not overlap
    found = [pairs.make.pairs[i].assembly(0.1) if name == "indoor" else pairs[i] for i in rows]
    right = np.array([np.quantile(gaps(pair), 0.3) for pair in found])
    assert np.mean(right < reach) > 0.7
    wrong = [np.quantile(gaps(replace(pair, source=turned(pair))), 0.3) for pair in found]
    assert np.median(wrong) > 1.5 * np.median(right)


@pytest.mark.parametrize("split", SPLITS)
def test_low_overlap_is_of_the_smaller_fragment_and_not_of_neighbours_only(real_data, split):
    pairs = dataset("indoor:low", split, real_data)
    assert len({pairs.make.pairs[i].id for i in range(len(pairs))}) == len(pairs)
    steps = [pair.reference.number - pair.source.number for pair in pairs.make.pairs]
    assert min(steps) >= 1
    assert np.median(steps) > 2
    for i in range(0, len(pairs), 9):
        x, y = pairs[i].source.moved(pairs[i].ref_from_src).points, pairs[i].reference.points
        small, large = (x, y) if len(x) <= len(y) else (y, x)
        assert 0.09 < np.mean(cKDTree(large).query(small)[0] < 0.2) < 0.31


def test_low_overlap_is_found_among_all_pairs_of_a_place():
    """Strips of 2 m that begin 0.6 m from each other: those 1.8 m apart share 0.2 m, and 0.2 m of reach."""
    rng = np.random.default_rng(0)
    scans = []
    for number in range(6):
        to_world = random_pose(rng, 1.0)
        strip = rng.uniform(0, 1, (4000, 3)) * [2.0, 2.0, 0.0] + [0.6 * number, 0, 0]
        scans.append(
            Scan(number, partial(Geometry, Geometry(strip).moved(inverse(to_world)).points), to_world)
        )
    found = pairs_of_low_overlap({"strip": scans[:4], "other": scans[4:]})
    assert [pair.id for pair in found] == ["strip/0-3"]
    assert len(pairs_of_low_overlap({f"place {i:03}": scans[:4] for i in range(102)})) == 100


@pytest.mark.parametrize("name", CLASSES)
def test_fragments_touch_in_their_place(real_data, name):
    """The surfaces of a break meet: some points of the source are as close to the reference as its own."""
    for i in (0, 5, 10):
        distances = gaps(dataset(name, "test", real_data)[i])
        assert (distances < 0.02).sum() > 5
        assert distances.max() > 0.05  # but most are elsewhere


def test_merged_fragments_are_closed_surfaces_that_fill_the_bottle(real_data):
    def volume(mesh):
        a, b, c = (mesh.points[mesh.faces[:, i]] for i in range(3))
        return float(np.einsum("ni,ni->n", a, np.cross(b, c)).sum()) / 6

    shapes = {}
    for fracture in fractures("winebottle", real_data)[:14]:
        sides = fracture.load()
        for mesh in sides:
            edges = np.sort(
                np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]])
            )
            _, counts = np.unique(edges, axis=0, return_counts=True)
            assert (counts % 2 == 0).all()
        whole = merge(sides, fracture.id)
        assert volume(whole) == pytest.approx(sum(map(volume, sides)), rel=1e-6)
        shapes.setdefault(fracture.shape, []).append(volume(whole))
    for volumes in shapes.values():
        assert max(volumes) / min(volumes) < 1.03  # chips that the index leaves out


def test_bunny_is_cut_as_the_paper_says(real_data):
    pair = dataset("bunny", "test", real_data)[0]
    assert (len(pair.source.points), len(pair.reference.points)) == (674, 1574)  # 30 and 70% of 2048 + 200
    x, y = pair.source.moved(pair.ref_from_src).points, pair.reference.points
    sign = np.repeat([1, -1], [len(x), len(y)])[:, None]
    rows = np.concatenate([sign * np.concatenate([x, y]), sign], axis=1)
    found = linprog(np.zeros(4), A_ub=rows, b_ub=np.full(len(rows), -1e-9), bounds=[(None, None)] * 4)
    assert found.success  # a plane lies between them


def test_the_car_stands_to_the_right_of_the_motorbike_and_heads_the_same_way(real_data):
    """The motion from the stored car to its place beside the stored motorbike is a shift by [0, 0, 1]."""
    pairs = dataset("car-motorbike", "test", real_data)
    shapes = vehicles(real_data)
    car, bike = pairs[7].id.split("+")
    before = [
        at(shapes[name](), cloud) for name, cloud in ((car, pairs[7].source), (bike, pairs[7].reference))
    ]
    in_place = inverse(before[1]) @ pairs[7].ref_from_src @ before[0]
    np.testing.assert_allclose(in_place, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]], atol=1e-6)


def at(shape, cloud):
    """The motion that took the stored shape to the cloud, by the three points farthest from each other.

    The cloud has a quarter of the shape's points; those that were drawn are found by all their distances.
    """
    far = farthest_points(cloud.points, 3)
    wanted = cdist(cloud.points[far], cloud.points[far])
    among = cdist(shape.points, shape.points)
    for i, j in np.argwhere(np.abs(among - wanted[0, 1]) < 1e-6):
        last = np.flatnonzero(
            (np.abs(among[i] - wanted[0, 2]) < 1e-6) & (np.abs(among[j] - wanted[1, 2]) < 1e-6)
        )
        for k in last:
            motion = fitted(shape.points[[i, j, k]], cloud.points[far])
            if cKDTree(shape.moved(motion).points).query(cloud.points)[0].max() < 1e-5:
                return motion
    raise AssertionError("the cloud is not drawn from the shape")


def test_airplanes_keep_the_share_that_is_asked_for(real_data):
    for keep in (0.7, 0.5, 0.3):
        pair = dataset(f"airplane:{keep}", "test", real_data)[0]
        assert len(pair.source.points) == len(pair.reference.points) == round(keep * 1024)
        assert pair.source.normals is not None
    shares = [
        np.mean([overlap(dataset(f"airplane:{k}", "test", real_data)[i]) for i in range(9)])
        for k in (0.7, 0.3)
    ]
    assert shares[0] > shares[1] + 0.2


def test_indoor_clouds_are_cropped_in_training_only(real_data):
    train, val = (dataset("indoor", split, real_data) for split in ("train", "val"))
    whole = [pair.assembly(0.1) for pair in train.make.pairs[:20]]
    shares = [len(train[i].source.points) / len(whole[i].source.points) for i in range(20)]
    assert 0.5 <= min(shares) < 0.7
    assert 0.8 < max(shares) <= 1
    assert len(val[0].source.points) == len(val.make.pairs[0].assembly(0.1).source.points)


def test_every_info_says_what_a_list_needs():
    infos = datasets()
    assert len({info.name for info in infos}) == len(infos)
    for info in infos:
        assert info.splits in (SPLITS, ("train", "test"))  # two recorded demonstrations are too few for three
        assert info.title
        assert info.licence
        assert info.source


def test_ids_that_are_not_listed_are_split_by_their_hash():
    found = [split_by_hash(f"shape {i}") for i in range(5000)]
    shares = [found.count(split) / 5000 for split in SPLITS]
    np.testing.assert_allclose(shares, (0.8, 0.1, 0.1), atol=0.02)
    assert split_of("airplane", "shape 1") == found[1]
