"""Puzzles of generated objects: reproducible, with the right places, foreign and missing pieces."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.spatial import cKDTree

from bitr.data import info
from bitr.data.generated import ManyConfig, puzzles
from bitr.errors import InputError

CUT = ManyConfig("cut", (4, 4), 0, 0, points=200, noise=0.0)


def in_place(case):
    pairs = zip(case.pieces, case.whole_from_piece, strict=True)
    return [piece.moved(place).points for piece, place in pairs]


def test_a_puzzle_depends_on_split_seed_and_number_alone(root):
    first, again = (puzzles("val", root, 3, CUT)[1] for _ in range(2))
    assert first.id == again.id == "val/1/cut-4"
    for a, b in zip(first.pieces, again.pieces, strict=True):
        assert_array_equal(a.points, b.points)
    other = puzzles("val", root, 4, CUT)[1]
    assert not np.array_equal(first.pieces[0].points, other.pieces[0].points)


def test_pieces_of_a_cut_have_all_points_of_the_object_and_touch(root):
    places = in_place(puzzles("val", root, 0, CUT)[0])
    assert sum(map(len, places)) == 4 * 200
    whole = np.concatenate(places)
    assert np.linalg.norm(whole, axis=1).max() < 1.3
    spacing = np.median(cKDTree(whole).query(whole, k=2)[0][:, 1])
    for k, own in enumerate(places):
        others = np.concatenate(places[:k] + places[k + 1 :])
        assert cKDTree(others).query(own)[0].min() < 4 * spacing


def test_pieces_of_a_fracture_lie_against_each_other(root):
    config = ManyConfig("fracture", (3, 3), 0, 0, points=600, noise=0.0)
    case = puzzles("val", root, 0, config)[0]
    assert len(case.pieces) == 3
    assert all(np.linalg.norm(piece.normals.mean(0)) < 0.2 for piece in case.pieces)
    places = in_place(case)
    nearest = [
        cKDTree(places[k]).query(np.concatenate(places[:k] + places[k + 1 :]))[0].min() for k in range(3)
    ]
    assert max(nearest) < 0.05


@pytest.mark.slow
def test_foreign_and_missing_pieces(root):
    case = puzzles("val", root, 0, ManyConfig("cut", (5, 5), 1, 1, points=100))[0]
    assert sorted(case.objects) == [0, 0, 0, 0, 1]
    mixed = [puzzles("val", root, seed, ManyConfig(points=60, kind="cut"))[0] for seed in range(8)]
    assert {sum(case.objects) for case in mixed} == {0, 1}
    assert len({len(case.pieces) for case in mixed}) > 3


def test_slices_are_the_same_puzzles(root):
    opened = puzzles("test", root, 0, CUT)
    assert opened[5:7][0].id == opened[5].id


def test_bad_settings_are_refused(root):
    with pytest.raises(InputError, match="pieces"):
        ManyConfig(pieces=(1, 4))
    with pytest.raises(InputError, match="no split"):
        puzzles("all", root)
    with pytest.raises(InputError, match=r"generated\.puzzles"):
        info("shapes:many")
