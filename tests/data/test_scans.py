"""Scans of rooms and streets: their formats from small files, splits and overlap on real ones."""

import pickle
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.spatial import cKDTree

from bitr.data import dataset
from bitr.data.poses import inverse, random_pose
from bitr.data.scans import (
    Scan,
    back_project,
    indoor_scenes,
    outdoor_sequences,
    outdoor_split,
    pairs_of_low_overlap,
    read_depth_scene,
    read_fragment,
)
from bitr.data.storage import SPLITS, frozen_splits
from bitr.errors import InputError
from bitr.io import Geometry
from tests.data.cases import gaps


def room(n, rng):
    """Points on the floor and two walls of a room, 6 × 5 × 3 m."""
    points = rng.uniform(0, 1, (n, 3)) * (6, 5, 3)
    points[np.arange(n), rng.integers(0, 3, n)] = 0
    return points


def pose_text(pose):
    return "\n".join(" ".join(f"{x:.8f}" for x in row) for row in pose)


# 3DMatch's fragments


def fragment_files(folder, poses, rng, save=torch.save):
    """Fragments of a room seen from poses, in the packaging of Predator."""
    folder.mkdir(parents=True)
    for i, pose in enumerate(poses):
        seen = Geometry(room(20_000, rng)).moved(inverse(pose)).points.astype(np.float32)
        save(seen, folder / f"cloud_bin_{i}.pth")
        text = f"scene\tseq-01\t{50 * i}\t{50 * i + 49}\n{pose_text(pose)}\n"
        (folder / f"cloud_bin_{i}.info.txt").write_text(text)


@pytest.mark.parametrize("scene", ["7-scenes-redkitchen", "7-scenes-chess"])
def test_fragments_of_3dmatch(tmp_path, scene):
    rng = np.random.default_rng(0)
    poses = [random_pose(rng, 2.0) for _ in range(12)]
    fragment_files(tmp_path / "indoor_3dmatch/test" / scene, poses, rng)
    split, other = ("test", "train") if "kitchen" in scene else ("train", "test")
    pairs = dataset("indoor", split, tmp_path)
    numbers = [(pair.source.number, pair.reference.number) for pair in pairs.make.args[0]]
    assert numbers == [(i, i + 1) for i in range(11)]  # by number, not by name
    for i in (0, 9):
        pair = pairs.make.args[0][i].assembly(0.1)
        expected = inverse(poses[i + 1]) @ poses[i]
        np.testing.assert_allclose(pair.ref_from_src, expected, atol=1e-6)
        assert np.quantile(gaps(pair), 0.95) < 0.1
    with pytest.raises(InputError, match=f"no pairs for {other}"):
        dataset("indoor", other, tmp_path)


def test_tensors_are_read_too_and_pickles_are_not_run(tmp_path):
    torch.save(torch.rand(10, 3), tmp_path / "cloud_bin_0.pth")
    assert read_fragment(tmp_path / "cloud_bin_0.pth").points.shape == (10, 3)
    torch.save(np.random.default_rng(0).random((10, 3)), tmp_path / "cloud_bin_1.pth")
    assert read_fragment(tmp_path / "cloud_bin_1.pth").points.shape == (10, 3)

    class Evil:
        def __reduce__(self):
            return Path.touch, (tmp_path / "evil",)

    torch.save(Evil(), tmp_path / "cloud_bin_2.pth")
    with open(tmp_path / "cloud_bin_3.pth", "wb") as file:
        pickle.dump(Evil(), file)
    (tmp_path / "cloud_bin_4.pth").write_bytes(b"PK\x03\x04 and then nothing")
    torch.save(np.zeros((3, 10)), tmp_path / "cloud_bin_5.pth")
    for i in range(2, 6):
        with pytest.raises(InputError, match=rf"cloud_bin_{i}\.pth"):
            read_fragment(tmp_path / f"cloud_bin_{i}.pth")
    assert not (tmp_path / "evil").exists()


