"""ONNX: the file alone gives the pose of the model, and keeps its laws.

The export runs in a process of its own: the shape checks that the tests put around every function are not
part of the model.
"""

import subprocess
import sys

import pytest
import torch

from bitr import BITR, BITRConfig, Rigid
from bitr.errors import InputError
from bitr.groups import nearest_rotation_and_gap
from bitr.model.export import nearest_rotation_by_squaring, to_onnx

SCRIPT = """
import sys
import onnxruntime
import torch
from bitr.model.export import to_onnx
from bitr.testing import SETTINGS, as_rigid, example_pair, pose_gap, untrained_model
from bitr.testing import assert_bi_equivariant, assert_scale_equivariant, assert_swap_equivariant

kind, path = sys.argv[1:]
torch.set_num_threads(1)
x, y = example_pair(0, 60, SETTINGS[0])
model = untrained_model(kind, 0, torch.float32)
assert str(to_onnx(model, path, 60, 60)) == path
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
assert [i.name for i in session.get_inputs()] == ["source", "reference"]


def run(x, y):
    pose, gap = session.run(["pose", "singular_gap"], {"source": x.numpy(), "reference": y.numpy()})
    return pose


expected = model.solve(x, y)
assert pose_gap(as_rigid(run(x, y)), as_rigid(expected.pose), x) < 1e-4, "another pose"
gap = session.run(["singular_gap"], {"source": x.numpy(), "reference": y.numpy()})[0]
assert abs(gap - expected.singular_gap.detach().numpy()).max() < 1e-4, "another gap"
assert_bi_equivariant(run, x, y, tol=1e-3)
assert_swap_equivariant(run, x, y, tol=1e-4)
assert_scale_equivariant(run, x, y, tol=1e-4)
print("same pose, same laws")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["default", "paper"])
def test_an_onnx_file_gives_the_same_pose_and_keeps_the_laws(kind, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    call = [sys.executable, "-c", SCRIPT, kind, str(tmp_path / "model.onnx")]
    done = subprocess.run(call, capture_output=True, text=True, timeout=600, check=False)
    assert "same pose, same laws" in done.stdout, done.stderr[-3000:]
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]  # and nothing beside it


def test_products_alone_find_the_rotation_and_gap_that_the_svd_finds(rng):
    a = torch.randn(200, 3, 3, generator=rng, dtype=torch.float64)
    assert (a.det() < 0).any()
    for noise in (0.0, 3.0):
        rotation, gap = nearest_rotation_by_squaring(a, noise)
        expected, expected_gap = nearest_rotation_and_gap(a, noise)
        torch.testing.assert_close(gap, expected_gap, atol=1e-12, rtol=0)
        torch.testing.assert_close(rotation, expected, atol=1e-12 / float(expected_gap.min()), rtol=0)


@pytest.mark.parametrize("gap", [1e-3, 1e-6])
def test_products_find_a_rotation_that_is_barely_determined(rng, gap):
    u, v = Rigid.random(rng).rotation, Rigid.random(rng).rotation
    a = u @ torch.diag(torch.tensor([1.0, 0.5 + gap, -0.5], dtype=torch.float64)) @ v.mT
    rotation, found = nearest_rotation_by_squaring(a)
    torch.testing.assert_close(rotation, u @ v.mT, atol=1e-13 / gap, rtol=0)
    torch.testing.assert_close(found, torch.tensor(gap, dtype=torch.float64) / a.norm(), atol=1e-14, rtol=0)


def test_a_rotation_is_its_own_nearest_and_scale_does_not_matter(rng):
    r = Rigid.random(rng, 20).rotation
    for factor in (1.0, 1e-9, 1e9):
        torch.testing.assert_close(nearest_rotation_by_squaring(factor * r)[0], r, atol=1e-13, rtol=0)


def test_nothing_at_all_gives_finite_numbers_and_no_gap():
    rotation, gap = nearest_rotation_by_squaring(torch.zeros(3, 3, dtype=torch.float64), 0.1)
    assert rotation.isfinite().all()
    assert float(gap) == pytest.approx(0, abs=1e-12)


def test_what_cannot_be_exported_is_refused_before_any_file_is_made(tmp_path, monkeypatch):
    target = tmp_path / "model.onnx"
    with pytest.raises(InputError, match="normals or colours"):
        to_onnx(BITR(BITRConfig(normals=True)), target, 10, 10)
    with pytest.raises(InputError, match="n_reference = 3"):
        to_onnx(BITR(), target, 10, 3)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InputError, match=r"\.\[export\]"):
        to_onnx(BITR(), target, 10, 10)
    assert list(tmp_path.iterdir()) == []
