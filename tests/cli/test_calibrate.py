"""``bitr calibrate``: the fit goes into the checkpoint, assemble says it, and no test pair is fitted on."""

import json

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import bitr
from bitr import BITR
from bitr.assembly.assemble import Settings, judge
from bitr.assembly.network import KEY, Network, with_verifier
from bitr.assembly.verify import NAMES
from bitr.cli import main
from bitr.data import dataset
from bitr.evaluation.calibrate import Origin, pairs_of
from bitr.model.checkpoint import note_of
from tests.assembly.cases import SMALL, linear_verifier

pytestmark = pytest.mark.slow

POINTS, PAIRS = 110, 10
"""Of a jug in place of 800, and enough to fit on in place of 50."""


@pytest.fixture(autouse=True, scope="module")
def _small_and_few():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bitr.data.bunny.JUG_POINTS", POINTS)
        patch.setattr("bitr.evaluation.calibrate.LEAST", PAIRS)
        patch.setattr("bitr.evaluation.calibrate.STEPS", 30)
        yield


@pytest.fixture
def plain(tmp_path):
    return bitr.save(BITR(SMALL), tmp_path / "tiny.safetensors")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A checkpoint after its calibration."""
    torch.manual_seed(0)
    path = bitr.save(BITR(SMALL), tmp_path_factory.mktemp("calibrate") / "tiny.safetensors")
    assert main(["calibrate", str(path), "jugs", "--pairs", str(PAIRS)]) == 0
    return path


def calibrated(capsys, *arguments):
    status = main(["calibrate", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_fit_is_inside_and_says_what_it_was_fitted_on(fitted):
    inside = json.loads(note_of(fitted, KEY))
    origin = {key: inside["origin"][key] for key in ("data", "split", "seed", "pairs")}
    assert origin == {"data": "jugs", "split": "val", "seed": 0, "pairs": PAIRS}
    assert tuple(inside["names"]) == NAMES
    assert "model" in inside["joints"]
    network = Network.of(fitted)
    assert network.fitted
    assert network.own_verifier is not None


def test_the_confidence_is_measured_on_test_pairs_and_the_checkpoint_left(fitted, capsys, tmp_path):
    before, picture = fitted.read_bytes(), tmp_path / "diagram.png"
    status, out, err = calibrated(
        capsys, fitted, "jugs", "--test", "--pairs", 10, "--json", "--diagram", picture
    )
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["split"], found["pairs"]) == ("test", 10)
    assert 0 <= found["expected_calibration_error"] <= 1
    assert len(found["bins"]["confidence"]) == 10
    assert fitted.read_bytes() == before
    with Image.open(picture) as image:
        image.verify()


def test_without_json_it_prints_a_table(fitted, capsys):
    status, out, err = calibrated(capsys, fitted, "jugs", "--test", "--pairs", 10)
    assert (status, err) == (0, "")
    assert f"{fitted} on 10 pairs of jugs, test" in out
    assert "| share right | right candidate found |" in out


def test_assemble_says_the_confidence_of_a_calibrated_checkpoint(fitted):
    pair = dataset("jugs", "test")[0]
    x, y = pair.source.points, pair.reference.points
    found = bitr.assemble(x, y, model=fitted)
    assert 0 < found.confidence < 1
    assert json.loads(found.to_json())["confidence"] == found.confidence
    assert bitr.assemble(y, x, model=fitted).confidence == pytest.approx(found.confidence, abs=1e-6)
    assert bitr.assemble(7 * x, 7 * y, model=fitted).confidence == pytest.approx(found.confidence, abs=1e-6)


def test_a_copy_leaves_the_checkpoint_as_it_was(plain, tmp_path):
    before, copy = plain.read_bytes(), tmp_path / "copy.safetensors"
    with_verifier(plain, copy, linear_verifier(), ("model",))
    assert plain.read_bytes() == before
    weights = load_file(plain)
    assert all(torch.equal(value, weights[key]) for key, value in load_file(copy).items())


def test_more_pairs_than_a_split_has_are_sampled_anew(monkeypatch):
    monkeypatch.setattr("bitr.data.bunny.JUGS", {"val": 20, "test": 20})
    found = pairs_of(Origin("jugs", "val", 3, 50), None)
    assert [(len(each), each.seed) for each in found] == [(20, 3), (20, 4), (10, 5)]


WRONG = {
    "the test split": (
        ("jugs", "--split", "test"),
        "the test split is not fitted on; measure on it with --test",
    ),
    "output with --test": (("jugs", "--test", "-o", "a.safetensors"), "with --test none is fitted"),
    "few pairs": (("jugs", "--pairs", "3"), "3 pairs, expected at least 10 to fit on"),
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


def test_a_model_of_a_run_sees_as_many_points_as_in_training(plain, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    bitr.save(bitr.load(plain), run)
    pair = dataset("jugs", "test")[0]
    x, y = pair.source, pair.reference

    def seen(checkpoint, **settings):
        judged = judge(x, y, Network.of(checkpoint), Settings(fast=True, **settings))
        return max(len(side.points) for side in judged.sampled.seen[0])

    (run / "config.toml").write_text("[data]\nname = 'jugs'\npoints = 32\n")
    assert Network.of(run).points == 32
    assert (seen(run), seen(run, points=12), seen(plain)) == (32, 12, max(len(x.points), len(y.points)))


def test_a_folder_that_has_the_name_of_shipped_weights_adds_nothing_to_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = Network.of("default").points
    (tmp_path / "default").mkdir()
    (tmp_path / "default" / "config.toml").write_text("[data]\nname = 'jugs'\npoints = 15\n")
    assert Network.of("default").points == expected != 15
