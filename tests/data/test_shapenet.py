"""Airplanes, cars and motorbikes: ShapeNet's format from small files, counts and places on real ones."""

import json
import os
from itertools import combinations

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from bitr.data import dataset
from bitr.data.poses import inverse
from bitr.data.registry import overlap
from bitr.data.shapenet import AIRPLANE, CAR, MOTORBIKE, airplanes, shapenet_models, vehicles
from bitr.data.storage import SPLITS, frozen_splits, split_by_hash, split_of
from bitr.errors import InputError
from bitr.io import farthest_points, write
from tests.data.cases import box, fitted

ALIKE = (("D00544", "D00594", "m1479"), ("D00886", "m1482"), ("D00021", "m1480"), ("D00224", "D00269"))
"""Motorbikes that are nearly the same."""


@pytest.fixture
def shapenet(tmp_path):
    for synset, size in ((AIRPLANE, (1, 0.3, 2)), (CAR, (0.5, 0.4, 1)), (MOTORBIKE, (0.2, 0.5, 1))):
        for i in range(12):
            models = tmp_path / "shapenet" / synset / f"model{i}" / "models"
            models.mkdir(parents=True)
            write(models / "model_normalized.obj", box(size, (0, 0, i)))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(("name", "points"), [("airplane", 717), ("car-motorbike", 1024)])
def test_shapenet_folders(shapenet, name, points):
    found = {split: [pair.id for pair in dataset(name, split, shapenet)] for split in ("train",)}
    assert found["train"]
    pair = dataset(name, "train", shapenet)[0]
    assert len(pair.source.points) == points
    assert all(split_by_hash(id) == "train" for id in found["train"] if name == "airplane")


def test_shapenets_own_splits_go_first(shapenet):
    rows = [f"{i},{AIRPLANE},{AIRPLANE},model{i},{SPLITS[i % 3]}" for i in range(12)]
    (shapenet / "shapenet" / "all.csv").write_text(
        "id,synsetId,subSynsetId,modelId,split\n" + "\n".join(rows)
    )
    found = dataset("airplane", "val", shapenet)
    assert {pair.id for pair in found} == {f"{AIRPLANE}/model{i}" for i in (1, 4, 7, 10)}
    (shapenet / "shapenet" / "all.csv").write_text("id,name\n")
    with pytest.raises(InputError, match="expected synsetId, modelId and split"):
        dataset("airplane", "val", shapenet)


def test_shapes_of_version_2_are_turned_to_face_x(shapenet):
    """In version 2 the front is at −z: the car, 1 long in z and 0.5 wide in x, becomes long in x."""
    car = next(iter(shapenet_models(shapenet, CAR).values()))()
    extent = np.ptp(car.points, axis=0)
    np.testing.assert_allclose(extent / extent[0], (1, 0.4, 0.5), atol=1e-12)
    assert np.linalg.norm(car.points, axis=1).max() == pytest.approx(1)
    (shapenet / "ShapeNetCore.v1" / CAR / "one").mkdir(parents=True)
    os.rename(shapenet / "shapenet", shapenet / "other")
    write(shapenet / "ShapeNetCore.v1" / CAR / "one" / "model.obj", box((0.5, 0.4, 1)))
    old = next(iter(shapenet_models(shapenet, CAR).values()))()
    np.testing.assert_allclose(
        np.ptp(old.points, axis=0) / np.ptp(old.points[:, 2]), (0.5, 0.4, 1), atol=1e-12
    )


def test_genuine_shapenet_files_are_read(real_data, tmp_path):
    mug = real_data / "shapenet_modelnet_samples/shapenet_03797390_mug_ea127b5b.obj"
    models = tmp_path / "shapenet" / AIRPLANE / "a mug" / "models"
    models.mkdir(parents=True)
    (models / "model_normalized.obj").symlink_to(mug)
    loaded = next(iter(shapenet_models(tmp_path, AIRPLANE).values()))()
    assert loaded.faces is not None
    assert len(loaded.points) > 1000


def test_no_shape_or_near_duplicate_is_in_two_splits(real_data):
    groups = json.loads((real_data / "airplane/near_duplicate_groups.json").read_text())
    shapes = airplanes(real_data)
    assert groups.keys() == shapes.keys() == frozen_splits("airplane").keys()
    by_split = {s: {groups[id] for id in shapes if split_of("airplane", id) == s} for s in SPLITS}
    assert all(not by_split[a] & by_split[b] for a, b in combinations(SPLITS, 2))
    assert vehicles(real_data).keys() == frozen_splits("car-motorbike").keys()
    for alike in ALIKE:
        assert len({split_of("car-motorbike", f"motorbike/{name}") for name in alike}) == 1


def test_vehicles_of_further_collections_are_for_training_and_validation(real_data):
    shapes = vehicles(real_data)
    further = {id for id, load in shapes.items() if not id.split("/")[1].startswith(("D0", "m1", "torcs"))}
    assert len(further) == 28 - 1 + 79  # one lacks half of its handlebar
    assert not any(split_of("car-motorbike", id) == "test" for id in further)
    assert len(dataset("car-motorbike", "test", real_data)) == 5 * 12
    for alike in (("guangqi-chuanqi-GS4-2015", "fengtian-puladuo-06"), ("yiqi-benteng-b50", "bieke-kaiyue")):
        assert {split_of("car-motorbike", f"car/{name}") for name in alike} == {"train"}


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


@pytest.mark.slow
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
