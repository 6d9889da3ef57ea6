"""The official formats, from small files that are made here in their image."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from bitr.data import dataset
from bitr.data.fragments import merge
from bitr.data.poses import inverse, random_pose
from bitr.data.scan_formats import back_project, read_depth_scene, read_fragment
from bitr.data.scans import indoor_scenes
from bitr.data.shapenet import AIRPLANE, CAR, MOTORBIKE, shapenet_models
from bitr.data.storage import SPLITS, split_by_hash
from bitr.errors import InputError
from bitr.io import Geometry, write
from tests.data.cases import gaps


def box(size=(1.0, 1.0, 1.0), at=(0.0, 0.0, 0.0)):
    """A closed box of twelve triangles."""
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))])
    return Geometry(corners * size + at, faces=faces, name="box")


def room(n, rng):
    """Points on the floor and two walls of a room, 6 × 5 × 3 m."""
    points = rng.uniform(0, 1, (n, 3)) * (6, 5, 3)
    points[np.arange(n), rng.integers(0, 3, n)] = 0
    return points


def pose_text(pose):
    return "\n".join(" ".join(f"{x:.8f}" for x in row) for row in pose)


# ShapeNetCore


@pytest.fixture
def shapenet(tmp_path):
    for synset, size in ((AIRPLANE, (1, 0.3, 2)), (CAR, (0.5, 0.4, 1)), (MOTORBIKE, (0.2, 0.5, 1))):
        for i in range(12):
            models = tmp_path / "shapenet" / synset / f"model{i}" / "models"
            models.mkdir(parents=True)
            write(models / "model_normalized.obj", box(size, (0, 0, i)))
    return tmp_path


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
    car = next(shapenet_models(shapenet, CAR)).load()
    extent = np.ptp(car.points, axis=0)
    np.testing.assert_allclose(extent / extent[0], (1, 0.4, 0.5), atol=1e-12)
    assert np.linalg.norm(car.points, axis=1).max() == pytest.approx(1)
    (shapenet / "ShapeNetCore.v1" / CAR / "one").mkdir(parents=True)
    os.rename(shapenet / "shapenet", shapenet / "other")
    write(shapenet / "ShapeNetCore.v1" / CAR / "one" / "model.obj", box((0.5, 0.4, 1)))
    old = next(shapenet_models(shapenet, CAR)).load()
    np.testing.assert_allclose(
        np.ptp(old.points, axis=0) / np.ptp(old.points[:, 2]), (0.5, 0.4, 1), atol=1e-12
    )


def test_genuine_shapenet_files_are_read(real_data, tmp_path):
    mug = real_data / "shapenet_modelnet_samples/shapenet_03797390_mug_ea127b5b.obj"
    models = tmp_path / "shapenet" / AIRPLANE / "a mug" / "models"
    models.mkdir(parents=True)
    (models / "model_normalized.obj").symlink_to(mug)
    loaded = next(shapenet_models(tmp_path, AIRPLANE)).load()
    assert loaded.faces is not None
    assert len(loaded.points) > 1000


# Breaking Bad


@pytest.mark.parametrize("suffix", ["obj", "glb"])
def test_breaking_bad_folders(tmp_path, suffix):
    """Boxes that were cut in two: the fragments meet where they were cut."""
    for i in range(12):
        folder = tmp_path / "breaking_bad/everyday/WineBottle" / f"shape{i}" / "fractured_0"
        folder.mkdir(parents=True)
        write(folder / f"piece_0.{suffix}", box((0.3, 0.3, 0.2)))
        write(folder / f"piece_1.{suffix}", box((0.3, 0.3, 0.6), (0, 0, 0.2)))
        three = folder.with_name("fractured_1")
        three.mkdir()
        for k in range(3):
            write(three / f"piece_{k}.{suffix}", box((0.3, 0.3, 0.2), (0, 0, 0.2 * k)))
    pairs = dataset("winebottle", "train", tmp_path)
    assert all(split_by_hash(pair.id.split("/")[0]) == "train" for pair in pairs)
    pair = pairs[0]
    assert pair.id.endswith("fractured_0/native/0+1")  # only those in two pieces
    assert (gaps(pair) < 0.02).mean() > 0.15  # the cut is a sixth of the small box's surface or more
    assert 700 < len(pair.source.points) + len(pair.reference.points) < 5000
    assert np.isclose(np.linalg.norm(pair.source.normals, axis=1), 1).all()


def test_surfaces_of_fragments_are_stored_and_the_same_when_read_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for i in range(4):
        folder = tmp_path / "data/breaking_bad/everyday/WineBottle" / f"shape{i}" / "fractured_0"
        folder.mkdir(parents=True)
        write(folder / "piece_0.ply", box((0.3, 0.3, 0.2)))
        write(folder / "piece_1.ply", box((0.3, 0.3, 0.6), (0, 0, 0.2)))
    made = dataset("winebottle", "train", tmp_path / "data")[0]
    files = list((tmp_path / "cache").rglob("*.npz"))
    assert files
    again = dataset("winebottle", "train", tmp_path / "data")[0]
    assert np.array_equal(again.source.points, made.source.points)
    assert np.array_equal(again.source.normals, made.source.normals)
    for file in files:
        file.write_bytes(b"not an archive")  # is made anew
    again = dataset("winebottle", "train", tmp_path / "data")[0]
    assert np.array_equal(again.source.points, made.source.points)


def test_coincident_faces_are_dropped_when_pieces_are_merged():
    left, right = box(), box(at=(1, 0, 0))
    whole = merge([left, right], "two boxes")
    assert len(whole.faces) == 20  # of 24, the four of the common side are inside
    assert len(whole.points) == 12
    with pytest.raises(InputError, match="every face is there twice"):
        merge([left, left], "the same box twice")
    with pytest.raises(InputError, match="expected a mesh"):
        merge([Geometry(left.points)], "points")


def test_an_index_without_its_meshes_is_named(tmp_path):
    (tmp_path / "breaking_bad").mkdir()
    (tmp_path / "breaking_bad/winebottle_index.json").write_text("[]")
    with pytest.raises(InputError, match=r"winebottle_meshes\.npz: no such file"):
        dataset("winebottle", root=tmp_path)


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
    numbers = [(pair.source.number, pair.reference.number) for pair in pairs.make.pairs]
    assert numbers == [(i, i + 1) for i in range(11)]  # by number, not by name
    for i in (0, 9):
        pair = pairs.make.pairs[i].assembly(0.1)
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


# Depth images

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
    pair = pairs.make.pairs[0].assembly(0.1)
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


# Laser scans


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
    pair = dataset("outdoor", "test", tmp_path).make.pairs[0].assembly(0.9)
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
    pair = dataset("outdoor", "train", tmp_path).make.pairs[0].assembly(0.9)
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


# npz files


def test_npz_files_that_do_not_fit_are_named(tmp_path):
    (tmp_path / "airplane").mkdir()
    path = tmp_path / "airplane/a.npz"
    for arrays, says in (
        ({"points": np.zeros((2, 9, 3))}, "holds no names"),
        ({"points": np.zeros((2, 9)), "names": ["a", "b"]}, "expected \\(2, n, 3\\)"),
        ({"points": np.zeros((3, 9, 3)), "names": ["a", "b"]}, "expected \\(2, n, 3\\)"),
        ({"points": np.zeros((1, 9, 3)), "names": np.array([object()])}, "damaged or not an npz"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(InputError, match=says):
            dataset("airplane", "train", tmp_path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="damaged or not an npz"):
        dataset("airplane", "train", tmp_path)
    (tmp_path / "outdoor_lidar").mkdir()
    arrays = {"points": np.zeros((9, 3)), "offsets": [0, 5], "poses": np.eye(4)[None], "ids": [3]}
    np.savez(tmp_path / "outdoor_lidar/x_grid1.npz", **arrays)
    with pytest.raises(InputError, match="do not fit together"):
        dataset("outdoor", "train", tmp_path)
