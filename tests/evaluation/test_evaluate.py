"""Evaluations: what the numbers are, and that nothing is hidden."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from bitr.assembly.assemble import Settings
from bitr.assembly.refine import REFINEMENTS, none
from bitr.data.poses import pose
from bitr.errors import InputError
from bitr.evaluation.evaluate import evaluate, summary
from bitr.evaluation.method import MESH_POINTS, Method, engine, model_alone, network_of, refined
from bitr.evaluation.report import Repeated, Report, table
from bitr.io import Geometry
from tests.data.cases import pair_of
from tests.pieces import untrained

SHIFTS = (0.05, 0.15, 0.25)


@pytest.fixture
def pairs():
    rng = np.random.default_rng(0)
    return [replace(pair_of(40, rng), id=f"hall/{i}") for i in range(3)]


def shifted_by(lengths):
    """Right up to a shift of the given length for each pair."""
    remaining = iter(lengths)
    return Method(
        "shifted", lambda pair: pose(np.eye(3), np.array([next(remaining), 0.0, 0.0])) @ pair.ref_from_src
    )


def refusing(method, id):
    def solve(pair):
        if pair.id == id:
            raise InputError(f"{id}: too few points")
        return method.solve(pair)

    return Method(method.name, solve)


def test_numbers_of_three_pairs_by_hand(pairs):
    found = evaluate(shifted_by(SHIFTS), pairs)
    lengths = found.summary("translation_error")
    assert lengths.mean == pytest.approx(0.15)
    assert lengths.median == pytest.approx(0.15)
    assert lengths.std == pytest.approx(np.sqrt(0.02 / 3))
    assert lengths.quantiles["0.25"] == pytest.approx(0.10)
    assert found.summary("displacement").mean == pytest.approx(0.15)
    assert found.summary("rotation_error_deg").mean == pytest.approx(0, abs=1e-5)
    assert found.recalls["ModelNet (1°, 0.1)"].recall == pytest.approx(1 / 3)
    assert found.failed == 0
    assert [score.id for score in found.scores] == [pair.id for pair in pairs]
    assert all(score.seconds >= 0 for score in found.scores)


def test_a_refused_pair_is_counted_and_not_recalled(pairs):
    found = evaluate(refusing(shifted_by([0.01, 0.03]), "hall/1"), pairs)
    assert found.failed == 1
    assert found.summary("translation_error").mean == pytest.approx(0.02)
    assert found.recalls["ModelNet (1°, 0.1)"].recall == pytest.approx(2 / 3)
    assert found.part_accuracy == pytest.approx(2 / 3)
    assert found.scores[1].failure == "hall/1: too few points"
    assert found.scores[1].transformation is None


def test_an_answer_that_is_no_motion_is_a_failure(pairs):
    answers = iter([np.full((4, 4), np.nan), np.diag([2.0, 2.0, 2.0, 1.0]), np.eye(4)])
    found = evaluate(Method("broken", lambda pair: next(answers)), pairs)
    assert found.failed == 2
    assert "no rigid motion" in found.scores[0].failure


def test_other_errors_are_not_swallowed(pairs):
    with pytest.raises(ZeroDivisionError):
        evaluate(Method("broken", lambda pair: 1 / 0), pairs)


def test_no_pairs_are_refused():
    with pytest.raises(InputError, match="no pairs"):
        evaluate(shifted_by([]), [])


def test_progress_is_told(pairs):
    told = []
    evaluate(shifted_by(SHIFTS), pairs, lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_thresholds_with_metres_are_for_pairs_in_metres(pairs):
    metres = [replace(p, unit="m", reference=Geometry(p.reference.points + 100.0)) for p in pairs]
    found = evaluate(shifted_by(SHIFTS), metres).recalls
    assert set(found) == {"KITTI (5°, 2 m)", "ETH (2°, 0.3 m)"}  # without overlap, 3DMatch has no say
    assert found["KITTI (5°, 2 m)"].recall == 1
    assert found["ETH (2°, 0.3 m)"].rte == pytest.approx(0.15)
    assert evaluate(shifted_by(SHIFTS), metres).part_accuracy is None
    assert evaluate(shifted_by(SHIFTS), [replace(pair, unit="mm") for pair in pairs]).recalls == {}
    assert evaluate(shifted_by(SHIFTS), [*metres[:2], pairs[2]]).recalls == {}


def test_3dmatch_counts_by_scene_where_pairs_overlap(pairs):
    whole = [
        replace(p, unit="m", reference=p.source.moved(p.ref_from_src), id=id)
        for p, id in zip(pairs, ("hall/0", "hall/1", "loft/0"), strict=True)
    ]
    found = evaluate(shifted_by([0.1, 0.3, 0.15]), whole).recalls["3DMatch (RMSE 0.2 m)"]
    assert found.recall == pytest.approx((1 / 2 + 1) / 2)
    assert found.rte == pytest.approx((0.1 + 0.15) / 2)


def test_errors_are_against_the_nearest_symmetric_answer(pairs):
    half_turn = np.diag([-1.0, -1.0, 1.0, 1.0])
    pair = replace(pairs[0], symmetry=np.stack([np.eye(4), half_turn]))
    turned = Method("turned", lambda pair: pair.ref_from_src @ half_turn)
    assert evaluate(turned, [pair]).scores[0].errors.rotation_error_deg < 1e-5
    assert evaluate(turned, [pairs[0]]).scores[0].errors.rotation_error_deg == pytest.approx(180)


def test_a_mesh_is_measured_by_its_surface(pairs):
    """A square whose vertices crowd in one corner; its centroid by area is the middle."""
    corner = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=np.float64)
    crowd = np.concatenate([corner, np.tile([[0.0, 0.0, 0.0]], (50, 1))])
    mesh = Geometry(crowd, faces=np.array([[0, 1, 2], [0, 2, 3]]))
    pair = replace(pairs[0], source=mesh, reference=mesh, ref_from_src=np.eye(4))
    half_turn = Method("turn", lambda pair: np.diag([-1.0, -1.0, 1.0, 1.0]))
    found = evaluate(half_turn, [pair]).scores[0].errors
    assert found.displacement == pytest.approx(np.sqrt(2), abs=0.02)


def test_json_holds_everything_and_no_nan(pairs):
    found = json.loads(evaluate(refusing(shifted_by(SHIFTS), "hall/1"), pairs).to_json())
    assert (found["pairs"], found["failed"], found["unit"]) == (3, 1, "")
    assert found["translation_error"]["mean"] == pytest.approx(0.1)
    assert found["registration_rmse"] is None
    assert found["scores"][1]["rotation_error_deg"] is None
    assert np.shape(found["scores"][0]["transformation"]) == (4, 4)


def test_all_failed_has_no_means(pairs):
    def solve(pair):
        raise InputError("no")

    found = evaluate(Method("refuses", solve), pairs)
    assert found.summary("rotation_error_deg") is None
    assert found.recalls["ModelNet (1°, 0.1)"].recall == 0
    assert "| refuses | 3 | 3 | – | – |" in table([Repeated("refuses", (found,))])


def test_summary_of_nothing_is_none():
    assert summary(np.array([np.nan])) is None
    assert summary(np.array([np.nan, 2.0])).mean == 2


def test_samplings_are_pooled_and_their_spread_is_told(pairs):
    runs = tuple(evaluate(shifted_by(shifts), pairs) for shifts in ([0.1] * 3, [0.2] * 3, [0.3] * 3))
    row = Repeated("three", runs)
    assert row.pooled.summary("translation_error").mean == pytest.approx(0.2)
    assert row.between("translation_error") == pytest.approx(0.1)
    assert Repeated("one", runs[:1]).between("translation_error") is None
    assert row.to_dict()["std_between_samplings"]["translation_error"] == pytest.approx(0.1)


def test_the_table_shows_the_chance_level(pairs):
    lines = table([Repeated("a|b", (evaluate(shifted_by(SHIFTS), pairs),) * 2)]).splitlines()
    assert lines[0].startswith(
        "|  | pairs | failed | Δr (°) | median Δr (°) | right | within 5° | Δt (size ≈ 1) | displacement ("
    )
    assert re.match(
        r"\| a\\\|b \| 3 × 2 \| 0 \| 0\.0 ± 0\.0 \(0\.0\) \| 0\.0 \| [^|]+ \| [^|]+ \| 0\.15 ± 0\.0816 \(0\)",
        lines[2],
    )
    assert lines[3].startswith("| chance | – | – | 126.5 ± 37.0 | 132.3 |")
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


def test_thresholds_for_shapes_of_size_one_are_hidden_for_others_and_lengths_say_their_unit(pairs):
    def scaled(pair):
        larger = replace(pair.source, points=1000 * pair.source.points)
        reference = replace(pair.reference, points=1000 * pair.reference.points)
        motion = pair.ref_from_src.copy()
        motion[:3, 3] *= 1000
        return replace(pair, source=larger, reference=reference, ref_from_src=motion)

    exact = Method("exact", lambda pair: pair.ref_from_src)
    small, large = evaluate(exact, pairs), evaluate(exact, [scaled(pair) for pair in pairs])
    assert (small.is_of_size_one, large.is_of_size_one) == (True, False)
    assert small.part_accuracy == 1
    assert "ModelNet (1°, 0.1)" in small.recalls
    assert (large.part_accuracy, large.recalls) == (1, {})
    assert "Δt (unit of the files)" in table([Repeated("large", (large,))])
    metres = evaluate(exact, [replace(pair, unit="m") for pair in pairs])
    assert "| Chamfer (m²) |" in table([Repeated("metres", (metres,))])
    assert small.right == large.right == metres.right == 1


def test_the_report_tells_how_it_was_made(pairs):
    rows = (Repeated("m", (evaluate(shifted_by(SHIFTS), pairs),)),)
    report = Report({"dataset": "hall", "seed": 3, "limit": None}, rows)
    assert report.to_markdown().startswith("dataset hall, seed 3\n\n|")
    found = json.loads(report.to_json())
    assert found["chance"]["rotation_error_deg"]["mean"] == pytest.approx(126.476, abs=1e-3)
    assert found["rows"][0]["pooled"]["pairs"] == 3
    assert "scores" not in found["rows"][0]["pooled"]


@pytest.mark.parametrize("options", [{}, {"normals": True}])
def test_the_model_sees_the_points_as_they_are(pairs, options):
    model = untrained(**options).double()
    pair = pairs[0]
    found = model_alone(model, None).pose(pair)
    again = model_alone(model, 40).pose(pair)  # all 40 points of each cloud
    np.testing.assert_array_equal(found, again)
    fewer = model_alone(model, 20).pose(pair)
    assert np.abs(found - fewer).max() > 1e-6


def test_a_refinement_gets_the_points_of_meshes_too_and_the_pose(pairs, monkeypatch):
    asked = []

    def right(source, reference, pose):
        asked.append((len(source), len(reference)))
        assert np.abs(pose - pair.ref_from_src).max() > 1e-3
        return none(source, reference, pair.ref_from_src)

    monkeypatch.setitem(REFINEMENTS, "icp", right)
    corners = np.random.default_rng(0).normal(size=(30, 3))
    mesh = Geometry(corners, faces=np.random.default_rng(0).integers(0, 30, (20, 3)))
    pair = replace(pairs[0], source=mesh)
    method = refined(model_alone(untrained().double(), 30), "icp")
    assert method.name == "BITR + ICP"
    assert evaluate(method, [pair]).scores[0].errors.displacement < 1e-9
    assert asked == [(MESH_POINTS, len(pair.reference.points))]


def test_a_mesh_is_sampled_for_the_model(pairs):
    points = np.random.default_rng(0).normal(size=(30, 3))
    mesh = Geometry(points, faces=np.random.default_rng(0).integers(0, 30, (20, 3)))
    pair = replace(pairs[0], source=mesh)
    network = network_of(untrained().double(), 30, ("model",))
    different = [engine(network, Settings(fast=True, seed=seed)).pose(pair) for seed in (0, 1)]
    assert np.abs(different[0] - different[1]).max() > 1e-6


def test_colours_that_are_missing_are_a_failure(pairs):
    bare = [replace(p, source=replace(p.source, colors=None)) for p in pairs]
    found = evaluate(model_alone(untrained(colors=True).double(), None), [*bare[:1], pairs[1]])
    assert found.failed == 1
    assert "has no colours" in found.scores[0].failure
