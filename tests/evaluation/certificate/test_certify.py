"""The whole certificate, of models and of any method."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from bitr import BITR, BITRConfig, Rigid, arun
from bitr.errors import InputError
from bitr.evaluation.certificate import Route, audit, certify
from bitr.evaluation.certificate.bounds import BOUNDS, LAWS
from bitr.evaluation.certificate.page import verdict
from bitr.evaluation.certificate.pairs import cloud_pair, mesh_pair
from bitr.evaluation.certificate.refinements import first_pose, refinement_routes
from bitr.refine import REFINEMENTS, one_sided_icp
from bitr.testing import as_rigid, pose_gap, untrained_model
from tests.evaluation.certificate.broken import small


@pytest.fixture(autouse=True)
def _faster(monkeypatch):
    """Smaller clouds, and no refinement, which has a test of its own; the command is tried as it is."""
    for module in ("making", "model_routes"):
        monkeypatch.setattr(f"bitr.evaluation.certificate.{module}.POINTS", 150)
    monkeypatch.setattr("bitr.evaluation.certificate.making.refinement_routes", list)


def paths(certificate):
    return list(dict.fromkeys(row.path for row in certificate.rows if row.kind == "end to end"))


@pytest.mark.parametrize("kind", ["default", "paper"])
def test_the_default_and_paper_models_pass(kind):
    certificate = certify(untrained_model(kind, 0, torch.float32), trials=1, traced=())
    assert certificate.ok, verdict(certificate)
    assert paths(certificate) == ["model, float64", "model, float32", "model, bfloat16 autocast"]
    rounded = [row for row in certificate.rows if row.precision == "bfloat16" and row.law == "bi"]
    assert rounded[0].worst > 1e-4, "nothing was rounded"
    single = [row for row in certificate.rows if row.precision == "float32" and row.law == "bi"]
    assert single[0].worst > 1e-8
    assert {row.trials for row in certificate.rows if BOUNDS[row.precision].judged == "worst"} == {1}
    assert rounded[0].trials == 5, "one trial has no median"


@pytest.mark.parametrize("lost", ["swap", "scale"])
def test_without_one_law_only_that_law_is_broken_end_to_end_too(lost):
    certificate = certify(small(**{lost: False}), trials=1, traced=())
    assert certificate.broken == (lost,)
    for path in paths(certificate):
        assert [row.law for row in certificate.rows if row.path == path and not row.ok] == [lost]
    assert verdict(certificate).startswith(f"Broken: Δ_{lost} (first in ")


def test_a_certificate_depends_on_the_seed_alone():
    first, again, other = (audit(by_rows, trials=2, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.rows != other.rows


def test_a_route_around_the_model_has_rows_of_its_own():
    def shifted(x, y):
        return np.eye(4)

    certificate = certify(
        small(), trials=1, traced=(), routes=[Route("identity", shifted, "method", mesh_pair(30))]
    )
    rows = {row.law: row for row in certificate.rows if row.path == "identity"}
    assert [law for law in LAWS if not rows[law].ok] == ["bi"]
    assert certificate.first_broken_layer("bi") is None
    assert verdict(certificate) == "Broken: Δ_bi."


def test_refinement_moves_the_pose_and_keeps_the_laws(rng):
    routes = {route.path: route for route in refinement_routes()}
    assert set(routes) == {f"refine {name}, near the answer" for name in REFINEMENTS if name != "none"}
    for route in routes.values():
        x, y = route.make(rng)
        first, refined = first_pose(x, y), route.solve(x, y)
        half = len(x.points) // 2
        truth = by_rows(x.points[:half], y.points[:half])
        before, after = (pose_gap(as_rigid(pose), truth, x.points) for pose in (first, refined))
        assert after < before / 2
    assert all(row.ok for row in routes["refine icp, near the answer"].rows(2, 0))


def test_a_refinement_from_source_to_reference_alone_breaks_the_swap():
    make = refinement_routes()[0].make

    def one_way(x, y):
        return one_sided_icp(x.points, y.points, first_pose(x, y))

    rows = {row.law: row for row in Route("one way", one_way, "float64", make).rows(1, 0)}
    assert [law for law in LAWS if not rows[law].ok] == ["swap"]


def test_meshes_are_closed_and_turn_with_their_vertices(rng):
    x, y = mesh_pair(50)(rng)
    assert len(x.points) == len(y.points) == 50
    assert len(x.faces) == 2 * 50 - 4  # Euler, for a sphere
    edges = np.sort(np.concatenate([x.faces[:, [0, 1]], x.faces[:, [1, 2]], x.faces[:, [2, 0]]]), axis=1)
    assert set(np.unique(edges, axis=0, return_counts=True)[1]) == {2}


def test_what_cannot_be_traced_is_told_and_is_not_a_pass():
    torch.manual_seed(0)
    model = BITR(BITRConfig(normals=True, num_keypoints=8, num_layers=1))
    certificate = certify(model, trials=1, traced=("compiled", "torch.export"))
    reasons = {each.path: each.why for each in certificate.skipped}
    assert reasons.pop("ONNX") == "not asked for"
    assert set(reasons) == {"compiled", "torch.export"}
    assert all("normals or colours" in why for why in reasons.values())


def test_the_number_of_trials_is_checked():
    for trials in (0, -3, 100_000):
        with pytest.raises(InputError, match=f"trials = {trials}: expected"):
            certify(small(), trials=trials)
        with pytest.raises(InputError, match="expected a whole number from 1"):
            audit(lambda x, y: np.eye(4), trials=trials)


TRACED = """
import torch
from bitr import BITR, BITRConfig
from bitr.evaluation.certificate import certify

