"""All data sets of the paper on real files: counts, answers checked by how the pieces meet, damaged files."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from bitr.data import dataset, datasets
from bitr.data.poses import random_pose
from bitr.data.storage import SPLITS, split_by_hash, split_of
from bitr.data.transforms import move
from bitr.errors import InputError
from tests.data.cases import gaps

COUNTS = {
    "bunny": (1000, 100, 100),
    "airplane": (260, 30, 42),
    "airplane:0.3": (260, 30, 42),
    "car-motorbike": (4720, 119, 60),
    "winebottle": (116, 18, 31),
    "winebottle:all": (500, 18, 31),
    "beerbottle": (78, 24, 48),
    "bottle": (187, 11, 39),
    "drinkbottle": (119, 25, 61),
    "pillbottle": (194, 23, 64),
    "wineglass": (204, 33, 31),
    "vase": (255, 34, 61),
    "mug": (185, 32, 80),
    "bowl": (315, 18, 79),
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


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_counts(real_data, name):
    assert tuple(len(dataset(name, split, real_data)) for split in SPLITS) == COUNTS[name]


@pytest.mark.slow
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


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("name", "reach"), [("indoor", 0.1), ("outdoor", 0.9), ("airplane", 0.06)])
def test_overlapping_pairs_meet_in_their_place(real_data, name, reach, split):
    """The nearest neighbour is about a spacing away; for a source turned about its middle, it is not."""
    pairs = dataset(name, split, real_data)
    rows = range(0, len(pairs), max(1, len(pairs) // 10))
    # indoor clouds are cropped in training, and then need not overlap
    found = [pairs.make.args[0][i].assembly(0.1) if name == "indoor" else pairs[i] for i in rows]
    right = np.array([np.quantile(gaps(pair), 0.3) for pair in found])
    assert np.mean(right < reach) > 0.7
    wrong = [np.quantile(gaps(replace(pair, source=turned(pair))), 0.3) for pair in found]
    assert np.median(wrong) > 1.5 * np.median(right)


def test_bunny_is_cut_as_the_paper_says(real_data):
    pair = dataset("bunny", "test", real_data)[0]
    assert (len(pair.source.points), len(pair.reference.points)) == (674, 1574)  # 30 and 70% of 2048 + 200
    x, y = pair.source.moved(pair.ref_from_src).points, pair.reference.points
    sign = np.repeat([1, -1], [len(x), len(y)])[:, None]
    rows = np.concatenate([sign * np.concatenate([x, y]), sign], axis=1)
    found = linprog(np.zeros(4), A_ub=rows, b_ub=np.full(len(rows), -1e-9), bounds=[(None, None)] * 4)
    assert found.success  # a plane lies between them


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
