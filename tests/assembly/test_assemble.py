"""The answer: what goes in, what comes out, and how far it says it can be trusted."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import trimesh
from scipy.spatial.transform import Rotation

import bitr
from bitr.assembly.assemble import KEEP, Settings, assemble_geometries
from bitr.assembly.finish import METHODS
from bitr.assembly.network import Network
from bitr.assembly.verify import NAMES
from bitr.data import AssemblyPair
from bitr.data.piece import as_piece
from bitr.data.poses import pose
from bitr.errors import InputError
from bitr.evaluation.evaluate import evaluate
from bitr.evaluation.method import engine, model_alone
from bitr.io import Geometry
from tests.assembly.cases import (
    cut_pair,
    linear_verifier,
    network,
    overlapping,
    small_model,
    told,
    turn_between,
)
from tests.assembly.shapes import CUBE_CORNERS, solid
from tests.pieces import assert_same_pose, bumpy_mesh, model_file, motion, moved, two_pieces, untrained

CONTRACT = {
    "transformation",
    "confidence",
    "status",
    "reason",
    "method",
    "evidence",
    "hypotheses",
    "fitness",
    "inlier_rmse",
    "penetration_before",
    "penetration_after",
    "seconds",
    "model",
    "source",
    "reference",
    "warnings",
    "scale",
}
FAST = {"fast": True}
RNG = np.random.default_rng(0)
NO_SHAPE = {
    "has its points on a plane": moved(RNG.random((300, 3)) * [1, 2, 0], motion(1)),
    "has its points on a line": np.outer(RNG.random(300), [1.0, 2, 3]),
    "has 6 different points, too few to show a shape (expected 32)": RNG.normal(size=(6, 3)),
    "has 5 different points, too few to show a shape (expected 32)": np.repeat(
        RNG.normal(size=(5, 3)), 40, axis=0
    ),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(model_file(tmp_path_factory.mktemp("weights")))


def test_the_normals_of_the_inputs_are_used_only_if_both_have_them():
    model, (x, y) = untrained(normals=True), two_pieces(300)
    with_normals = [np.hstack([p, np.roll(p, 1, axis=1)]) for p in (x, y)]
    estimated = bitr.assemble(x, y, model=model, **FAST).transformation
    assert np.array_equal(bitr.assemble(with_normals[0], y, model=model, **FAST).transformation, estimated)
    assert not np.allclose(bitr.assemble(*with_normals, model=model, **FAST).transformation, estimated)


def test_a_model_for_colours_needs_them():
    x, y = (Geometry(p, colors=np.abs(p) / 10, name="piece.ply") for p in two_pieces(200))
    model = untrained(colors=True)
    assert np.isfinite(bitr.assemble(x, y, model=model, **FAST).transformation).all()
    with pytest.raises(InputError, match=r"^reference: has no colours"):
        bitr.assemble(x, y.points, model=model, **FAST)


def test_colours_and_normals_are_left_to_models_that_were_made_for_them(model):
    x, y = two_pieces(200)
    both = [Geometry(p, normals=p.copy(), colors=np.abs(p) / 10) for p in (x, y)]
    plain = bitr.assemble(x, y, model=model, **FAST).transformation
    assert np.array_equal(bitr.assemble(*both, model=model, **FAST).transformation, plain)


def test_arrays_tensors_and_files_give_the_same(model, tmp_path):
    x, y = two_pieces(500)
    np.save(tmp_path / "x.npy", x)
    expected = bitr.assemble(x, y, model=model, **FAST).transformation
    for value in (torch.from_numpy(x), tmp_path / "x.npy", str(tmp_path / "x.npy"), trimesh.PointCloud(x)):
        assert np.allclose(bitr.assemble(value, y, model=model, **FAST).transformation, expected, atol=1e-12)


def test_a_model_may_be_a_module_a_path_or_a_folder(model, tmp_path):
    x, y = two_pieces(300)
    answer = bitr.assemble(x, y, model=model, **FAST)
    assert answer.model == model
    module = bitr.load(model)
    same = bitr.assemble(x, y, model=module, **FAST)
    assert same.model == "BITR"
    assert_same_pose(same.transformation, answer.transformation, x)
    assert next(module.parameters()).dtype == torch.float32  # a model that was passed in stays as it is
    bitr.save(module, tmp_path)
    assert np.array_equal(bitr.assemble(x, y, model=tmp_path, **FAST).transformation, answer.transformation)


def test_the_pose_is_a_rotation_and_a_translation(model):
    pose = bitr.assemble(*two_pieces(300), model=model, **FAST).transformation
    assert pose.dtype == np.float64
    assert np.allclose(pose[:3, :3], Rotation.from_matrix(pose[:3, :3]).as_matrix(), atol=1e-12)
    assert pose[3].tolist() == [0, 0, 0, 1]


def test_json_has_the_keys_of_the_contract_and_the_values_of_the_attributes(model):
    answer = bitr.assemble(*two_pieces(300), model=model, **FAST)
    found = json.loads(answer.to_json())
    assert found.keys() == CONTRACT
    assert answer.to_json().isascii()
    assert "\n" not in answer.to_json()
    assert np.array_equal(found["transformation"], answer.transformation)
    assert np.array_equal(found["hypotheses"][0]["transformation"], answer.transformation)
    assert [h["weight"] for h in found["hypotheses"]] == [1.0]
    assert set(found["hypotheses"][0]) == {
        "transformation",
        "weight",
        "method",
        "origin",
        "confidence",
        "fitness",
        "evidence",
    }
    assert tuple(found["evidence"]) == NAMES
    for key in CONTRACT - {"transformation", "hypotheses", "warnings"}:
        assert found[key] == getattr(answer, key)


def test_moved_puts_the_source_in_its_place(model):
    x, y = two_pieces(300)
    answer = bitr.assemble(x, y, model=model, **FAST)
    geometry = Geometry(x, normals=y[: len(x)] if len(y) >= len(x) else None, colors=np.abs(x) / 10)
    there = answer.moved(geometry)
    assert np.allclose(there.points, moved(x, answer.transformation))
    assert np.allclose(there.normals, geometry.normals @ answer.transformation[:3, :3].T)
    assert there.colors is geometry.colors


def test_key_points_lie_where_their_clouds_are(model):
    x, y = two_pieces(500)
    answer = bitr.assemble(x + 1000, y - 1000, model=model, **FAST)
    for keys, cloud in ((answer.source_keypoints, x + 1000), (answer.reference_keypoints, y - 1000)):
        assert (keys > cloud.min(0)).all()
        assert (keys < cloud.max(0)).all()


def test_warnings_of_both_files_are_passed_on(model):
    x, y = two_pieces(200)
    broken = x.copy()
    broken[3] = np.nan
    answer = bitr.assemble(broken, y, model=model, **FAST)
    assert sum(warning.startswith("source: ") for warning in answer.warnings) == 1


def test_more_copies_than_places(model):
    few = np.repeat(np.eye(3), 700, axis=0)
    with pytest.raises(InputError, match=r"^source: only 3 of 2100 points are at different places"):
        bitr.assemble(few, two_pieces(200)[1], model=model, **FAST)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "magic"}, "method = 'magic': expected one of auto, overlap, seam, mate, touch, model"),
        ({"method": "seam", "fast": True}, "a fast answer is the model's own"),
        ({"init": np.ones((4, 4))}, "init: "),
        ({"init": np.eye(3)}, r"init: found an array of shape \(3, 3\), expected \(4, 4\)"),
        ({"hypotheses": 0}, "hypotheses = 0: expected a whole number from 1 to 64"),
        ({"hypotheses": 65}, "hypotheses = 65: expected a whole number from 1 to 64"),
        ({"points": 3}, "points = 3: expected a whole number from 4 to 1000000"),
        ({"points": 10**9}, "points = 1000000000: expected"),
        ({"seed": -1}, "seed = -1: expected a whole number from 0"),
        ({"model": "nonesuch"}, "nonesuch: no such file or folder"),
    ],
)
def test_what_cannot_be_done_is_refused(model, options, says):
    with pytest.raises(InputError, match=says):
        bitr.assemble(*two_pieces(200), **({"model": model} | options))


def test_the_seed_decides_on_meshes_and_large_clouds_only(model):
    x, y = two_pieces(300)
    same = [bitr.assemble(x, y, model=model, seed=seed, **FAST).transformation for seed in (0, 1)]
    assert np.array_equal(*same)
    mesh = bumpy_mesh(0)
    other = [
        bitr.assemble(mesh, y, model=model, seed=seed, points=100, **FAST).transformation for seed in (0, 1)
    ]
    assert not np.allclose(*other)


@pytest.mark.parametrize(("n", "seen"), [(10, 10), (50, 50), (51, 50), (10_000, 50)])
def test_the_budget_is_kept(n, seen):
    points = np.random.default_rng(0).normal(size=(n, 3))
    piece = as_piece(Geometry(points), 50, 0)
    assert len(piece.seen.points) == seen
    assert len(piece.dense.points) == min(n, 3200)


def assembled(source, reference, verifier=None, init=None, joints=METHODS, **settings):
    return assemble_geometries(
        source, reference, network(verifier, joints=joints), Settings(**{"points": 100} | settings), init
    )


@pytest.mark.slow
def test_two_halves_are_joined_at_their_seam_and_crops_by_what_they_share():
    source, reference, truth = cut_pair()
    found = assembled(source, reference, linear_verifier(-2.0, seam=8.0))
    assert found.method == "seam"
    assert turn_between(found.transformation, truth) < 5
    pair = overlapping(0)
    found = assembled(pair.source, pair.reference)
    assert found.method == "overlap"
    assert turn_between(found.transformation, pair.ref_from_src) < 1


@pytest.mark.parametrize("moves", [False, True])
def test_the_same_cloud_twice_is_the_identity(moves):
    x = two_pieces(500)[0]
    g = motion(3) if moves else np.eye(4)
    found = assembled(Geometry(x), Geometry(moved(x, g)))
    assert found.method == "overlap"
    assert turn_between(found.transformation, g) < 1e-6
    assert found.confidence > 0.5
    assert found.evidence["is_copy"] == 1


def test_the_same_cloud_twice_is_sure_with_the_weights_that_ship():
    x = two_pieces(500)[0]
    found = bitr.assemble(x, moved(x, motion(3)))
    assert turn_between(found.transformation, motion(3)) < 1e-5
    assert found.confidence > 0.9


@pytest.mark.slow
def test_a_given_pose_is_kept_unless_another_is_clearly_better():
    source, reference, truth = cut_pair(900)
    for bonus, kept in ((0.0, True), (KEEP - 0.1, True), (KEEP + 0.1, False)):
        found = assembled(source, reference, linear_verifier(is_model=bonus), init=truth)
        assert (found.hypotheses[0].origin == "given") == kept
        assert (found.method == "model") == (not kept)
    flat = assembled(source, reference, linear_verifier(), init=truth)
    assert flat.hypotheses[0].origin == "given"
    exact = assembled(source, reference, linear_verifier(is_given=5.0, turned=-5.0, shifted=-5.0), init=truth)
    assert exact.method == "given"
    np.testing.assert_allclose(exact.transformation, truth, atol=1e-9)


@pytest.mark.slow
def test_a_good_start_is_not_moved_away():
    source, reference, truth = cut_pair()
    found = assembled(source, reference, init=truth)
    assert turn_between(found.transformation, truth) < 5


@pytest.mark.slow
def test_the_true_pose_as_a_start_does_not_lower_the_confidence():
    source, reference, truth = cut_pair()
    verifier = linear_verifier(-2.0, seam=8.0)
    alone = assembled(source, reference, verifier)
    assert turn_between(alone.transformation, truth) < 5
    assert assembled(source, reference, verifier, init=truth).confidence >= alone.confidence - 0.01


@pytest.mark.slow
@pytest.mark.parametrize("method", [method for method in METHODS if method != "mate"])
def test_a_method_can_be_forced(method):
    source, reference, _ = cut_pair(700)
    found = assembled(source, reference, method=method)
    assert found.method == method
    assert not [w for w in found.warnings if "nothing was found by" in w]


def test_open_pieces_cannot_be_mated_and_a_warning_says_so():
    source, reference, _ = cut_pair(700)
    found = assembled(source, reference, method="mate")
    assert found.method == "model"
    assert [w for w in found.warnings if "nothing was found by mate" in w]


def test_a_method_that_finds_nothing_says_so():
    x, y = (Geometry(RNG.normal(size=(7, 3)), name="few") for _ in range(2))
    found = assembled(x, y, method="seam")
    assert found.method == "model"
    assert "nothing was found by seam; the pose is by model" in found.warnings


def test_auto_keeps_to_the_joints_of_the_weights():
    source, reference, _ = cut_pair(700)
    found = assembled(source, reference, joints=("touch", "model"), hypotheses=8)
    assert {each.method for each in found.hypotheses} <= {"touch", "model"}
    assert Settings().methods(network(joints=("seam",))) == {"seam", "model"}
    assert Settings("overlap").methods(network(joints=("seam",))) == {"overlap", "model"}
    assert Settings(fast=True).methods(network()) == {"model"}


def test_a_fast_answer_is_the_models_own():
    source, reference, _ = cut_pair(300)
    found = assembled(source, reference, fast=True, points=1000)
    assert found.method == "model"
    with torch.inference_mode():
        own = small_model().solve(*(torch.from_numpy(side.points)[None] for side in (source, reference)))
    assert own.heads is not None
    heads = own.heads.pose.matrix()[0].numpy()
    assert np.abs(heads - found.transformation).max((1, 2)).min() < 1e-4
    assert np.abs(found.source_keypoints - own.source_keypoints[0].numpy()).max() < 1e-5


@pytest.mark.parametrize("reason", NO_SHAPE)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("source", {}),
        ("reference", {"hypotheses": 2, "method": "overlap"}),
        ("source", FAST),
        ("reference", FAST),
    ],
)
def test_a_piece_without_a_shape_is_told_and_does_no_harm(reason, name, options):
    pair = (NO_SHAPE[reason], two_pieces(300)[1])[:: 1 if name == "source" else -1]
    answer = assembled(*(Geometry(side, name="piece") for side in pair), **options)
    assert answer.status == "degenerate"
    assert answer.confidence == 0
    assert answer.reason.startswith(f"the {name} {reason}")
    assert np.isfinite(answer.transformation).all()
    assert json.loads(answer.to_json())["status"] == "degenerate"


def test_two_pieces_without_a_shape_are_both_told():
    answer = assembled(*(Geometry(CUBE_CORNERS, name="corners"),) * 2)
    assert answer.status == "degenerate"
    assert answer.reason.count("8 different points") == 2


def test_a_thin_plate_is_no_plane():
    plate, other = Geometry(solid("box", 0) * [1, 1, 0.1]), Geometry(two_pieces(300)[1])
    assert assembled(plate, other, fast=True).status != "degenerate"


@pytest.mark.parametrize(("factor", "warned"), [(1.0, False), (50.0, False), (1000.0, True), (1e-3, True)])
def test_sizes_that_differ_a_hundredfold_are_warned_of(factor, warned):
    x, y = two_pieces(300)
    found = assembled(Geometry(factor * x), Geometry(y), fast=True)
    units = [w for w in found.warnings if "are both files in the same unit?" in w]
    assert len(units) == warned


def test_an_answer_that_is_hardly_likely_is_unsure_and_says_what_to_do():
    source, reference, _ = cut_pair(300)
    found = assembled(source, reference, linear_verifier(-3.0), fast=True)
    assert (found.status, found.confidence) == ("unsure", pytest.approx(0.0474, abs=1e-3))
    assert found.reason.startswith("the chance that the pose is right is 5%. Look at the report (--html)")
    assert "--hypotheses" in found.reason
    assert "--init" in found.reason


@pytest.mark.slow
def test_advice_leaves_out_what_was_done():
    source, reference, truth = cut_pair(300)
    found = assembled(source, reference, linear_verifier(-3.0), init=truth, hypotheses=3)
    assert found.status == "unsure"
    assert found.reason.endswith("Look at the report (--html), or give more points")


def test_a_likely_answer_without_a_rival_is_ok():
    source, reference, truth = cut_pair(700)
    alone = linear_verifier(-6.0, is_given=20.0, shifted=-1.0)
    found = assembled(source, reference, alone, init=truth, method="model")
    assert (found.status, found.reason) == ("ok", None)
    assert found.status != "ambiguous"
    assert found.confidence > 0.9


@pytest.mark.slow
def test_a_rival_makes_an_answer_ambiguous():
    source, reference, _ = cut_pair(700)
    found = assembled(source, reference, linear_verifier(3.0))  # all candidates are as likely
    assert found.status == "ambiguous"
    assert "another pose" in found.reason
    assert "fits nearly as well" in found.reason


def test_a_symmetric_piece_makes_an_answer_ambiguous():
    cube, other = Geometry(solid("cube", 0)), Geometry(two_pieces(300)[1])
    sure = linear_verifier(3.0)
    found = assembled(cube, other, sure, points=1000)
    assert found.status == "ambiguous"
    assert found.reason.startswith("the source looks the same after 23 turns, those of a cube")


@pytest.mark.slow
def test_two_symmetric_pieces_make_an_answer_ambiguous():
    cube, sure = Geometry(solid("cube", 0)), linear_verifier(3.0)
    both = assembled(cube, Geometry(solid("cube", 1)), sure, points=1000)
    assert both.reason.startswith("both pieces look the same after 23 turns, those of a cube")


@pytest.mark.slow
def test_unsure_answers_of_symmetric_pieces_say_both():
    pair = Geometry(solid("cube", 0)), Geometry(two_pieces(300)[1])
    found = assembled(*pair, linear_verifier(-3.0), points=1000)
    assert found.status == "unsure"
    assert "the source looks the same after 23 turns" in found.reason


def test_weights_that_the_confidence_was_not_fitted_with_are_warned_of():
    source, reference, _ = cut_pair(300)
    plain = Network(small_model(), "own")
    for fitted in (False, True):
        found = assemble_geometries(source, reference, replace(plain, fitted=fitted), Settings(fast=True))
        assert ("the confidence was fitted with other weights" in "".join(found.warnings)) != fitted


@pytest.mark.slow
@pytest.mark.parametrize("fast", [False, True])
def test_evaluate_measures_what_assemble_answers(fast):
    source, reference, truth = cut_pair(700)
    pair = AssemblyPair(source, reference, truth, "pair")
    chosen, settings = network(), Settings(fast=fast, points=100)
    answer = assemble_geometries(source, reference, chosen, settings)
    (score,) = evaluate(engine(chosen, settings), [pair]).scores
    np.testing.assert_allclose(score.transformation, answer.transformation, atol=1e-12)
    assert score.confidence == answer.confidence
    if fast:
        alone = model_alone(small_model(), 100).pose(pair)
        np.testing.assert_allclose(alone, answer.transformation, atol=1e-9)


@pytest.mark.slow
def test_a_model_that_says_nearly_the_truth_is_brought_to_it(monkeypatch):
    source, reference, truth = cut_pair()
    told(monkeypatch, pose(np.eye(3), np.full(3, 0.02)) @ truth)
    found = assembled(source, reference, linear_verifier(-2.0, seam=8.0))
    assert turn_between(found.transformation, truth) < 5
