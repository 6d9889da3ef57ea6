"""Broken bottles: Breaking Bad's formats from small files, splits and surfaces on real ones."""

import json
from itertools import combinations

import numpy as np
import pytest

from bitr.data import dataset
from bitr.data.fragments import CLASSES, bottle_puzzle, bottle_puzzles, fractures, merge
from bitr.data.storage import SPLITS, frozen_splits, split_by_hash, split_of
from bitr.errors import InputError
from bitr.io import Geometry, write
from tests.data.cases import box, gaps


@pytest.mark.slow
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


# the official lists


def write_official(root, subset="everyday", shapes=12):
    """Breaking Bad's layout: a list of shapes, and folders of fractures in two and in three pieces."""
    home = root / "breaking_bad"
    names = [f"{subset}/{'Bowl/' if subset == 'everyday' else ''}object{i}" for i in range(shapes)]
    for name in names:
        for fracture in ("fractured_0", "fractured_1", "mode_0"):
            folder = home / name / fracture
            folder.mkdir(parents=True)
            write(folder / "piece_0.obj", box((0.3, 0.3, 0.1)))
            write(folder / "piece_1.obj", box((0.3, 0.3, 0.6), (0, 0, 0.1)))
            if fracture == "fractured_1":
                write(folder / "piece_2.obj", box((0.3, 0.3, 0.1), (0, 0, 0.7)))
    (home / "data_split").mkdir()
    (home / f"data_split/{subset}.train.txt").write_text("".join(f"{name}\n" for name in names[:-2]))
    (home / f"data_split/{subset}.val.txt").write_text("\n".join(names[-2:]))
    return home


@pytest.mark.parametrize("subset", ["everyday", "artifact"])
def test_official_lists_give_the_pairs_of_two_pieces(tmp_path, subset):
    write_official(tmp_path, subset)
    found = {split: dataset(subset, split, tmp_path) for split in SPLITS}
    ids = {split: {pair.id for pair in pairs} for split, pairs in found.items()}
    within = "everyday/Bowl/" if subset == "everyday" else "artifact/"
    assert ids["test"] == {
        f"{within}object{i}/{frac}" for i in (10, 11) for frac in ("fractured_0", "mode_0")
    }
    assert len(ids["train"]) + len(ids["val"]) == 20  # ten shapes of the list to train with
    shapes = {split: {id.rpartition("/")[0] for id in ids[split]} for split in SPLITS}
    assert all(not shapes[a] & shapes[b] for a, b in combinations(SPLITS, 2))


def test_pieces_of_a_list_share_5000_points_by_area_and_meet(tmp_path):
    write_official(tmp_path)
    pair = dataset("everyday", "test", tmp_path)[0]
    areas = 2 * 0.09 + 4 * 0.03, 2 * 0.09 + 4 * 0.18  # 0.3 × 0.3 × 0.1 and 0.3 × 0.3 × 0.6
    assert len(pair.source.points) == round(5000 * areas[0] / sum(areas))
    assert len(pair.source.points) + len(pair.reference.points) == 5000
    assert (gaps(pair) < 0.02).mean() > 0.25  # the broken face is 0.09 of 0.3
    assert np.isclose(np.linalg.norm(pair.source.normals, axis=1), 1).all()


def test_lists_of_fractures_with_their_numbers_of_pieces_are_read(tmp_path):
    home = write_official(tmp_path)
    (home / "data_split/everyday.val.txt").unlink()
    (home / "data_list").mkdir()
    lines = "2 everyday/Bowl/object3/fractured_0\n3 everyday/Bowl/object3/fractured_1\n"
    (home / "data_list/everyday_val.txt").write_text(lines)
    assert [pair.id for pair in dataset("everyday", "test", tmp_path)] == [
        "everyday/Bowl/object3/fractured_0"
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("everyday/Bowl/object99", r"everyday\.val\.txt, line 2: no folder .*object99; unpack all"),
        ("artifact/object1", r"line 2: found 'artifact/object1', expected everyday/…/SHAPE"),
        ("two everyday/Bowl/object1", "line 2: found 'two everyday/Bowl/object1', expected"),
        ("everyday/../../secret", "line 2: found 'everyday/../../secret', expected"),
        ("2 everyday/Bowl/object1/fractured_1", "has 3 pieces, expected the 2 that the list says"),
    ],
)
def test_a_line_that_does_not_fit_the_files_is_named(tmp_path, line, says):
    home = write_official(tmp_path)
    (home / "data_split/everyday.val.txt").write_text(f"everyday/Bowl/object1\n{line}\n")
    with pytest.raises(InputError, match=says):
        dataset("everyday", "test", tmp_path)


