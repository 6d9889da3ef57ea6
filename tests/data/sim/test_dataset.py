import sys

import numpy as np
import pytest
from benchmarks.simulation import rates
from scipy.spatial import cKDTree

from bitr.data import dataset, info
from bitr.data.poses import turn_about
from bitr.data.sim import scene_of, sim_pairs, success
from bitr.data.sim.objects import load_scan, scanned_body
from bitr.data.sim.scenes import read_demonstration
from bitr.data.storage import SPLITS, frozen_splits
from bitr.errors import InputError

SIZES = {"mug-hanging": (400, 40, 60), "bowl-placing": (400, 40, 60)}
NAMES = list(SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_splits_have_many_scenes_and_more_can_be_made(name):
    pytest.importorskip("pybullet")  # type checking looks at an item of each
    assert info(name).present(None)
    assert tuple(len(info(name).open(split, None, 0)) for split in SPLITS) == SIZES[name]
    assert len(sim_pairs(name, "train", n=1000)) == 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_pair_is_what_cameras_see_and_its_pose_brings_them_together(name):
    pytest.importorskip("pybullet")
    pair = dataset(name, "val")[1]
    assert (pair.id, pair.unit) == (f"{name}/val/0/1", "m")
    assert len(pair.source.points) == len(pair.reference.points) == 1024
    scene = scene_of(pair.id)
    on_it = scene.draft.object.moved(scene.draft.observed).surface.points
    assert cKDTree(on_it).query(pair.source.points)[0].max() < 0.02
    gap = cKDTree(pair.reference.points).query(pair.source.moved(pair.ref_from_src).points)[0].min()
    assert gap < 0.01  # they touch; clouds of 1024 points are about 4 mm apart where surfaces do


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_made_from_nothing_twice_and_read_back_it_is_the_same_pair(name, tmp_path, monkeypatch):
    pytest.importorskip("pybullet")
    pairs = []
    for folder in ("a", "b", "b"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / folder))
        pairs.append(sim_pairs(name, "train", seed=3)[2])
    for pair in pairs[1:]:
        assert np.array_equal(pair.source.points, pairs[0].source.points)
        assert np.array_equal(pair.reference.points, pairs[0].reference.points)
        assert np.array_equal(pair.ref_from_src, pairs[0].ref_from_src)


@pytest.mark.slow
def test_a_damaged_stored_file_is_made_again(tmp_path, monkeypatch):
    pytest.importorskip("pybullet")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pair = sim_pairs("bowl-placing", "val", n=1)[0]  # n: type checking looks at any one item of a sequence
    files = sorted(tmp_path.rglob("*.arrays"))
    assert len(files) == 2  # the scene and the clouds
    for damage in (b"", b"no zip file", files[0].read_bytes()[:100]):
        for path in files:
            path.write_bytes(damage)
        assert np.array_equal(sim_pairs("bowl-placing", "val", n=1)[0].source.points, pair.source.points)


def test_stored_pairs_need_no_simulator(tmp_path, monkeypatch):
    pytest.importorskip("pybullet")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pair = sim_pairs("bowl-placing", "val", n=1)[0]
    monkeypatch.setitem(sys.modules, "pybullet", None)
    assert np.array_equal(sim_pairs("bowl-placing", "val", n=1)[0].source.points, pair.source.points)
    assert scene_of(pair.id).id == pair.id
    with pytest.raises(InputError, match=r'^simulated scenes need pybullet: pip install -e "\.\[sim\]"$'):
        scene_of("bowl-placing/val/1/0")


@pytest.mark.slow
def test_other_seeds_and_splits_have_other_objects():
    pytest.importorskip("pybullet")
    ids = [f"bowl-placing/{split}/{seed}/0" for split in SPLITS for seed in (0, 1)]
    shapes = {scene_of(id).draft.object.surface.points.tobytes() for id in ids}
    assert len(shapes) == len(ids)


@pytest.mark.slow
def test_a_bowl_works_however_it_is_turned_about_its_axis_and_a_mug_has_none():
    pytest.importorskip("pybullet")
    pair = sim_pairs("bowl-placing", "test")[0]
    assert all(
        success(pair.id, pair.ref_from_src @ turn_about(pair.axis, angle)).succeeded for angle in (1.1, 4.4)
    )
    assert sim_pairs("mug-hanging", "test")[0].axis is None