def test_arrays_that_numpy_1_wrote_are_read(tmp_path):
    """The same file with the name that numpy 1 had for the function that rebuilds arrays."""
    points = np.random.default_rng(0).random((10, 3)).astype(np.float32)
    torch.save(points, tmp_path / "new.pth", _use_new_zipfile_serialization=False)
    data = (tmp_path / "new.pth").read_bytes()
    assert b"numpy._core" in data
    (tmp_path / "old.pth").write_bytes(data.replace(b"numpy._core", b"numpy.core"))
    np.testing.assert_array_equal(read_fragment(tmp_path / "old.pth").points, points)


def test_a_fragment_without_its_pose_is_named(tmp_path):
    folder = tmp_path / "indoor_3dmatch/7-scenes-redkitchen"
    fragment_files(folder, [np.eye(4)] * 2, np.random.default_rng(0))
    (folder / "cloud_bin_1.info.txt").write_text("scene seq 0 49\n1 0 0\n")
    with pytest.raises(InputError, match=r"cloud_bin_1\.info\.txt: found 3 numbers"):
        dataset("indoor", "test", tmp_path)
    (folder / "cloud_bin_1.info.txt").unlink()
    with pytest.raises(InputError, match=r"cloud_bin_1\.info\.txt: no such file"):
        dataset("indoor", "test", tmp_path)


# depth images


CAMERA = np.array([[60.0, 0, 32], [0, 60, 24], [0, 0, 1]])


def depth_of_room(world_from_camera):
    """Millimetres along the optical axis to the inside of a box, 6 × 5 × 3 m, for each of 64 × 48 pixels."""
    v, u = np.mgrid[:48, :64]
    rays = np.stack([u, v, np.ones_like(u)], -1) @ np.linalg.inv(CAMERA).T @ world_from_camera[:3, :3].T
    eye = world_from_camera[:3, 3]
    with np.errstate(divide="ignore"):
        steps = np.where(rays > 0, ((6, 5, 3) - eye) / rays, np.where(rays < 0, -eye / rays, np.inf))
    return np.round(steps.min(-1) * 1000).astype(np.uint16)