torch.set_num_threads(1)
torch.manual_seed(0)
model = BITR(BITRConfig(num_keypoints=6, num_neighbors=6, channels=2, num_layers=1))
print(certify(model, trials=1, traced=("compiled", "torch.export", "ONNX")).to_json())
"""


@pytest.mark.slow
def test_compiled_and_exported_models_have_rows():
    """In a process of its own: the shape checks of the tests are not part of the model."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["ok"], found
    assert found["skipped"] == []
    held_to = {row["path"]: row["precision"] for row in found["rows"] if row["kind"] == "end to end"}
    assert held_to["compiled (aot_eager), float64"] == held_to["torch.export, float64"] == "float64"
    assert held_to["ONNX, float32"] == "float32"


def by_rows(x, y):
    """Arun's method, as if the points corresponded in their order."""
    return arun(torch.from_numpy(x), torch.from_numpy(y))


def centroids(x, y):
    pose = np.eye(4)
    pose[:3, 3] = y.mean(0) - x.mean(0)
    return pose


def turned_about_the_source(x, y):
    """Lawful but for the swap: a motion that follows the source alone comes first."""
    center, far = x.mean(0), x[np.linalg.norm(x - x.mean(0), axis=1).argmax()]
    push = Rigid(torch.eye(3).double(), torch.from_numpy(0.1 * (far - center)))
    return by_rows(x, y) @ push


def in_millimetres(x, y):
    """Lawful but for the scale: a fixed length along an axis that follows the source and the reference."""
    pose = by_rows(x, y)
    gap = torch.from_numpy(y[0]) - pose.act(torch.from_numpy(x[:1]))[0]
    return Rigid(pose.rotation, pose.translation + 0.1 * gap / gap.norm())


@pytest.mark.parametrize(
    ("method", "broken"),
    [
        (by_rows, ()),
        (lambda x, y: by_rows(x, y).matrix().numpy(), ()),
        (centroids, ("bi",)),
        (turned_about_the_source, ("swap",)),
        (in_millimetres, ("scale",)),
        (lambda x, y: np.full((4, 4), np.nan), LAWS),
    ],
)
def test_any_method_can_be_audited(method, broken):
    certificate = audit(method, trials=3)
    assert certificate.broken == broken
    assert {row.kind for row in certificate.rows} == {"end to end"}
    assert {row.precision for row in certificate.rows} == {"method"}


def test_an_answer_in_float32_is_held_to_the_bounds_of_float32():
    certificate = audit(lambda x, y: by_rows(x, y).to(torch.float32), trials=2)
    assert certificate.ok
    assert {row.precision for row in certificate.rows} == {"float32"}
    assert max(row.worst for row in certificate.rows) > 1e-9


@pytest.mark.parametrize(
    ("answer", "says"),
    [(np.eye(3), r"shape \(3, 3\)"), ("a pose", "returned str"), (None, "returned NoneType")],
)
def test_an_answer_that_is_no_pose_is_bad_input(answer, says):
    with pytest.raises(InputError, match=says):
        audit(lambda x, y: answer, trials=1)


def test_a_method_cannot_change_the_pair_that_the_law_is_checked_on():
    def careless(x, y):
        pose = by_rows(x, y)
        x += 1
        return pose

    assert audit(careless, trials=2).ok


def test_pieces_of_a_pair_have_the_share_that_was_asked_for(rng):
    x, y = cloud_pair(100, share=0.3)(rng)
    assert (len(x.points), len(y.points)) == (30, 70)
    np.testing.assert_allclose(np.linalg.norm(x.normals, axis=1), 1)
    assert 0 <= x.colors.min() <= x.colors.max() <= 1