def test_a_wrong_split_is_refused():
    with pytest.raises(InputError, match="expected one of train, val, test"):
        sim_pairs("mug-hanging", "dev")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_true_poses_work_and_poses_30_degrees_off_mostly_do_not(name):
    pytest.importorskip("pybullet")
    found = rates(name, "test", 8)
    assert found.true == 1
    assert found.nudged >= 0.75
    assert found.off <= 0.4
    assert sum(found.failures.values()) == round(8 * (1 - found.off))


@pytest.mark.slow
def test_every_scanned_object_is_there_once_and_each_split_has_its_own(real_data):
    listed = frozen_splits("tableware")
    for id, split in listed.items():
        kind, name = id.split("/")
        body = load_scan(name, real_data)
        assert body.name == name
        assert 0.05 < body.size < 0.5
        names = [id.split("/")[1] for id, home in listed.items() if home == split and id.startswith(kind)]
        assert scanned_body(kind, split, names.index(name) + len(names), real_data).name == name
    assert len(listed) == 25


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_where_scans_are_at_hand_each_fourth_scene_is_of_them_and_the_others_stay(name, real_data):
    pytest.importorskip("pybullet")
    with_scans, without = sim_pairs(name, "test", real_data), sim_pairs(name, "test")
    assert with_scans[3].id == f"{name}/test/0/3/scanned"
    assert success(with_scans[3].id, with_scans[3].ref_from_src, real_data).succeeded
    assert np.array_equal(with_scans[2].source.points, without[2].source.points)
    assert without[3].id == f"{name}/test/0/3"


# recorded demonstrations

EDF = info("mug-hanging-edf")


def write_demonstration(path, **changes):
    rng = np.random.default_rng(0)
    arrays = {
        "place_grasp_points": rng.normal(size=(20, 3)).astype(np.float32),
        "place_grasp_rgb": rng.integers(0, 256, (20, 3), dtype=np.uint8),
        "place_scene_points": rng.normal(size=(30, 3)).astype(np.float32),
        "place_scene_rgb": rng.integers(0, 256, (30, 3), dtype=np.uint8),
        "place_target_T": np.eye(4),
    } | changes
    np.savez(path, **{name: rows for name, rows in arrays.items() if rows is not None})
    return path


def test_a_demonstration_is_a_pair_with_colours(tmp_path):
    target = np.array([[0.0, -1, 0, 0.1], [1, 0, 0, 0.2], [0, 0, 1, 0.3], [0, 0, 0, 1]])
    pair = read_demonstration(write_demonstration(tmp_path / "demo_0.npz", place_target_T=target))
    assert (len(pair.source.points), len(pair.reference.points), pair.id, pair.unit) == (
        20,
        30,
        "demo_0",
        "m",
    )
    assert np.allclose(pair.ref_from_src, target, atol=1e-12)
    assert 0 <= pair.source.colors.min() <= pair.source.colors.max() <= 1


@pytest.mark.parametrize(
    "changes",
    [
        {"place_grasp_points": None},
        {"place_grasp_points": np.zeros((20, 2), np.float32)},
        {"place_scene_rgb": np.zeros((29, 3), np.uint8)},
        {"place_target_T": np.diag([2.0, 1, 1, 1])},
        {"place_target_T": np.eye(3)},
    ],
)
def test_a_damaged_demonstration_is_named(tmp_path, changes):
    path = write_demonstration(tmp_path / "demo_0.npz", **changes)
    with pytest.raises(InputError, match=r"demo_0\.npz: "):
        read_demonstration(path)


def test_a_file_that_is_no_archive_is_named(tmp_path):
    path = tmp_path / "demo_0.npz"
    path.write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(InputError, match=r"demo_0\.npz: "):
        read_demonstration(path)


def test_without_files_it_is_not_present(tmp_path):
    assert not EDF.present(tmp_path)
    assert not EDF.present(None)


def test_in_every_recorded_demonstration_the_peg_ends_in_the_handle(real_data):
    if not EDF.present(real_data):
        pytest.skip("BITR_DATA has no recorded demonstrations")
    pairs = [*EDF.open("train", real_data, 0), *EDF.open("test", real_data, 0)]
    assert [len(EDF.open(split, real_data, 0)) for split in EDF.splits] == [10, 2]
    assert len({pair.id for pair in pairs}) == 12
    for pair in pairs:
        placed = pair.source.moved(pair.ref_from_src).points
        stand = pair.reference.points[pair.reference.points[:, 2] > 0.05]
        near = cKDTree(stand).query(placed)[0]
        assert 0.003 < near.min() < 0.02  # the peg is in the handle and does not touch it yet
        assert placed[:, 2].min() > 0.15
