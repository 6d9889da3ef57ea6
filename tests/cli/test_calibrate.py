"""``bitr calibrate``: the fit goes into the checkpoint, assemble says it, and no test pair is fitted on."""

import json

import numpy as np
import pytest
import torch
from bitr.app.answer import answer
from bitr.app.calibrate import pairs_of
from bitr.app.calibration import KEY, Origin
from bitr.app.confidence import NAMES
from PIL import Image
from safetensors.torch import load_file

import bitr
from bitr import BITR, BITRConfig
from bitr.assembly.assemble import Settings
from bitr.assembly.network import Network
from bitr.cli import main
from bitr.data import dataset
from bitr.model.checkpoint import note_of
from bitr.training import state

TINY = BITRConfig(num_keypoints=4, channels=2, cloud_channels=2, num_layers=1, num_neighbors=4)
POINTS, PAIRS = 110, 12
"""Of a jug in place of 800, and enough to fit on in place of 50."""


@pytest.fixture(autouse=True, scope="module")
def _small_and_few():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bitr.data.jugs.POINTS", POINTS)
        patch.setattr("bitr.app.calibrate.LEAST", PAIRS)
        yield


@pytest.fixture
def plain(tmp_path):
    return bitr.save(BITR(TINY), tmp_path / "tiny.safetensors")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A checkpoint after its calibration for refine none."""
    torch.manual_seed(0)
    path = bitr.save(BITR(TINY), tmp_path_factory.mktemp("calibrate") / "tiny.safetensors")
    assert main(["calibrate", str(path), "jugs", "--pairs", str(PAIRS), "--refine", "none"]) == 0
    return path


def calibrated(capsys, *arguments):
    status = main(["calibrate", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_fit_is_inside_and_says_what_it_was_fitted_on(fitted):
    inside = json.loads(note_of(fitted, KEY))
    maps = inside.pop("maps")
    assert inside == {"data": "jugs", "split": "val", "seed": 0, "pairs": PAIRS}
    assert list(maps) == ["none"]
    assert tuple(maps["none"]["weights"]) == NAMES


def test_the_confidence_is_measured_on_test_pairs_and_the_checkpoint_left(fitted, capsys, tmp_path):
    before, picture = fitted.read_bytes(), tmp_path / "diagram.png"
    status, out, err = calibrated(
        capsys, fitted, "jugs", "--test", "--pairs", 12, "--json", "--diagram", picture
    )
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["split"], found["pairs"], list(found["refine"])) == ("test", 12, ["none"])
    assert 0 <= found["refine"]["none"]["expected_calibration_error"] <= 1
    assert len(found["refine"]["none"]["bins"]["confidence"]) == 10
    assert fitted.read_bytes() == before
    with Image.open(picture) as image:
        image.verify()


def test_without_json_it_prints_a_table(fitted, capsys):
    status, out, err = calibrated(capsys, fitted, "jugs", "--test", "--pairs", 10)
    assert (status, err) == (0, "")
    assert f"{fitted} on 10 pairs of jugs, test" in out
    assert "| none | " in out


def test_assemble_says_the_confidence_of_a_calibrated_checkpoint(fitted, plain):
    pair = dataset("jugs", "test")[0]
    x, y = pair.source.points, pair.reference.points
    assert bitr.assemble(x, y, model=plain).confidence is None
    found = bitr.assemble(x, y, model=fitted)
    assert 0 < found.confidence < 1
    assert json.loads(found.to_json())["confidence"] == found.confidence
    assert bitr.assemble(y, x, model=fitted).confidence == pytest.approx(found.confidence)
    assert bitr.assemble(7 * x, 7 * y, model=fitted).confidence == pytest.approx(found.confidence)
    assert bitr.assemble(x, y, model=fitted, refine="icp").confidence is None  # not fitted for that


def test_a_copy_leaves_the_checkpoint_as_it_was(fitted, tmp_path):
    before, copy = fitted.read_bytes(), tmp_path / "copy.safetensors"
    Network.of(fitted).calibration.into(fitted, copy)
    assert fitted.read_bytes() == before
    weights = load_file(fitted)
    assert all(torch.equal(value, weights[key]) for key, value in load_file(copy).items())
    assert note_of(copy, KEY) == note_of(fitted, KEY)


def test_more_pairs_than_a_split_has_are_sampled_anew(monkeypatch):
    monkeypatch.setattr("bitr.data.jugs.COUNTS", {"val": 20, "test": 20})
    found = pairs_of(Origin("jugs", "val", 3, 50), None)
    assert [(len(each), each.seed) for each in found] == [(20, 3), (20, 4), (10, 5)]


WRONG = {
    "the test split": (
        ("jugs", "--split", "test"),
        "the test split is not fitted on; measure on it with --test",
    ),
    "no calibration": (("jugs", "--test"), "has no calibration; fit one with bitr calibrate"),
    "output with --test": (("jugs", "--test", "-o", "a.safetensors"), "with --test none is fitted"),
    "few pairs": (("jugs", "--pairs", "3", "--refine", "none"), "3 pairs, expected at least 12 to fit on"),
    "a refinement": (("jugs", "--refine", "gicp"), "--refine gicp: expected one of none, icp, ot"),
    "a data set": (("jug",), "did you mean jugs?"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_done_is_said_in_one_line(plain, capsys, name):
    arguments, message = WRONG[name]
    before = plain.read_bytes()
    status, out, err = calibrated(capsys, plain, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert plain.read_bytes() == before


def test_shipped_weights_are_not_written_to(capsys):
    status, _, err = calibrated(capsys, "default", "jugs")
    assert status == 2
    assert "default: these weights come with bitr; name a file for a copy with --output" in err


def test_pairs_that_were_fitted_on_are_no_test(fitted, capsys):
    status, _, err = calibrated(capsys, fitted, "jugs", "--test", "--split", "val")
    assert status == 2
    assert "was calibrated on the val split of jugs" in err


def test_a_run_folder_has_last_weights_and_its_number_of_points(plain, tmp_path):
    run, last = tmp_path / "run", BITR(TINY)
    (run / "checkpoints").mkdir(parents=True)
    bitr.save(bitr.load(plain), run)
    (run / "config.toml").write_text("[data]\nname = 'jugs'\npoints = 33\n")
    assert (Network.of(run).last, Network.of(run).points) == (None, 33)
    parts = state.Parts(last, bitr.load(plain), (torch.optim.Adam(last.parameters()),))
    state.write(run / "checkpoints", state.pack(parts, state.Progress(), {}), 7, 2)
    found = Network.of(run).last.state_dict()
    assert all(torch.equal(found[key], value.double()) for key, value in last.state_dict().items())
    (run / "checkpoints" / "step-000000007.safetensors").write_bytes(b"damaged")
    assert Network.of(run).last is None


def test_maps_of_other_refinements_stay_if_they_are_of_the_same_pairs(fitted, tmp_path):
    copy = tmp_path / "copy.safetensors"
    Network.of(fitted).calibration.into(fitted, copy)
    assert main(["calibrate", str(copy), "jugs", "--pairs", str(PAIRS), "--refine", "icp"]) == 0
    assert set(Network.of(copy).calibration.maps) == {"none", "icp"}
    assert main(["calibrate", str(copy), "jugs", "--pairs", str(PAIRS + 1), "--refine", "icp"]) == 0
    assert set(Network.of(copy).calibration.maps) == {"icp"}


def test_a_pair_without_a_shape_has_no_confidence(fitted):
    found = bitr.assemble(np.random.default_rng(0).normal(size=(5, 3)), np.eye(4, 3) * 2, model=fitted)
    assert found.degenerate
    assert found.confidence is None


def test_a_model_of_a_run_sees_as_many_points_as_in_training(plain, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    bitr.save(bitr.load(plain), run)
    pair = dataset("jugs", "test")[0]
    x, y = pair.source, pair.reference
    (run / "config.toml").write_text("[data]\nname = 'jugs'\npoints = 32\n")
    network = Network.of(run)
    assert len(answer(x, y, network, Settings()).source.points) == 32
    assert len(answer(x, y, network, Settings(budget=12)).source.points) == 12
    assert len(answer(x, y, Network.of(plain), Settings()).source.points) == len(x.points)


def test_a_folder_that_has_the_name_of_shipped_weights_adds_nothing_to_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "config.toml").write_text("[data]\nname = 'jugs'\npoints = 15\n")
    assert Network.of("default").points == 1000  # as the card says
