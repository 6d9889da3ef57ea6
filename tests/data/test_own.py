"""The user's own pairs: what is written comes back, and every bad row is named."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bitr.data import dataset
from bitr.data.own import listed_pairs, write_pairs
from bitr.data.poses import random_pose
from bitr.errors import InputError
from bitr.io import write
from tests.data.cases import answer_error, pair_of

POSE = random_pose(np.random.default_rng(0), 1.0)


@pytest.fixture
def pairs():
    rng = np.random.default_rng(0)
    made = [replace(pair_of(30, rng), id=f"pair {i}", unit="m") for i in range(3)]
    half_turn = np.diag([-1.0, -1.0, 1.0, 1.0])
    axis = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    return [*made[:2], replace(made[2], symmetry=np.stack([np.eye(4), half_turn]), axis=axis)]


@pytest.fixture
def folder(tmp_path, pairs):
    """A folder with a.npz, b.ply and pose.txt."""
    write(tmp_path / "a.npz", pairs[0].source)
    write(tmp_path / "b.ply", pairs[0].reference)
    np.savetxt(tmp_path / "pose.txt", POSE, fmt="%.17g")
    return tmp_path


def test_what_was_written_comes_back(tmp_path, pairs):
    manifest = write_pairs(tmp_path / "out", pairs, "train")
    for path in (manifest, manifest.parent):
        found = dataset(str(path), "train")
        assert [pair.id for pair in found] == [pair.id for pair in pairs]
        for pair, original in zip(found, pairs, strict=True):
            np.testing.assert_array_equal(pair.source.points, original.source.points)
            np.testing.assert_array_equal(pair.reference.normals, original.reference.normals)
            np.testing.assert_allclose(pair.ref_from_src, original.ref_from_src, atol=1e-15)
            assert pair.unit == "m"
            assert answer_error(pair) < 1e-9
    np.testing.assert_array_equal(found[2].symmetry, pairs[2].symmetry)
    np.testing.assert_array_equal(found[2].axis, pairs[2].axis)
    assert found[0].symmetry is None
    assert found[0].axis is None
    with pytest.raises(InputError, match="none of its 3 pairs is for test"):
        dataset(str(manifest))


def test_a_folder_with_files_is_not_written_to(tmp_path, pairs):
    (tmp_path / "out").mkdir()
    write_pairs(tmp_path / "out", pairs, "test")
    with pytest.raises(InputError, match="not an empty folder"):
        write_pairs(tmp_path / "out", pairs, "test")


def test_a_folder_that_was_not_finished_has_no_manifest(tmp_path, pairs):
    def broken():
        yield pairs[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_pairs(tmp_path / "out", broken(), "test")
    assert not (tmp_path / "out" / "pairs.jsonl").exists()


def test_folders_of_pairs_without_a_manifest(tmp_path, pairs):
    write_pairs(tmp_path / "out", pairs, "test")
    (tmp_path / "out" / "pairs.jsonl").unlink()
    for path in (tmp_path / "out", tmp_path / "out" / "pairs"):
        found = dataset(str(path))
        assert [pair.id for pair in found] == ["000000", "000001", "000002"]
        np.testing.assert_array_equal(found[2].symmetry, pairs[2].symmetry)
        np.testing.assert_array_equal(found[2].axis, pairs[2].axis)
        assert answer_error(found[1]) < 1e-9
    (tmp_path / "out" / "pairs").rename(tmp_path / "out" / "val")
    assert dataset(str(tmp_path / "out"), "val")[0].id == "val/000000"
    with pytest.raises(InputError, match=r"none of its 3 pairs is for train.*train/, val/ and test/"):
        dataset(str(tmp_path / "out"), "train")


def test_poses_in_a_file_or_in_the_row(folder):
    flat = POSE.ravel().tolist()
    inline = " ".join(map(repr, flat))
    commas = ",".join(map(repr, flat))
    (folder / "pairs.csv").write_text(
        f'source,reference,pose,split\na.npz,b.ply,pose.txt,\na.npz,b.ply,{inline},test\na.npz,b.ply,"{commas}",val\n'
    )
    rows = [{"source": "a.npz", "reference": "b.ply", "pose": p} for p in ("pose.txt", flat, POSE.tolist())]
    (folder / "more.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for found in (listed_pairs(folder / "pairs.csv"), listed_pairs(folder / "more.jsonl")):
        assert [pair.id for pair in found] == ["1", "2", "3"]
        for pair in found:
            np.testing.assert_allclose(pair.ref_from_src, POSE, atol=1e-12)
    assert len(dataset(str(folder / "pairs.csv"))) == 2
    assert len(dataset(str(folder / "pairs.csv"), "val")) == 1


GOOD = {"source": "a.npz", "reference": "b.ply", "pose": "pose.txt"}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"source": "a.npz", "reference": "b.ply"}, "line 3: found source, reference; expected source"),
        (GOOD | {"color": "red"}, "line 3: found source, reference, pose, color"),
        (GOOD | {"source": "c.npz"}, "line 3: .*c.npz: no such file"),
        (GOOD | {"reference": 7}, "line 3: found reference = 7"),
        (
            GOOD | {"pose": "poses.txt"},
            "line 3: .*poses.txt: no such file, expected a 4×4 pose",
        ),
        (GOOD | {"pose": "a.npz"}, "line 3: .*a.npz: cannot be read as text"),
        (GOOD | {"pose": [1, 2, 3]}, "line 3: found 3 numbers, expected 16"),
        (GOOD | {"pose": [0] * 16}, "line 3: the pose is no rigid motion"),
        (GOOD | {"pose": None}, "line 3: pose is empty, expected the name of a file"),
        (GOOD | {"source": ""}, "line 3: source is empty, expected the name of a file"),
        (GOOD | {"split": "testing"}, "line 3: found split = 'testing', expected one of train, val, test"),
        (GOOD | {"unit": 3}, "line 3: found unit = 3"),
        (GOOD | {"symmetry": "s.npy"}, "line 3: .*s.npy: no such file"),
        (GOOD | {"id": "1"}, "line 3: the id 1 is taken already"),
    ],
)
def test_a_bad_row_is_named_by_its_line(folder, row, says):
    path = folder / "pairs.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n\n{json.dumps(row)}\n")
    with pytest.raises(InputError, match=says) as raised:
        dataset(str(path))
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


def test_files_that_are_damaged_are_named_when_they_are_read(folder):
    (folder / "bad.ply").write_text("ply\nnonsense")
    (folder / "s.npy").write_text("nonsense")
    rows = [GOOD | {"source": "bad.ply"}, GOOD | {"symmetry": "s.npy"}]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for pair, name in zip(listed_pairs(folder), ("bad.ply", "s.npy"), strict=True):
        with pytest.raises(InputError, match=name):
            pair.load()


def test_an_axis_is_two_points(folder):
    np.save(folder / "axis.npy", np.zeros((3, 3)))
    (folder / "pairs.jsonl").write_text(json.dumps(GOOD | {"axis": "axis.npy"}))
    with pytest.raises(InputError, match=r"axis\.npy: float64 of the shape \(3, 3\), expected \(2, 3\)"):
        listed_pairs(folder)[0].load()


def test_a_folder_without_pairs_or_with_two_sources(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds no pairs, expected pairs\.csv"):
        dataset(str(tmp_path / "empty"))
    inner = tmp_path / "pairs" / "one"
    inner.mkdir(parents=True)
    np.savetxt(inner / "pose.txt", POSE)
    with pytest.raises(InputError, match=r"found none, expected one file source\.\*"):
        dataset(str(tmp_path / "pairs"))
    for suffix in ("npz", "ply"):
        write(inner / f"source.{suffix}", pair_of(10, np.random.default_rng(0)).source)
    with pytest.raises(InputError, match=r"found source\.npz, source\.ply, expected one file"):
        dataset(str(tmp_path / "pairs"))
