"""torch.compile and torch.export: one graph, the same pose, the same laws.

Each in a process of its own: the shape checks that the tests put around functions are not part of the model.
"""

import shutil
import subprocess
import sys

import pytest

SCRIPT = """
import torch
from bitr import BITR, BITRConfig, Rigid
from bitr.testing import SETTINGS, as_rigid, example_pair, pose_gap, untrained_model
from bitr.testing import assert_bi_equivariant, assert_scale_equivariant, assert_swap_equivariant

torch.set_num_threads(1)
x, y = example_pair(0, 60, SETTINGS[0])


class Matrix(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, y):
        return self.model(x, y).matrix()


for kind in ("default", "paper"):
    model = untrained_model(kind, 0, torch.float64)
    expected = as_rigid(model(x, y))
    exported = torch.export.export(Matrix(model), (x, y), strict=False).module()
    assert pose_gap(as_rigid(exported(x, y)), expected, x) < 1e-10, "exported"
    assert_bi_equivariant(exported, x, y, tol=1e-8)
    assert_swap_equivariant(exported, x, y, tol=1e-8)
    assert_scale_equivariant(exported, x, y, tol=1e-8)

    compiled = torch.compile(Matrix(model), fullgraph=True, backend="aot_eager")
    assert pose_gap(as_rigid(compiled(x, y)), expected, x) < 1e-10, "compiled"
    model.zero_grad()
    compiled(x, y).sum().backward()
    ours = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    model(x, y).matrix().sum().backward()
    theirs = [p.grad for p in model.parameters() if p.grad is not None]
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)
print("same pose, same laws, same gradients")
"""

INDUCTOR = """
import torch
from bitr import BITR, BITRConfig
from bitr.testing import SETTINGS, as_rigid, example_pair, pose_gap
from bitr.testing import assert_bi_equivariant, assert_scale_equivariant, assert_swap_equivariant

torch.set_num_threads(1)
torch.manual_seed(0)
x, y = example_pair(0, 60, SETTINGS[0])
model = BITR(BITRConfig(num_layers=1)).double().eval()  # every kind of layer, and few to compile
compiled = torch.compile(model, fullgraph=True, backend="inductor")
with torch.no_grad():
    assert pose_gap(as_rigid(compiled(x, y)), as_rigid(model(x, y)), x) < 1e-10
    assert_bi_equivariant(compiled, x, y, tol=1e-8)
    assert_swap_equivariant(compiled, x, y, tol=1e-8)
    assert_scale_equivariant(compiled, x, y, tol=1e-8)
print("same pose, same laws")
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=900, check=False
    )


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="inductor needs a C++ compiler"
)
def test_a_model_compiled_to_machine_code_is_one_graph_with_the_same_pose_and_laws():
    done = run(INDUCTOR)
    assert "same pose, same laws" in done.stdout, done.stderr[-3000:]


@pytest.mark.slow
def test_compiled_and_exported_models_are_one_graph_with_the_same_pose_laws_and_gradients():
    done = run(SCRIPT)
    assert "same pose, same laws, same gradients" in done.stdout, done.stderr[-3000:]
