import re

import numpy as np
import pytest
import torch
from examples.make_demo_scans import SEED, scans

from bitr import BITR, BITRConfig, save
from bitr.cli import demo, main
from bitr.io import read

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "new" / "demo"


@pytest.fixture(scope="module")
def demo_output(folder):
    with pytest.MonkeyPatch.context() as patch:
        lines = []
        patch.setattr("builtins.print", lambda text: lines.append(text))
        assert main(["demo", "--output", str(folder)]) == 0
    return "\n".join(lines)


def test_three_things_are_put_together_each_with_its_error_and_verdict(demo_output):
    """A wrong file of weights or truth would be off by 126° on average."""
    errors = re.findall(r"error +(\S+)° off, and (\S+) of the size", demo_output)
    verdicts = re.findall(r"right +(yes|no); right is within 15° and 0.1 of the size", demo_output)
    assert [float(angle) < 15 and float(offset) < 0.1 for angle, offset in errors] == [True] * 3
    assert verdicts == ["yes"] * 3
    assert "5 of 5 right beside each other" in demo_output


def test_the_laws_hold_on_the_first_pair(demo_output):
    (gap,) = re.findall(r"the answer is (\S+) from where they put it", demo_output)
    assert float(gap) <= 1e-6


def test_one_page_shows_them_all(demo_output, folder):
    assert [path.name for path in folder.iterdir()] == [demo.PAGE]
    assert demo_output.endswith(f"wrote {folder / demo.PAGE}")
    page = (folder / demo.PAGE).read_text(encoding="utf-8")
    assert page.count('<article class="puzzle">') == 3
    for title in (*demo.PAIRS.values(), "A jug in 5 pieces"):
        assert f"<h2>{title}</h2>" in page
    for _, angle in re.findall(r"(error) +(\S+° off)", demo_output):
        assert angle in page


def test_demo_runs_again_in_the_same_folder_and_with_other_weights(tmp_path, capsys):
    torch.manual_seed(0)
    path = save(BITR(BITRConfig(num_keypoints=8)), tmp_path / "untrained.safetensors")
    (tmp_path / demo.PAGE).write_text("of an earlier run")
    assert main(["demo", "--output", str(tmp_path), "--model", str(path)]) == 0
    assert "A jug in 5 pieces" in capsys.readouterr().out
    assert (tmp_path / demo.PAGE).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_demo_in_a_place_that_cannot_be_a_folder_is_bad_input(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["demo", "--output", str(tmp_path / "file")]) == 2
    assert "file" in capsys.readouterr().err


def test_the_scans_are_those_of_their_script():
    pair = scans(SEED)
    for side, name in ((pair.source, "source"), (pair.reference, "reference")):
        stored = read(demo.ASSETS / f"scan-{name}.ply").points
        assert abs(stored - side.points).max() < 1e-6
    np.testing.assert_allclose(np.loadtxt(demo.ASSETS / "scan-pose.txt"), pair.ref_from_src, atol=1e-12)
