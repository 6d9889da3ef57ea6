"""The scripts that made what the package ships."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import bitr
from bitr.evaluation.metrics import rotation_error_deg
from bitr.groups import Rigid
from bitr.io import read

ROOT = Path(__file__).parents[2]
ASSETS, WEIGHTS = (ROOT / "src" / "bitr" / name for name in ("assets", "weights"))


@pytest.fixture(scope="module")
def training():
    return runpy.run_path(str(ROOT / "examples" / "train_jugs.py"))


def test_the_demo_pair_is_what_its_script_makes(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_demo_pair.py", str(tmp_path)])
    runpy.run_path(str(ROOT / "examples" / "make_demo_pair.py"), run_name="__main__")
    for name in ("demo-source.ply", "demo-reference.ply"):
        assert abs(read(tmp_path / name).points - read(ASSETS / name).points).max() < 1e-6
    assert (tmp_path / "demo-pose.txt").read_text()[:60] == (ASSETS / "demo-pose.txt").read_text()[:60]


def test_the_sherds_are_what_their_script_makes(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_sherds.py", str(tmp_path)])
    runpy.run_path(str(ROOT / "examples" / "make_sherds.py"), run_name="__main__")
    for name in ("sherd-a.ply", "sherd-b.ply"):
        made, kept = read(tmp_path / name), read(ASSETS / name)
        assert (made.faces == kept.faces).all()
        assert abs(made.points - kept.points).max() < 1e-3  # of 120
    assert (tmp_path / "sherd-pose.txt").read_text()[:60] == (ASSETS / "sherd-pose.txt").read_text()[:60]
    assert sum((ASSETS / name).stat().st_size for name in ("sherd-a.ply", "sherd-b.ply")) < 300_000


@pytest.mark.slow
def test_the_sherds_are_joined_by_their_breaks():
    found = bitr.assemble(ASSETS / "sherd-a.ply", ASSETS / "sherd-b.ply")
    truth = np.loadtxt(ASSETS / "sherd-pose.txt")
    assert found.method == "mate"
    assert rotation_error_deg(found.transformation, truth) < 2
    assert np.linalg.norm(found.transformation[:3, 3] - truth[:3, 3]) < 12  # a tenth of the radius


def test_the_demo_puzzle_is_what_its_script_makes(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_demo_puzzle.py", str(tmp_path)])
    runpy.run_path(str(ROOT / "examples" / "make_demo_puzzle.py"), run_name="__main__")
    for number in range(1, 6):
        name = f"puzzle-{number}.ply"
        assert abs(read(tmp_path / name).points - read(ASSETS / name).points).max() < 1e-6
    made, kept = (json.loads((folder / "puzzle-poses.json").read_text()) for folder in (tmp_path, ASSETS))
    assert abs(np.array(made) - np.array(kept)).max() < 1e-9


def test_the_training_script_trains_and_saves(training, tmp_path):
    torch.manual_seed(0)
    model, out = bitr.BITR(bitr.BITRConfig(num_keypoints=4)), tmp_path / "jugs.safetensors"
    before = [p.detach().clone() for p in model.parameters()]
    average = training["train"](model, 2, 2, 1e-3, 0, out)
    assert all(p.isfinite().all() for p in average.parameters())
    assert any((p != q).any() for p, q in zip(model.parameters(), before, strict=True))


def test_its_loss_does_not_change_when_the_pieces_are_swapped_and_is_zero_at_the_truth(training):
    x, y = training["pairs"](2, torch.Generator().manual_seed(0))
    pose = Rigid.random(torch.Generator().manual_seed(1), 2)
    loss = training["pose_loss"]
    assert loss(pose, x, y).item() == pytest.approx(loss(pose.inverse(), y, x).item())
    identity = Rigid(torch.eye(3).double().expand(2, 3, 3), torch.zeros(2, 3).double())
    assert loss(identity, x, y).item() == 0
    assert loss(pose, x, y).item() > 0.1


def test_the_shipped_weights_assemble_jugs_that_they_have_not_seen(training):
    """Far better than chance (126.5°), though they were trained on other things."""
    errors = training["rotation_errors"](bitr.load("default"), training["TEST"], 20)
    assert errors.median() < 40