def test_a_list_without_unpacked_shapes_says_what_to_run(tmp_path):
    home = write_official(tmp_path)
    (home / "everyday").rename(home / "everyday_compressed")
    with pytest.raises(InputError, match=r"run Breaking Bad's decompress\.py"):
        dataset("everyday", "test", tmp_path)
    (home / "data_split/everyday.val.txt").unlink()
    with pytest.raises(InputError, match=r"everyday: no everyday\.val\.txt below"):
        dataset("everyday", "test", tmp_path)


# pieces and their files


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


def test_a_bottle_in_many_pieces_is_a_puzzle_without_its_chips(tmp_path):
    (tmp_path / "breaking_bad").mkdir()
    pieces = [box((0.3, 0.3, 0.2), (0, 0, 0.2 * k)) for k in range(4)]
    arrays = {f"shape/mode_0/{k}/v": piece.points for k, piece in enumerate(pieces)}
    arrays |= {f"shape/mode_0/{k}/f": piece.faces for k, piece in enumerate(pieces)}
    np.savez(tmp_path / "breaking_bad/winebottle_meshes.npz", **arrays)
    entry = {
        "shape": "shape",
        "fracture": "mode_0",
        "pieces": 4,
        "kept_pieces": [0, 1, 3],
        "bipartitions": [],
    }
    two = entry | {"kept_pieces": [0, 1]}
    (tmp_path / "breaking_bad/winebottle_index.json").write_text(json.dumps([two, entry]))
    split = split_of("winebottle", "shape")
    assert [f.id for f in bottle_puzzles(tmp_path, split)] == ["winebottle/shape/mode_0"]
    case = bottle_puzzle(tmp_path, split, 0)
    heights = [p.moved(g).points[:, 2] for p, g in zip(case.pieces, case.whole_from_piece, strict=True)]
    assert [round(float(z.min()), 1) for z in heights] == [0.0, 0.2, 0.6]
    assert np.array_equal(bottle_puzzle(tmp_path, split, 0).pieces[0].points, case.pieces[0].points)
    with pytest.raises(InputError, match="none of the split"):
        bottle_puzzles(tmp_path, next(s for s in SPLITS if s != split))


def test_wine_bottles_give_165_pairs_on_10_shapes(real_data):
    found = fractures("winebottle", real_data)
    assert len(found) == len({f.id for f in found}) == 165
    assert len({f.shape for f in found}) == 10
    assert sum("/native/" in f.id for f in found) == 9  # one bottle broke into nearly the whole and a chip


def test_all_bottles_train_but_only_wine_bottles_are_tested(real_data):
    shapes = {s: {f.shape for f in dataset("winebottle:all", s, real_data).make.args[0]} for s in SPLITS}
    assert shapes["test"] == {f.shape for f in dataset("winebottle", "test", real_data).make.args[0]}
    assert shapes["train"] > {f.shape for f in dataset("winebottle", "train", real_data).make.args[0]}
    assert all(not shapes[a] & shapes[b] for a, b in combinations(SPLITS, 2))


@pytest.mark.parametrize("name", CLASSES)
def test_no_bottle_is_in_two_splits_of_any_class(real_data, name):
    of_class = {f.shape: split_of(name, f.shape) for f in fractures(name, real_data)}
    assert of_class == frozen_splits(name)
    for other in CLASSES:
        for shape, split in frozen_splits(other).items():
            assert of_class.get(shape, split) == split


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_fragments_touch_in_their_place(real_data, name):
    """The surfaces of a break meet: some points of the source are as close to the reference as its own."""
    for i in (0, 5, 10):
        distances = gaps(dataset(name, "test", real_data)[i])
        assert (distances < 0.02).sum() >= 5
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
