"""Metrics of puzzles on answers that are right, turned, apart and mixed up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bitr.assembly.puzzle import Puzzle
from bitr.data.poses import PuzzleCase, inverse, random_pose
from bitr.evaluation.puzzles import STUDIES, Job, Study, score_puzzle, solve_study, summarise
from bitr.io import Geometry


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    places = np.stack([random_pose(rng, 1.0) for _ in range(4)])
    pieces = tuple(Geometry(rng.normal(size=(40, 3)) * (1 + k)) for k in range(4))
    return PuzzleCase(pieces, places, (0, 0, 0, 1), "case")


def answer(case, groups, left_over, poses=None):
    poses = inverse(case.whole_from_piece[2]) @ case.whole_from_piece if poses is None else poses
    names = tuple(str(k) for k in range(len(case.pieces)))
    return Puzzle(names, poses, groups, left_over, (1.0,) * 4, (), (), 0.0, "none", ())


def test_the_true_places_are_right(case):
    score = score_puzzle(case, answer(case, ((2, 1, 0),), (3,)))
    assert (score.pieces, score.right, score.beside_largest, score.is_solved) == (3, 3, 2, True)
    assert score.pair_degrees < 1e-4
    assert (score.foreign, score.kept_out) == (1, 1)


def test_one_turned_piece_is_wrong_beside_all_others(case):
    poses = inverse(case.whole_from_piece[2]) @ case.whole_from_piece
    poses[0] = poses[0] @ np.diag([-1.0, -1.0, 1.0, 1.0])
    score = score_puzzle(case, answer(case, ((2, 1, 0),), (3,), poses))
    assert (score.right, score.beside_largest, score.is_solved) == (2, 1, False)
    assert score.pair_degrees == pytest.approx(120, abs=1e-3)


def test_a_place_counts_only_within_a_group(case):
    score = score_puzzle(case, answer(case, ((2, 1),), (0, 3)))
    assert (score.right, score.kept_out) == (2, 1)
    nothing = score_puzzle(case, answer(case, (), (2, 1, 0, 3)))
    assert nothing.right == 0


def test_a_foreign_piece_in_the_group_is_not_kept_out(case):
    assert score_puzzle(case, answer(case, ((2, 1, 0, 3),), ())).kept_out == 0


def test_the_score_does_not_change_when_the_pieces_move(case):
    rng = np.random.default_rng(1)
    motions = [random_pose(rng, 3.0) for _ in case.pieces]
    moved = replace(
        case,
        pieces=tuple(piece.moved(motion) for piece, motion in zip(case.pieces, motions, strict=True)),
        whole_from_piece=np.stack(
            [p @ inverse(m) for p, m in zip(case.whole_from_piece, motions, strict=True)]
        ),
    )
    found = answer(case, ((2, 1, 0),), (3,), np.stack([random_pose(rng, 1.0) for _ in range(4)]))
    poses = np.stack([pose @ inverse(m) for pose, m in zip(found.poses, motions, strict=True)])
    before, after = score_puzzle(case, found), score_puzzle(moved, replace(found, poses=poses))
    assert after.pair_degrees == pytest.approx(before.pair_degrees)
    assert after.worst_shift == pytest.approx(before.worst_shift)


def test_a_summary_counts_pieces_not_puzzles(case):
    right, none = (score_puzzle(case, answer(case, *a)) for a in ((((2, 1, 0),), (3,)), ((), (2, 1, 0, 3))))
    told = summarise([right, none])
    assert (told["puzzles"], told["pieces_right"], told["solved"], told["kept_out"]) == (2, 0.5, 0.5, 1.0)


def test_both_pots_of_a_box_are_scored(case, tmp_path, monkeypatch):
    found = answer(case, ((2, 1, 0),), (3,))
    pots = replace(case, objects=(0, 0, 1, 1))
    study = Study(lambda root, split, seed, i: pots, 2, lambda case, workshop: found, is_double=True)
    monkeypatch.setitem(STUDIES, "pots", study)
    solved = list(solve_study("pots", 2, Job(tmp_path)))
    assert [[score.right for score in each.scores] for each in solved] == [[2, 0]] * 2
