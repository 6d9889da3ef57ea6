"""Broken bottles: Breaking Bad's formats from small files, splits and surfaces on real ones."""

from itertools import combinations

import numpy as np
import pytest

from bitr.data import dataset
from bitr.data.fragments import CLASSES, fractures, merge
from bitr.data.storage import SPLITS, frozen_splits, split_by_hash, split_of
from bitr.errors import InputError
from bitr.io import Geometry, write
from tests.data.cases import box, gaps


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
    files = list((tmp_path / "cache").rglob("*.arrays"))
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


def test_wine_bottles_give_165_pairs_on_10_shapes(real_data):
    found = fractures("winebottle", real_data)
    assert len(found) == len({f.id for f in found}) == 165
    assert len({f.shape for f in found}) == 10
    assert sum("/native/" in f.id for f in found) == 9  # one bottle broke into nearly the whole and a chip


def test_all_bottles_train_but_only_wine_bottles_are_tested(real_data):
    shapes = {s: {f.shape for f in dataset("winebottle:all", s, real_data).make.fractures} for s in SPLITS}
    assert shapes["test"] == {f.shape for f in dataset("winebottle", "test", real_data).make.fractures}
    assert shapes["train"] > {f.shape for f in dataset("winebottle", "train", real_data).make.fractures}
    assert all(not shapes[a] & shapes[b] for a, b in combinations(SPLITS, 2))


@pytest.mark.parametrize("name", CLASSES)
def test_no_bottle_is_in_two_splits_of_any_class(real_data, name):
    of_class = {f.shape: split_of(name, f.shape) for f in fractures(name, real_data)}
    assert of_class == frozen_splits(name)
    for other in CLASSES:
        for shape, split in frozen_splits(other).items():
            assert of_class.get(shape, split) == split


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
