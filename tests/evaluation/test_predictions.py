"""Predictions from files: what is scored, and every bad row named in one line."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bitr.assembly.assemble import Settings
from bitr.assembly.batch import read_manifest, run_batch
from bitr.assembly.network import Network
from bitr.data import dataset
from bitr.data.own import write_pairs
from bitr.data.poses import pose
from bitr.errors import InputError
from bitr.evaluation.evaluate import NUMBERS, evaluate_predictions, read_predictions
from tests.data.cases import pair_of
from tests.pieces import untrained

SHIFT = pose(np.eye(3), np.array([3.0, 4.0, 0.0]))


@pytest.fixture
def pairs():
    rng = np.random.default_rng(0)
    return [replace(pair_of(30, rng), id=f"pair {i}") for i in range(3)]


def answers(pairs):
    return {pair.id: SHIFT @ pair.ref_from_src for pair in pairs}


def as_jsonl(path: Path, poses) -> Path:
    rows = [{"id": id, "transformation": None if g is None else g.tolist()} for id, g in poses.items()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def as_csv(path: Path, poses) -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "transformation"])
        writer.writerows([id, " ".join(map(repr, g.ravel().tolist()))] for id, g in poses.items())
    return path


def as_wide_csv(path: Path, poses) -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *NUMBERS])
        writer.writerows([id, *g.ravel().tolist()] for id, g in poses.items())
    return path


@pytest.mark.parametrize(
    ("write", "name"),
    [(as_jsonl, "a.jsonl"), (as_csv, "a.csv"), (as_wide_csv, "a.csv"), (as_jsonl, "a.JSONL")],
)
def test_all_forms_give_the_same_scores(write, name, tmp_path, pairs):
    found = evaluate_predictions(write(tmp_path / name, answers(pairs)), pairs)
    assert found.method == "a"
    assert found.summary("translation_error").mean == pytest.approx(5)
    assert found.summary("rotation_error_deg").mean == pytest.approx(0, abs=1e-5)
    assert found.seconds is None


def test_the_order_of_the_rows_does_not_matter(tmp_path, pairs):
    poses = answers(pairs)
    poses["pair 2"] = pairs[2].ref_from_src
    turned = dict(reversed(list(poses.items())))
    found = evaluate_predictions(as_jsonl(tmp_path / "a.jsonl", turned), pairs)
    assert [score.id for score in found.scores] == ["pair 0", "pair 1", "pair 2"]
    assert found.scores[2].errors.translation_error == pytest.approx(0, abs=1e-9)


def test_no_answer_is_a_failure(tmp_path, pairs):
    found = evaluate_predictions(as_jsonl(tmp_path / "a.jsonl", answers(pairs) | {"pair 1": None}), pairs)
    assert found.failed == 1
    assert found.scores[1].failure == "the file has no answer"


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_the_results_of_a_batch_can_be_scored(suffix, tmp_path, pairs):
    manifest = write_pairs(tmp_path / "data", pairs, "test")
    (tmp_path / "data" / "pairs" / "000001" / "source.npz").write_bytes(b"damaged")
    results = tmp_path / f"results{suffix}"
    run_batch(read_manifest(manifest), Network(untrained().double(), "m"), Settings(fast=True), results)
    found = evaluate_predictions(results, pairs)
    assert found.failed == 1
    assert "source.npz" in found.scores[1].failure
    assert found.scores[0].seconds > 0
    poses = [json.loads(line) for line in results.read_text().splitlines()] if suffix == ".jsonl" else []
    for row, score in zip(poses, found.scores, strict=False):
        if row["transformation"] is not None:
            np.testing.assert_allclose(score.transformation, row["transformation"], atol=1e-12)


IDENTITY = np.eye(4).tolist()
GOOD = {"id": "pair 0", "transformation": IDENTITY}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": "pair 0", "transformation": IDENTITY}, "line 2: the id pair 0 is taken already"),
        ({"id": "pair 1", "transformation": (2 * np.eye(4)).tolist()}, "line 2: the pose is no rigid motion"),
        (
            {"id": "pair 1", "transformation": np.diag([1.0, 1, -1, 1]).tolist()},
            "line 2: the pose is no rigid",
        ),
        ({"id": "pair 1", "transformation": [[float("nan")] * 4] * 4}, "line 2: the pose is no rigid motion"),
        ({"id": "pair 1", "transformation": [1, 2, 3]}, "line 2: found 3 numbers, expected 16"),
        ({"id": "pair 1", "transformation": "here"}, "line 2: found .*'here', expected the numbers"),
        ({"id": "pair 1", "transformation": {"a": 1}}, "line 2: found .*expected the numbers"),
        ({"id": "pair 1", "transformation": [[True] * 4] * 4}, "line 2: found .*expected the numbers"),
        ({"id": ["x"], "transformation": IDENTITY}, "line 2: found id = "),
        ({"id": "pair 1"}, "line 2: found id; expected id, transformation"),
        ({"id": "pair 1", "transformation": IDENTITY, "seconds": "soon"}, "line 2: found seconds = 'soon'"),
        ({"id": "pair 1", "transformation": IDENTITY, "seconds": -1}, "line 2: found seconds = -1"),
    ],
)
def test_a_bad_row_is_named(row, says, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(InputError, match=says) as caught:
        read_predictions(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_else_a_row_says_is_not_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(GOOD | {"pose": 1, "confidence": None}) + "\n")
    (found,) = read_predictions(path).values()
    np.testing.assert_array_equal(found.transformation, IDENTITY)


def test_a_pair_without_a_row_is_named(tmp_path, pairs):
    path = as_jsonl(tmp_path / "a.jsonl", answers(pairs[:2]))
    with pytest.raises(InputError, match=r"a\.jsonl: no row for the pair pair 2, expected one for each of 3"):
        evaluate_predictions(path, pairs)


def test_a_row_without_a_pair_is_named(tmp_path, pairs):
    path = as_jsonl(tmp_path / "a.jsonl", answers(pairs) | {"else": np.eye(4)})
    with pytest.raises(InputError, match="line 4: the id else is none of the 3 pairs"):
        evaluate_predictions(path, pairs)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.jsonl", "", "holds no pairs"),
        ("a.jsonl", "{", "line 1: not a JSON object"),
        ("a.jsonl", "[1]\n", "line 1: found .1., expected a JSON object"),
        ("a.csv", "id\nx\n", "line 1: found id; expected id, transformation"),
        ("a.csv", "id,transformation\nx,1 2\n", "line 2: found 2 numbers"),
        ("a.csv", "id,m00\nx,1\n", "line 1: found id, m00; expected id, m00, m01"),
        ("a.csv", "id,transformation\nx\n", "line 2: found 1 cell, expected 2"),
        ("a.csv", ",".join(["id", *NUMBERS]) + "\nx" + ",1" * 15 + ",\n", "line 2: found .*None"),
        ("a.txt", "x", "expected .csv or .jsonl"),
        ("missing.csv", None, "cannot be read"),
    ],
)
def test_damaged_files_are_refused(name, text, says, tmp_path):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=says):
        read_predictions(path)


def test_progress_is_told(tmp_path, pairs):
    told = []
    path = as_jsonl(tmp_path / "a.jsonl", answers(pairs))
    evaluate_predictions(path, pairs, lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_pairs_of_a_data_set_can_be_scored(tmp_path, real_data):
    pairs = dataset("bunny", root=real_data)[:2]
    path = as_jsonl(tmp_path / "a.jsonl", {pair.id: pair.ref_from_src for pair in pairs})
    assert evaluate_predictions(path, pairs).summary("displacement").mean < 1e-9