def camera(i):
    angle = 0.02 * i
    pose = np.eye(4)
    pose[:3, :3] = [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
    pose[:3, 3] = (3 + 0.005 * i, 2.5, 0.5)
    return pose


@pytest.fixture
def depth_scene(tmp_path):
    sequence = tmp_path / "7scenes/redkitchen/seq-01"
    sequence.mkdir(parents=True)
    np.savetxt(sequence.parent / "camera-intrinsics.txt", CAMERA)
    for i in range(120):
        depth = depth_of_room(camera(i))
        depth[:2, :2] = (0, 65535)  # pixels without a depth
        Image.fromarray(depth).save(sequence / f"frame-{i:06d}.depth.png")
        (sequence / f"frame-{i:06d}.pose.txt").write_text(pose_text(camera(i)))
    return tmp_path


def test_depth_images_are_fused_to_fragments_that_lie_on_each_other(depth_scene):
    pairs = dataset("indoor", "test", depth_scene)
    assert len(pairs) == 1  # runs of 50 and 70: a rest below half a run joins the one before it
    pair = pairs.make.args[0][0].assembly(0.1)
    np.testing.assert_allclose(pair.ref_from_src, inverse(camera(50)) @ camera(0), atol=1e-6)
    scan = indoor_scenes(depth_scene, "test")["redkitchen"][1]
    cloud = scan.load()
    world = cloud.moved(scan.world_from_scan).points
    off = np.minimum(np.abs(world), np.abs(world - (6, 5, 3))).min(axis=1)
    assert np.quantile(off, 0.95) < 0.02  # on the walls, but for means across the corners of the room
    assert len(cloud.points) > 1000
    assert len(pairs[0].source.points) > 300


def test_a_pixel_is_where_its_camera_sees_it():
    depth = np.zeros((48, 64))
    depth[24, 32], depth[24, 62] = 2.0, 2.0
    np.testing.assert_allclose(back_project(depth, CAMERA), [[0, 0, 2], [1, 0, 2]], atol=1e-12)


def test_damaged_depth_is_named(depth_scene):
    sequence = depth_scene / "7scenes/redkitchen/seq-01"
    first = sequence / "frame-000000.depth.png"
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(first)
    with pytest.raises(InputError, match="expected 16-bit depths"):
        read_depth_scene(sequence.parent)[0].load()
    first.write_bytes(b"no image")
    with pytest.raises(InputError, match=r"frame-000000\.depth\.png: damaged or not an image"):
        read_depth_scene(sequence.parent)[0].load()
    for path in sequence.glob("*.png"):
        Image.fromarray(np.zeros((4, 4), np.uint16)).save(path)
    with pytest.raises(InputError, match="no depth in it"):
        read_depth_scene(sequence.parent)[0].load()
    (sequence / "frame-000000.pose.txt").unlink()
    with pytest.raises(InputError, match=r"frame-000000\.pose\.txt: no such file"):
        read_depth_scene(sequence.parent)
    (sequence.parent / "camera-intrinsics.txt").write_text("1 2\n3 4\n")
    with pytest.raises(InputError, match="expected 3×3"):
        read_depth_scene(sequence.parent)


# laser scans


def landscape(pose, rng, n=20_000):
    points = rng.uniform(-30, 30, (n, 3)) * (1, 1, 0)
    points[:, 2] = np.sin(points[:, 0] / 5) * 3 + np.cos(points[:, 1] / 4) * 2
    return Geometry(points).moved(inverse(pose)).points


def driving(i):
    pose = np.eye(4)
    pose[:3, :3] = [[np.cos(0.1 * i), -np.sin(0.1 * i), 0], [np.sin(0.1 * i), np.cos(0.1 * i), 0], [0, 0, 1]]
    pose[:3, 3] = (0.5 * i, 0.2 * i, 0)
    return pose


@pytest.mark.parametrize("beside", ["local_frame", "global_frame"])
def test_asl_folders(tmp_path, beside):
    rng = np.random.default_rng(0)
    scans = tmp_path / "asl/gazebo_summer/local_frame"
    for folder in (scans, scans.with_name(beside)):
        folder.mkdir(parents=True, exist_ok=True)
    names = ", ".join(f"T{i}{j}" for i in range(4) for j in range(4))
    lines = [f"poseId, timestamp, {names}"]
    for i in range(24):
        rows = np.column_stack([np.zeros(2000), landscape(driving(i), rng, 2000), np.ones((2000, 3))])
        header = "timestamp,x,y,z,Intensities,2DscanId,PointId"
        np.savetxt(scans / f"Hokuyo_{i}.csv", rows, "%.5f", ",", header=header, comments="")
        lines.append(f"{i}, 0.5, " + ", ".join(f"{x:.6f}" for x in driving(i).ravel()))
    (scans.with_name(beside) / "pose_scanner_leica.csv").write_text("\n".join(lines) + "\n")
    counts = {split: len(dataset("outdoor", split, tmp_path)) for split in SPLITS}
    assert counts == {"train": 14, "val": 2, "test": 2}  # frames 0 to 15, 16 to 19, 20 to 23, two apart
    pair = dataset("outdoor", "test", tmp_path).make.args[0][0].assembly(0.9)
    assert pair.id == "gazebo_summer/20-22"
    np.testing.assert_allclose(pair.ref_from_src, inverse(driving(22)) @ driving(20), atol=1e-4)
    assert np.quantile(gaps(pair), 0.9) < 1.5
    table = scans.with_name(beside) / "pose_scanner_leica.csv"
    table.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(InputError, match=r"has no pose for Hokuyo_23\.csv"):
        dataset("outdoor", "test", tmp_path)
    table.write_text("\n".join([*lines[:3], "2, x" + ", 0" * 16]) + "\n")
    with pytest.raises(InputError, match="line 4: the pose is no rigid motion"):
        dataset("outdoor", "test", tmp_path)
    table.write_text("poseId, T00\n")
    with pytest.raises(InputError, match="has no column T01"):
        dataset("outdoor", "test", tmp_path)


@pytest.mark.parametrize("where", ["poses/07.txt", "sequences/07/poses.txt"])
def test_kitti_folders(tmp_path, where):
    rng = np.random.default_rng(0)
    sequence = tmp_path / "kitti/sequences/07"
    (sequence / "velodyne").mkdir(parents=True)
    (tmp_path / "kitti/poses").mkdir()
    camera_from_velodyne = random_pose(rng, 0.3)
    camera_poses = [driving(i) @ inverse(camera_from_velodyne) for i in range(24)]
    for i in range(24):
        rows = np.column_stack([landscape(driving(i), rng, 2000), np.ones(2000)]).astype(np.float32)
        rows.tofile(sequence / "velodyne" / f"{i:06d}.bin")
    lines = [" ".join(map(repr, pose[:3].ravel().tolist())) for pose in camera_poses]
    (tmp_path / "kitti" / where).write_text("\n".join(lines) + "\n")
    calibration = sequence / "calib.txt"
    row = " ".join(map(repr, camera_from_velodyne[:3].ravel().tolist()))
    calibration.write_text(f"P0: {' '.join('1' * 12)}\nTr: {row}\n")
    assert {split: len(dataset("outdoor", split, tmp_path)) for split in SPLITS} == {
        "train": 14,
        "val": 2,
        "test": 2,
    }
    pair = dataset("outdoor", "train", tmp_path).make.args[0][0].assembly(0.9)
    assert pair.id == "kitti07/0-2"
    np.testing.assert_allclose(pair.ref_from_src, inverse(driving(2)) @ driving(0), atol=1e-9)
    assert np.quantile(gaps(pair), 0.9) < 1.5
    calibration.write_text("P0: 1\n")
    with pytest.raises(InputError, match="has no row Tr:"):
        dataset("outdoor", "train", tmp_path)
    calibration.unlink()
    with pytest.raises(InputError, match=r"calib\.txt: no such file"):
        dataset("outdoor", "train", tmp_path)
    (tmp_path / "kitti" / where).write_text(lines[0])
    calibration.write_text(f"Tr: {row}\n")
    with pytest.raises(InputError, match="frame 1, but there are poses for 1 frames only"):
        dataset("outdoor", "train", tmp_path)
    (tmp_path / "kitti" / where).unlink()
    with pytest.raises(InputError, match="has no poses, expected"):
        dataset("outdoor", "train", tmp_path)


# pairs of scans


def test_red_kitchen_is_the_papers_test_set_and_nothing_else(real_data):
    test = dataset("indoor", "test", real_data)
    assert len(test) == 59
    assert {test.make.args[0][i].place for i in range(59)} == {"7-scenes-redkitchen"}
    for split in ("train", "val"):
        places = {pair.place for pair in dataset("indoor", split, real_data).make.args[0]}
        assert not any("kitchen" in place for place in places)


def test_no_scan_is_in_two_splits(real_data):
    scans = outdoor_sequences(real_data)
    numbers = {
        s: {(p, scan.number) for p, found in outdoor_split(scans, s).items() for scan in found}
        for s in SPLITS
    }
    assert all(not numbers[a] & numbers[b] for a, b in combinations(SPLITS, 2))
    listed = {f"{place}/{n}": s for s in SPLITS for place, n in numbers[s]}
    assert listed == frozen_splits("outdoor")


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_low_overlap_is_of_the_smaller_fragment_and_not_of_neighbours_only(real_data, split):
    pairs = dataset("indoor:low", split, real_data)
    assert len({pairs.make.args[0][i].id for i in range(len(pairs))}) == len(pairs)
    steps = [pair.reference.number - pair.source.number for pair in pairs.make.args[0]]
    assert min(steps) >= 1
    assert np.median(steps) > 2
    for i in range(0, len(pairs), 9):
        x, y = pairs[i].source.moved(pairs[i].ref_from_src).points, pairs[i].reference.points
        small, large = (x, y) if len(x) <= len(y) else (y, x)
        assert 0.09 < np.mean(cKDTree(large).query(small)[0] < 0.2) < 0.31


@pytest.mark.slow
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


def test_indoor_clouds_are_cropped_in_training_only(real_data):
    train, val = (dataset("indoor", split, real_data) for split in ("train", "val"))
    whole = [pair.assembly(0.1) for pair in train.make.args[0][:20]]
    shares = [len(train[i].source.points) / len(whole[i].source.points) for i in range(20)]
    assert 0.5 <= min(shares) < 0.7
    assert 0.8 < max(shares) <= 1
    assert len(val[0].source.points) == len(val.make.args[0][0].assembly(0.1).source.points)
