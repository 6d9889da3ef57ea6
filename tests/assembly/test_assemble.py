import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import trimesh
from scipy.spatial.transform import Rotation

import bitr
from bitr import BITR, Rigid
from bitr.data.piece import as_piece
from bitr.errors import InputError
from bitr.io import Geometry
from tests.app.cases import assert_same_pose, model_file, motion, moved, scaled, two_pieces, untrained
from tests.refine.cases import overlapping

CONTRACT = {
    "transformation",
    "confidence",
    "hypotheses",
    "fitness",
    "inlier_rmse",
    "penetration_before",
    "penetration_after",
    "ambiguous",
    "degenerate",
    "reason",
    "seconds",
    "model",
    "refine",
    "source",
    "reference",
    "warnings",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(model_file(tmp_path_factory.mktemp("weights")))


def bumpy_mesh(seed):
    """A closed surface without symmetry."""
    mesh = trimesh.creation.icosphere(subdivisions=3)
    rng = np.random.default_rng(seed)
    bumps = np.exp(3 * (mesh.vertices @ rng.normal(size=(3, 5)) - 2)).sum(1)
    mesh.vertices *= (1 + 0.3 * np.tanh(bumps))[:, None] * [1.0, 0.8, 0.6]
    return mesh


def check_laws(x, y, g1, g2, factor, move, grow, points, **options):
    """All three laws at once: moved, scaled and swapped."""
    pose = bitr.assemble(x, y, **options).transformation
    answer = bitr.assemble(grow(move(y, g2)), grow(move(x, g1)), **options)
    expected = scaled(g1 @ np.linalg.inv(pose) @ np.linalg.inv(g2), factor)
    assert_same_pose(answer.transformation, expected, factor * moved(points(y), g2))


@pytest.mark.parametrize("n", [100, 3000, 20_000])
@pytest.mark.parametrize("factor", [1e-3, 1000.0])
def test_on_clouds_of_any_size_the_laws_hold(model, n, factor):
    """Fewer points than the budget, more, and so many that they are drawn from."""
    check_laws(
        *two_pieces(n),
        motion(1),
        motion(2),
        factor,
        moved,
        lambda p: factor * p,
        lambda p: p,
        model=model,
        budget=150,
    )


def test_far_from_the_origin_the_laws_hold(model):
    check_laws(
        *two_pieces(2000), motion(1, 1e6), motion(2, 1e6), 1.0, moved, lambda p: p, lambda p: p, model=model
    )


def test_on_meshes_the_laws_hold(model):
    def move(mesh, pose):
        return mesh.copy().apply_transform(pose)

    check_laws(
        bumpy_mesh(0),
        bumpy_mesh(1),
        motion(1),
        motion(2),
        1000.0,
        move,
        lambda mesh: mesh.copy().apply_scale(1000.0),
        lambda mesh: np.asarray(mesh.vertices),
        model=model,
        budget=300,
    )


def test_with_estimated_normals_the_laws_hold():
    """Weights in double precision: the laws of the pipeline are tested here, not the rounding of float32."""
    check_laws(
        *two_pieces(2000),
        motion(1),
        motion(2),
        1000.0,
        moved,
        lambda p: 1000 * p,
        lambda p: p,
        model=untrained(normals=True).double(),
        budget=300,
    )


def test_the_normals_of_the_inputs_are_used_only_if_both_have_them():
    model, (x, y) = untrained(normals=True), two_pieces(300)
    with_normals = [np.hstack([p, np.roll(p, 1, axis=1)]) for p in (x, y)]
    estimated = bitr.assemble(x, y, model=model).transformation
    assert np.array_equal(bitr.assemble(with_normals[0], y, model=model).transformation, estimated)
    assert not np.allclose(bitr.assemble(*with_normals, model=model).transformation, estimated)


def test_a_model_for_colours_needs_them():
    x, y = (Geometry(p, colors=np.abs(p) / 10, name="piece.ply") for p in two_pieces(200))
    model = untrained(colors=True)
    assert np.isfinite(bitr.assemble(x, y, model=model).transformation).all()
    with pytest.raises(InputError, match=r"^reference: has no colours"):
        bitr.assemble(x, y.points, model=model)


def test_colours_and_normals_are_left_to_models_that_were_made_for_them(model):
    x, y = two_pieces(200)
    both = [Geometry(p, normals=p.copy(), colors=np.abs(p) / 10) for p in (x, y)]
    plain = bitr.assemble(x, y, model=model).transformation
    assert np.array_equal(bitr.assemble(*both, model=model).transformation, plain)


def test_arrays_tensors_and_files_give_the_same(model, tmp_path):
    x, y = two_pieces(500)
    np.save(tmp_path / "x.npy", x)
    expected = bitr.assemble(x, y, model=model).transformation
    for value in (torch.from_numpy(x), tmp_path / "x.npy", str(tmp_path / "x.npy"), trimesh.PointCloud(x)):
        assert np.allclose(bitr.assemble(value, y, model=model).transformation, expected, atol=1e-12)


def test_a_model_may_be_a_module_a_path_or_a_folder(model, tmp_path):
    x, y = two_pieces(300)
    answer = bitr.assemble(x, y, model=model)
    assert answer.model == model
    module = bitr.load(model)
    same = bitr.assemble(x, y, model=module)
    assert same.model == "BITR"
    assert_same_pose(same.transformation, answer.transformation, x)
    assert next(module.parameters()).dtype == torch.float32  # a model that was passed in stays as it is
    bitr.save(module, tmp_path)
    assert np.array_equal(bitr.assemble(x, y, model=tmp_path).transformation, answer.transformation)


def test_the_pose_is_a_rotation_and_a_translation(model):
    pose = bitr.assemble(*two_pieces(300), model=model).transformation
    assert pose.dtype == np.float64
    assert np.allclose(pose[:3, :3], Rotation.from_matrix(pose[:3, :3]).as_matrix(), atol=1e-12)
    assert pose[3].tolist() == [0, 0, 0, 1]


def test_json_has_the_keys_of_the_contract_and_the_values_of_the_attributes(model):
    answer = bitr.assemble(*two_pieces(300), model=model)
    found = json.loads(answer.to_json())
    assert found.keys() == CONTRACT
    assert answer.to_json().isascii()
    assert "\n" not in answer.to_json()
    assert np.array_equal(found["transformation"], answer.transformation)
    assert np.array_equal(found["hypotheses"][0]["transformation"], answer.transformation)
    assert [h["weight"] for h in found["hypotheses"]] == [1.0]
    for key in CONTRACT - {"transformation", "hypotheses", "warnings"}:
        assert found[key] == getattr(answer, key)


def test_moved_puts_the_source_in_its_place(model):
    x, y = two_pieces(300)
    answer = bitr.assemble(x, y, model=model)
    geometry = Geometry(x, normals=y[: len(x)] if len(y) >= len(x) else None, colors=np.abs(x) / 10)
    there = answer.moved(geometry)
    assert np.allclose(there.points, moved(x, answer.transformation))
    assert np.allclose(there.normals, geometry.normals @ answer.transformation[:3, :3].T)
    assert there.colors is geometry.colors


def test_key_points_lie_where_their_clouds_are(model):
    x, y = two_pieces(500)
    answer = bitr.assemble(x + 1000, y - 1000, model=model)
    for keys, cloud in ((answer.source_keypoints, x + 1000), (answer.reference_keypoints, y - 1000)):
        assert (keys > cloud.min(0)).all()
        assert (keys < cloud.max(0)).all()


def test_warnings_of_both_files_are_passed_on(model):
    x, y = two_pieces(200)
    broken = x.copy()
    broken[3] = np.nan
    answer = bitr.assemble(broken, y, model=model)
    assert len(answer.warnings) == 1
    assert "source" in answer.warnings[0]


def test_more_copies_than_places(model):
    few = np.repeat(np.eye(3), 700, axis=0)
    with pytest.raises(InputError, match=r"^source: only 3 of 2100 points are at different places"):
        bitr.assemble(few, two_pieces(200)[1], model=model)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"refine": "magic"}, "refine = 'magic': expected one of none, icp, ot"),
        ({"hypotheses": 0}, "hypotheses = 0: expected a whole number from 1 to 64"),
        ({"hypotheses": 65}, "hypotheses = 65: expected a whole number from 1 to 64"),
        ({"budget": 3}, "budget = 3: expected a whole number from 4 to 1000000"),
        ({"budget": 10**9}, "budget = 1000000000: expected"),
        ({"seed": -1}, "seed = -1: expected a whole number from 0"),
        ({"model": "nonesuch"}, "nonesuch: no such file or folder"),
    ],
)
def test_what_cannot_be_done_is_refused(model, options, says):
    with pytest.raises(InputError, match=says):
        bitr.assemble(*two_pieces(200), **({"model": model} | options))


