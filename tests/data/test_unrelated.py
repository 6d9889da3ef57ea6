"""Pieces that do not belong together."""

import numpy as np
import pytest

from bitr.data import dataset
from bitr.data.openshapes import KINDS, RATIO, family
from bitr.data.own import write_pairs
from bitr.data.storage import SPLITS, split_by_hash
from bitr.data.transforms import move
from bitr.errors import InputError
from bitr.evaluation.metrics import is_right
from tests.data.cases import pair_of
from tests.data.test_openshapes import WORDS, write_openshapes


def size(piece):
    return np.linalg.norm(piece.points - piece.points.mean(0), axis=1).max()


def write_rooms(root, scene, rng):
    """Five fragments of a room."""
    (root / "indoor_3dmatch").mkdir(exist_ok=True)
    np.savez(
        root / f"indoor_3dmatch/{scene}_grid0.1.npz",
        points=rng.uniform(-2, 2, (5 * 500, 3)),
        offsets=500 * np.arange(6),
        poses=np.tile(np.eye(4), (5, 1, 1)),
        ids=np.arange(5),
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    (folder / "generated").mkdir()
    write_openshapes(folder, [f"someone/pack:models/{word}_{k}.obj" for word in WORDS for k in range(3)])
    rng = np.random.default_rng(0)
    for scene in ("7-scenes-redkitchen", "7-scenes-stairs", "7-scenes-chess", "7-scenes-fire"):
        write_rooms(folder, scene, rng)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS[1:])
def test_no_pose_is_right(root, split):
    pairs = dataset("unrelated", split, root)
    assert len(pairs) == {"val": 200, "test": 100}[split]
    for i in range(len(KINDS)):
        pair = pairs[i]
        assert pair.id == f"{split}/{i}/{KINDS[i]}"
        assert not pair.related
        np.testing.assert_array_equal(pair.ref_from_src, np.eye(4))
        assert not is_right(pair, pair.ref_from_src)
        assert not move(pair, pair.ref_from_src, pair.ref_from_src).related


@pytest.mark.slow
def test_pieces_of_different_broken_things_are_closed_and_of_no_room(root):
    pairs = dataset("unrelated:broken", "val", root)
    assert [pairs[i].id for i in range(3)] == ["val/0/open", "val/1/generated", "val/2/mixed"]
    for i in range(3):
        assert not pairs[i].related
        for side in (pairs[i].source, pairs[i].reference):
            assert np.linalg.norm(side.normals.mean(0)) < 0.15


def test_no_other_kind_of_unrelated_pairs_is_known(root):
    with pytest.raises(InputError, match="unrelated:cut: expected broken"):
        dataset("unrelated:cut", "val", root)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["unrelated", "unrelated:broken"])
def test_size_does_not_tell(root, name):
    pairs = dataset(name, "val", root)
    for i in range(12):
        ratio = size(pairs[i].source) / size(pairs[i].reference)
        assert 1 / (1.01 * RATIO) < ratio < 1.01 * RATIO
    assert [pairs[i].unit for i in range(4)] == (["", "", "m", ""] if name == "unrelated" else [""] * 4)


def test_both_sides_are_of_different_families(root):
    drawn = dataset("unrelated", "train", root).make.open[0]
    families = {drawn.family(n) for n in range(len(drawn.objects))}
    assert len(families) > 1
    assert all(split_by_hash(name) == "train" for name in families)
    assert drawn.family(0) == drawn.family(len(drawn.objects))
    assert family("someone/pack:models/anchor_0.obj") == "someone/anchor"


@pytest.mark.slow
def test_pairs_depend_on_their_number_and_seed_alone(root):
    one, again, other = (dataset("unrelated", "train", root, seed)[2] for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.source.points, again.source.points)
    assert one.source.points.shape != other.source.points.shape or not np.allclose(
        one.source.points, other.source.points
    )


def test_one_scene_is_not_enough(tmp_path):
    write_openshapes(tmp_path, ["a/b:anchor.obj"])
    write_rooms(tmp_path, "7-scenes-chess", np.random.default_rng(0))
    with pytest.raises(InputError, match="the scenes of train are 7-scenes-chess, expected two or more"):
        dataset("unrelated", "train", tmp_path)


def test_related_is_the_default_and_is_judged_as_before():
    pair = pair_of(200, np.random.default_rng(0))
    assert pair.related
    assert is_right(pair, pair.ref_from_src)


@pytest.mark.slow
def test_they_are_not_written_as_pairs_with_a_pose(root, tmp_path):
    with pytest.raises(InputError, match="test/0/open: its pieces do not belong together"):
        write_pairs(tmp_path / "out", [dataset("unrelated", "test", root)[0]], "test")


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_real_rooms_are_of_different_scenes(real_data, split):
    made = dataset("unrelated", split, real_data).make
    assert len({*made.rooms, *made.other_rooms}) > 1
    if split == "train":
        assert not any("kitchen" in place for place in {*made.rooms, *made.other_rooms})
    if split == "test":
        assert set(made.rooms) == {"7-scenes-redkitchen"}
