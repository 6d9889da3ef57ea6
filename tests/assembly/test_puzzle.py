"""Puzzles: the laws of the whole, what is left over, and runs that were stopped."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.spatial import cKDTree

import bitr
from bitr.assembly.batch import FIELDS
from bitr.assembly.graph import Graph, Part, find_groups, synchronised
from bitr.assembly.puzzle import Puzzle, Workshop, choose_pairs, merge, solve_puzzle, thinned
from bitr.data import bumpy_shape
from bitr.data.generated.dataset import cut_by_planes
from bitr.data.poses import inverse, random_pose
from bitr.errors import InputError
from bitr.io import Geometry
from tests.assembly.rows import row_of
from tests.pieces import model_file, scaled, two_pieces

ASSETS = resources.files("bitr") / "assets"


def shell(count: int, seed: int = 0, points: int = 900) -> list[Geometry]:
    """A bumpy shell, cut by planes; all pieces in place, and of different sizes."""
    whole = bumpy_shape(points, torch.Generator().manual_seed(seed)).double().numpy()
    return cut_by_planes(Geometry(whole), count, np.random.default_rng(seed))


def whole_row(poses, confidence, **changes):
    """A row of a pair with all its fields."""
    first = poses[0].tolist() if len(poses) else None
    return dict.fromkeys(FIELDS) | row_of(poses, confidence) | {"transformation": first, **changes}


def failed_row(**named):
    return dict.fromkeys(FIELDS) | {"status": "error", "error": "odd", **named}


class Known:
    """Compares pieces that were moved from their places: right hypotheses with chances, and wrong ones."""

    model = "known"

    def __init__(self, motions, chances, factor=1.0):
        self.motions, self.chances, self.factor, self.looks = motions, chances, factor, []

    def compare(self, parts, pairs, is_full):
        if pairs:
            self.looks.append((len(parts), is_full))
        return {(i, j): self._row(parts[i], parts[j]) for i, j in pairs}

    def close(self):
        """Nothing was started."""

    def _row(self, first, second):
        if len(first.places) + len(second.places) > 2:
            return whole_row([], 0.01)
        (a,), (b,) = first.places, second.places
        rng = np.random.default_rng([min(a, b), max(a, b)])
        wrong = random_pose(rng, 2.0) if a < b else inverse(random_pose(rng, 2.0))
        poses = [np.eye(4), wrong] if self.chances.get((min(a, b), max(a, b))) else [wrong, 2 * wrong - wrong]
        moved = [self.motions[a] @ scaled(pose, self.factor) @ inverse(self.motions[b]) for pose in poses]
        return whole_row(moved, self.chances.get((min(a, b), max(a, b)), 0.03))


def placed(pieces, motions, factor=1.0):
    return [
        replace(piece, points=factor * piece.points).moved(motion)
        for piece, motion in zip(pieces, motions, strict=True)
    ]


CHANCES = {(0, 1): 0.97, (1, 2): 0.96, (2, 3): 0.95}


@pytest.fixture(scope="module")
def pieces():
    return shell(5)


@pytest.fixture(scope="module")
def plain(pieces):
    still = [np.eye(4)] * 5
    return solve_puzzle(pieces, Known(still, CHANCES))


def test_a_foreign_piece_is_left_over_and_the_others_are_in_place(plain):
    assert [set(group) for group in plain.groups] == [{0, 1, 2, 3}]
    assert plain.left_over == (4,)
    assert plain.largest == plain.groups[0][0]
    assert_allclose(plain.poses[:4], np.tile(np.eye(4), (4, 1, 1)), atol=1e-9)
    assert min(plain.confidence[:4]) > 0.9 > 0.5 > plain.confidence[4]
    assert {(joint.first, joint.second) for joint in plain.joints} <= {
        (a, b) for a in range(4) for b in range(4)
    }
    assert [joint.confidence for joint in plain.joints] == sorted(
        (j.confidence for j in plain.joints), reverse=True
    )


def test_moving_the_pieces_moves_their_poses_and_changes_nothing_else(pieces, plain):
    rng = np.random.default_rng(3)
    motions = [random_pose(rng, 2.0) for _ in pieces]
    found = solve_puzzle(placed(pieces, motions), Known(motions, CHANCES))
    root = found.largest
    expected = np.stack([motions[root] @ plain.poses[k] @ inverse(motions[k]) for k in range(4)])
    assert_allclose(found.poses[:4], expected, atol=1e-8)
    assert (found.groups, found.left_over) == (plain.groups, plain.left_over)
    assert_allclose(found.confidence, plain.confidence, atol=1e-6)


@pytest.mark.parametrize("factor", [1e-3, 250.0])
def test_scaling_all_pieces_scales_the_answer(pieces, plain, factor):
    still = [np.eye(4)] * 5
    found = solve_puzzle(placed(pieces, still, factor), Known(still, CHANCES, factor))
    for k in range(5):
        assert_allclose(found.poses[k], scaled(plain.poses[k], factor), atol=1e-8 * factor)
    assert (found.groups, found.left_over) == (plain.groups, plain.left_over)
    assert_allclose(found.confidence, plain.confidence, atol=1e-6)


def test_the_order_of_the_pieces_does_not_matter(pieces, plain):
    order = [3, 0, 4, 2, 1]  # piece order[n] of before is now piece n

    class Renamed(Known):
        def _row(self, first, second):
            named = [
                Part(p.geometry, {order[n]: m for n, m in p.places.items()}, p.sample)
                for p in (first, second)
            ]
            return super()._row(*named)

    found = solve_puzzle([pieces[k] for k in order], Renamed([np.eye(4)] * 5, CHANCES))
    assert [tuple(order[n] for n in group) for group in found.groups] == list(plain.groups)
    assert_allclose(found.poses, plain.poses[order], atol=1e-12)
    assert_allclose(found.confidence, np.array(plain.confidence)[order], atol=1e-12)


def test_two_objects_come_out_as_two_groups(pieces):
    found = solve_puzzle(pieces, Known([np.eye(4)] * 5, {(0, 1): 0.97, (2, 3): 0.97, (3, 4): 0.97}))
    assert sorted(sorted(group) for group in found.groups) == [[0, 1], [2, 3, 4]]
    assert found.left_over == ()
    assert np.array_equal(found.poses[found.largest], np.eye(4))
    for root, *others in found.groups:
        for k in others:
            assert_allclose(inverse(found.poses[root]) @ found.poses[k], np.eye(4), atol=1e-9)


def test_doubtful_hypotheses_say_where_other_groups_and_pieces_that_are_left_over_stand(pieces):
    """Also where only another doubtful piece joins them to the first group."""
    rng = np.random.default_rng(4)
    motions = [random_pose(rng, 2.0) for _ in pieces]
    chances = {(0, 1): 0.97, (3, 4): 0.97, (1, 2): 0.2, (2, 3): 0.2}
    found = solve_puzzle(placed(pieces, motions), Known(motions, chances))
    assert sorted(sorted(group) for group in found.groups) == [[0, 1], [3, 4]]
    assert found.left_over == (2,)
    expected = [motions[found.largest] @ inverse(motion) for motion in motions]
    assert_allclose(found.poses, expected, atol=1e-9)
    assert found.confidence[2] < 0.5 < min(found.confidence[k] for k in (0, 1, 3, 4))


class Together(Known):
    """Pieces that are doubtful beside each other, and sure beside several; the last one is foreign."""

    def _row(self, first, second):
        if len(first.places) + len(second.places) == 2:
            return super()._row(first, second)
        (a, first_from_a), (b, second_from_b) = (
            next(((n, place) for n, place in part.places.items() if n != 4), (4, np.eye(4)))
            for part in (first, second)
        )
        pose = first_from_a @ self.motions[a] @ inverse(second_from_b @ self.motions[b])
        return whole_row([], 0.01) if 4 in (a, b) else whole_row([pose], 0.95)


def test_what_is_doubtful_beside_each_other_piece_and_sure_beside_all_together_joins(pieces):
    rng = np.random.default_rng(5)
    motions = [random_pose(rng, 2.0) for _ in pieces]
    workshop = Together(motions, {(0, 1): 0.2, (1, 2): 0.2, (2, 3): 0.2})
    found = solve_puzzle(placed(pieces, motions), workshop)
    assert [set(group) for group in found.groups] == [{0, 1, 2, 3}]
    assert found.left_over == (4,)
    expected = [motions[found.largest] @ inverse(motion) for motion in motions]
    assert_allclose(found.poses[:4], expected[:4], atol=1e-9)
    assert min(found.confidence[:4]) >= 0.7 > 0.5 > found.confidence[4]


@pytest.mark.slow
def test_where_nothing_belongs_together_all_is_left_over(pieces):
    found = solve_puzzle(pieces, Known([np.eye(4)] * 5, {}))
    assert (found.groups, sorted(found.left_over)) == ((), [0, 1, 2, 3, 4])
    assert max(found.confidence) < 0.5
    assert np.isfinite(found.poses).all()


@pytest.mark.slow
def test_the_quick_look_comes_first_and_the_full_one_only_at_what_it_leaves(pieces):
    every = Known([np.eye(4)] * 5, {(a, b): 0.97 for a in range(5) for b in range(5)})
    solve_puzzle(pieces, every)
    assert every.looks == [(5, False)]
    some = Known([np.eye(4)] * 5, CHANCES)
    solve_puzzle(pieces, some)
    assert some.looks[0] == (5, False)
    assert some.looks[-1] == (2, True)


class Pair(Known):
    """Compares two pieces, with a row as given."""

    def __init__(self, row):
        super().__init__([], {})
        self.row = row

    def _row(self, first, second):
        return self.row


def test_two_pieces_without_a_shape_keep_the_pose_the_reason_and_the_warnings_of_assemble(pieces):
    pose = random_pose(np.random.default_rng(0), 2.0)
    told = {"status": "degenerate", "reason": "the source is flat", "warnings": ["odd weights"]}
    found = solve_puzzle(pieces[:2], Pair(whole_row([pose], 0.0, **told)))
    small = 1 - found.largest
    assert (found.groups, found.confidence) == ((), (0.0, 0.0))
    assert_allclose(found.poses[small], pose, atol=1e-12)
    (pair,) = found.pairs
    assert (pair["first"], pair["second"]) == (found.largest, small)
    assert told.items() <= pair.items()
    assert found.warnings == ("odd weights",)


def test_two_pieces_that_cannot_be_compared_are_left_over_and_the_reason_is_told(pieces):
    found = solve_puzzle(pieces[:2], Pair(failed_row()))
    assert len(found.left_over) == 2
    assert_allclose(found.poses, np.tile(np.eye(4), (2, 1, 1)))
    assert "not compared (odd)" in found.warnings[0]


def test_the_last_look_at_each_two_pieces_is_told(pieces, monkeypatch):
    monkeypatch.setattr("bitr.assembly.puzzle.COMMON", -1.0)  # a full look at all pairs

    class Named(Known):
        def compare(self, parts, pairs, is_full):
            rows = super().compare(parts, pairs, is_full)
            return {key: {**row, "method": "full" if is_full else "quick"} for key, row in rows.items()}

    found = solve_puzzle(pieces[:4], Named([np.eye(4)] * 4, {(0, 1): 0.97}))
    joined = {0, 1}
    assert found.groups in (((0, 1),), ((1, 0),))
    for pair in found.pairs:  # what has a merged part is not told: the first look at those two stays
        is_single = not joined & {pair["first"], pair["second"]}
        assert pair["method"] == ("full" if is_single else "quick")
    assert len({frozenset((pair["first"], pair["second"])) for pair in found.pairs}) == len(found.pairs) == 6


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


@pytest.fixture
def lines():
    log, handler = logging.getLogger("bitr"), Lines()
    before = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    yield handler.lines
    log.removeHandler(handler)
    log.setLevel(before)


def test_looks_and_joints_are_logged(pieces, lines):
    named = [replace(piece, name=f"{k}.ply") for k, piece in enumerate(pieces)]
    found = solve_puzzle(named, Known([np.eye(4)] * 5, CHANCES))
    assert lines[0] == "look at 5 parts: 10 pairs, 0 of them in full"
    assert lines[-1] == "look at 2 parts: 1 pairs, 1 of them in full"
    (joined,) = [line for line in lines if line.startswith("joined")]
    assert joined == "joined " + " + ".join(f"{k}.ply" for k in found.groups[0])


def test_each_pair_that_other_processes_compare_is_logged_here(tmp_path, pieces, lines):
    class Elsewhere:
        def solver(self, settings, changes):
            return lambda pairs: (self.row(pair) for pair in pairs)

        def row(self, pair):
            named = {"id": pair.id, "source": pair.source, "reference": pair.reference}
            return failed_row(**named) if pair.id == "0-2" else whole_row([np.eye(4)], 0.87, **named)

    parts = [Part.of(replace(p, name=f"{k}.ply"), {k: np.eye(4)}) for k, p in enumerate(pieces[:3])]
    workshop = Workshop(tmp_path, str(model_file(tmp_path)), workers=2)
    workshop.__dict__["_cores"] = Elsewhere()
    workshop.compare(parts, [(0, 1), (0, 2)], False)
    assert lines == ["0.ply and 1.ply: confidence 0.87 by seam", "0.ply and 2.ply: not compared (odd)"]


def test_the_answer_as_json_has_its_attributes(plain):
    told = json.loads(plain.to_json())
    names = set(Puzzle.__dataclass_fields__) | {"largest"}
    assert set(told) == names
    assert_allclose(told["poses"], plain.poses)
    assert told["joints"][0].keys() >= {
        "first",
        "second",
        "first_from_second",
        "confidence",
        "alone",
        "method",
    }
    assert len(told["pairs"]) == 10


def test_merged_parts_hold_the_pieces_in_place(pieces):
    rng = np.random.default_rng(1)
    motions = [random_pose(rng, 2.0) for _ in pieces]
    parts = sorted(
        (Part.of(piece, {k: np.eye(4)}) for k, piece in enumerate(placed(pieces, motions))),
        key=lambda p: -p.size,
    )
    unit = parts[0].size
    rows = Known(motions, CHANCES).compare(parts, choose_pairs(parts, unit, False), False)
    graph = Graph.of(parts, unit, rows)
    merged = merge(parts, [synchronised(graph, group) for group in find_groups(graph, 0.9)], unit)
    assert [len(part.places) for part in merged] == [4, 1]
    root = next(k for k, place in merged[0].places.items() if np.allclose(place, np.eye(4)))
    together = np.concatenate([pieces[k].points for k in merged[0].places])
    back = merged[0].geometry.moved(inverse(motions[root])).points
    assert_allclose(back[np.lexsort(back.T)], together[np.lexsort(together.T)], atol=1e-8)


def test_large_pieces_are_thinned_to_one_density_and_small_ones_stay():
    pieces = [*shell(2, points=9000), *shell(2, seed=1, points=400)]
    motions = [random_pose(np.random.default_rng(k), 2.0) for k in range(4)]
    parts, again = (
        thinned([Part.of(piece, {k: np.eye(4)}) for k, piece in enumerate(each)])
        for each in (pieces, placed(pieces, motions, 3.0))
    )
    counts = [len(part.geometry.points) for part in parts]
    assert counts[2:] == [len(piece.points) for piece in pieces[2:]]
    assert max(counts[:2]) < 4000
    spacing = [np.median(cKDTree(p.sample.points).query(p.sample.points, 2)[0][:, 1]) for p in parts[:2]]
    assert max(spacing) < 1.2 * min(spacing)
    for part, other, motion in zip(parts, again, motions, strict=True):
        assert_allclose(
            other.geometry.points, Geometry(3 * part.geometry.points).moved(motion).points, atol=1e-8
        )
    few = [Part.of(piece, {k: np.eye(4)}) for k, piece in enumerate(pieces[2:])]
    assert thinned(few) == few


@pytest.mark.slow
def test_of_many_pieces_each_is_compared_with_its_likeliest_partners(monkeypatch):
    monkeypatch.setattr("bitr.assembly.puzzle.ALL_PAIRS", 4)
    monkeypatch.setattr("bitr.assembly.puzzle.PARTNERS", 2)
    parts = sorted((Part.of(p, {k: np.eye(4)}) for k, p in enumerate(shell(6))), key=lambda p: -p.size)
    assert len(choose_pairs(parts[:4], parts[0].size, False)) == 6
    pairs = choose_pairs(parts, parts[0].size, False)
    assert 6 <= len(pairs) < 15
    assert {k for pair in pairs for k in pair} == set(range(6))
    assert all(i < j for i, j in pairs)


def test_one_piece_and_a_piece_without_a_shape_are_refused(tmp_path):
    with pytest.raises(InputError, match="got 1 pieces"):
        bitr.assemble_all([np.eye(5, 3)])
    np.save(tmp_path / "dot.npy", np.ones((9, 3)))
    with pytest.raises(InputError, match=r"dot\.npy.*expected"):
        bitr.assemble_all([tmp_path / "dot.npy", np.random.default_rng(0).normal(size=(50, 3))])


# with the engine


def small_pieces(folder):
    names = []
    for seed in range(2):
        for side, points in zip("xy", two_pieces(120, seed), strict=True):
            names.append(folder / f"{side}{seed}.npy")
            np.save(names[-1], points)
    return names[:3]


@pytest.mark.slow
@pytest.mark.parametrize("is_flat", [False, True])
def test_two_pieces_give_the_answer_of_assemble(tmp_path, is_flat):
    x, y = two_pieces(300, 4)
    if is_flat:
        x = x * [1.0, 1.0, 0.0]
    weights = str(model_file(tmp_path))
    small, large = (x, y) if np.var(x, 0).sum() < np.var(y, 0).sum() else (y, x)
    alone = bitr.assemble(small, large, model=weights)
    found = bitr.assemble_all([small, large], model=weights)
    assert_allclose(found.poses[1], np.eye(4), atol=1e-12)
    assert_allclose(found.poses[0], alone.transformation, atol=1e-9)
    assert found.confidence[0] == pytest.approx(alone.confidence, abs=1e-9)
    assert bool(found.groups) == (alone.confidence >= 0.5)
    assert (alone.status == "degenerate") == is_flat
    assert (found.pairs[0]["status"], found.pairs[0]["reason"]) == (alone.status, alone.reason)
    assert found.warnings == alone.warnings


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_where_it_stopped(tmp_path):
    weights, names = str(model_file(tmp_path)), small_pieces(tmp_path)
    pieces = [bitr.io.read(name) for name in names]
    seen = []

    def stop(done, total):
        seen.append((done, total))
        if done == 1:
            raise KeyboardInterrupt

    folder = tmp_path / "work"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        solve_puzzle(pieces, Workshop(folder, weights, 60, on_row=stop))
    counts = []
    found = solve_puzzle(pieces, Workshop(folder, weights, 60, on_row=lambda *count: counts.append(count)))
    assert (seen[-1], counts[0]) == ((1, 3), (1, 3))
    whole = tmp_path / "whole"
    whole.mkdir()
    again = solve_puzzle(pieces, Workshop(whole, weights, 60))
    assert_allclose(found.poses, again.poses, atol=1e-12)
    assert found.confidence == again.confidence


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"workers": 2}, {"ray": True}])
def test_other_processes_give_the_answer_of_this_one(tmp_path, monkeypatch, how):
    if "ray" in how:
        pytest.importorskip("ray")
    monkeypatch.setattr("bitr.assembly.puzzle.WORTH_A_START", 2)
    weights, pieces = str(model_file(tmp_path)), [bitr.io.read(name) for name in small_pieces(tmp_path)]
    answers = []
    for name, given in (("here", {}), ("there", how)):
        (tmp_path / name).mkdir()
        answers.append(solve_puzzle(pieces, Workshop(tmp_path / name, weights, 60, **given)))
    here, there = answers
    assert (there.groups, there.left_over) == (here.groups, here.left_over)
    assert_allclose(there.poses, here.poses, atol=1e-9)
    assert_allclose(there.confidence, here.confidence, atol=1e-9)


@pytest.mark.slow
def test_the_jug_that_ships_is_put_together_and_keeps_the_laws():
    pieces = [bitr.io.read(ASSETS / f"puzzle-{k}.ply") for k in range(1, 6)]
    truth = np.array(json.loads((ASSETS / "puzzle-poses.json").read_text()))
    found = bitr.assemble_all(pieces)
    assert len(found.groups[0]) == 5
    right = inverse(truth[found.largest]) @ truth
    turn = np.degrees(
        np.arccos(np.clip((np.einsum("nij,nij->n", found.poses[:, :3, :3], right[:, :3, :3]) - 1) / 2, -1, 1))
    )
    assert turn.max() < 8
    rng = np.random.default_rng(0)
    motions, order = [random_pose(rng, 3.0) for _ in pieces], [2, 4, 0, 1, 3]
    changed = placed(pieces, motions, 7.0)
    again = bitr.assemble_all([changed[k] for k in order])
    root = found.largest
    for n, k in enumerate(order):
        expected = motions[root] @ scaled(found.poses[k], 7.0) @ inverse(motions[k])
        assert_allclose(again.poses[n], expected, atol=1e-4)
    assert [tuple(order[n] for n in group) for group in again.groups] == list(found.groups)
    assert (again.left_over, found.left_over) == ((), ())
    assert_allclose(again.confidence, np.array(found.confidence)[order], atol=1e-4)
    joints = {(order[joint.first], order[joint.second]): joint for joint in again.joints}
    assert joints.keys() == {(joint.first, joint.second) for joint in found.joints}
    for joint in found.joints:
        other = joints[joint.first, joint.second]
        assert other.method == joint.method
        assert_allclose((other.confidence, other.alone), (joint.confidence, joint.alone), atol=1e-4)