def test_the_seed_decides_on_meshes_and_large_clouds_only(model):
    x, y = two_pieces(300)
    same = [bitr.assemble(x, y, model=model, seed=seed).transformation for seed in (0, 1)]
    assert np.array_equal(*same)
    mesh = bumpy_mesh(0)
    other = [bitr.assemble(mesh, y, model=model, seed=seed, budget=100).transformation for seed in (0, 1)]
    assert not np.allclose(*other)


@pytest.mark.parametrize(("n", "seen"), [(10, 10), (50, 50), (51, 50), (10_000, 50)])
def test_the_budget_is_kept(n, seen):
    points = np.random.default_rng(0).normal(size=(n, 3))
    piece = as_piece(Geometry(points), 50, 0)
    assert len(piece.seen.points) == seen
    assert len(piece.dense.points) == min(n, 3200)


@pytest.mark.parametrize("refine", ["icp", "ot"])
def test_with_refinement_the_laws_hold(model, refine):
    x, y = two_pieces(1500)
    whole = np.concatenate([x, y])
    for source in (x, whole[: len(x) + len(y) // 2]):  # nothing in common, and much
        check_laws(
            source,
            y,
            motion(1),
            motion(2),
            10.0,
            moved,
            lambda p: 10 * p,
            lambda p: p,
            model=model,
            refine=refine,
            budget=300,
        )


@pytest.fixture
def ten_degrees_off(monkeypatch):
    """A model that is ten degrees off for pieces that are in their place."""
    turn = Rotation.from_rotvec([0, 0, np.pi / 18]).as_matrix()
    off = Rigid(torch.from_numpy(turn)[None], torch.zeros(1, 3, dtype=torch.float64))
    solve = BITR.solve
    monkeypatch.setattr(BITR, "solve", lambda *inputs: replace(solve(*inputs), pose=off))
    return off.matrix()[0].numpy()


@pytest.mark.parametrize("refine", ["icp", "ot"])
def test_refinement_brings_overlapping_pieces_together(model, ten_degrees_off, refine):
    pair = overlapping(0, n=2000)
    x, y = pair.source.moved(pair.ref_from_src).points, pair.reference.points
    plain = bitr.assemble(x, y, model=model)
    assert np.array_equal(plain.transformation, ten_degrees_off)
    answer = bitr.assemble(x, y, model=model, refine=refine)
    assert answer.refine == refine
    assert answer.warnings == ()
    assert_same_pose(answer.transformation, np.eye(4), x, degrees=1.0, length=0.02)
    assert np.array_equal(answer.hypotheses[0].transformation, answer.transformation)
    assert answer.fitness > plain.fitness


@pytest.mark.parametrize("refine", ["icp", "ot"])
def test_refinement_leaves_pieces_that_only_touch_and_says_so(model, ten_degrees_off, refine):
    answer = bitr.assemble(*two_pieces(2000), model=model, refine=refine)
    assert np.array_equal(answer.transformation, ten_degrees_off)
    assert len(answer.warnings) == 1
    assert answer.warnings[0].startswith(f"refine {refine} left the pose as it was: the pieces overlap by")
