import re

import pytest
import torch

from bitr import BITR, BITRConfig, save
from bitr.cli import main

pytestmark = pytest.mark.slow


@pytest.fixture
def demo_output(tmp_path, capsys):
    assert main(["demo", "--output", str(tmp_path / "new" / "demo")]) == 0
    return capsys.readouterr().out


def test_demo_prints_the_pose_its_error_and_the_laws(demo_output):
    angle, offset = re.search(r"known answer: (\S+)° off, and (\S+) of", demo_output).groups()
    assert float(angle) < 30  # a wrong file of weights or truth would be off by 126° on average
    assert float(offset) < 0.5
    right = float(angle) < 15 and float(offset) < 0.1
    assert f"That is {'' if right else 'not '}right, which is within 15° and 0.1 of the size." in demo_output
    laws = re.findall(r"Δ_\w+ ([^\s,;]+)", demo_output)
    assert len(laws) == 3
    assert max(map(float, laws)) <= 1e-6


def test_demo_says_where_the_picture_and_the_report_are(demo_output, tmp_path):
    written = [line.split(maxsplit=1)[1] for line in demo_output.splitlines() if line.startswith("wrote")]
    folder = tmp_path / "new" / "demo"
    assert {folder / name for name in ("demo.html", "demo.png", "assembled.ply")} <= set(folder.iterdir())
    assert sorted(written) == sorted(str(path) for path in folder.iterdir())


def test_demo_runs_again_in_the_same_folder_and_with_other_weights(tmp_path, capsys):
    torch.manual_seed(0)
    path = save(BITR(BITRConfig(num_keypoints=8)), tmp_path / "untrained.safetensors")
    for _ in range(2):
        assert main(["demo", "--output", str(tmp_path), "--model", str(path)]) == 0
    assert "untrained" in capsys.readouterr().out


def test_demo_in_a_place_that_cannot_be_a_folder_is_bad_input(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["demo", "--output", str(tmp_path / "file")]) == 2
    assert "file" in capsys.readouterr().err
