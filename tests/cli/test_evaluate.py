"""``bitr evaluate`` from end to end, on a few small pairs of the user's own."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bitr.assembly.network import with_verifier
from bitr.assembly.refine import REFINEMENTS, none
from bitr.cli import evaluate as command
from bitr.cli import main
from bitr.data import dataset
from bitr.data.own import write_pairs
from bitr.data.poses import pose
from bitr.evaluation.evaluate import evaluate as evaluate_method
from bitr.evaluation.method import Method
from bitr.evaluation.report import Repeated
from tests.assembly.cases import linear_verifier
from tests.data.cases import pair_of
from tests.show.parsed import Parsed

FILES = {"evaluation.json", "table.md", "rotation_error.png", "recall.png", "median_pair.png"}


@pytest.fixture(scope="session")
def own_pairs(tmp_path_factory):
    rng = np.random.default_rng(0)
    pairs = [replace(pair_of(40, rng), id=f"pair {i}") for i in range(3)]
    folder = tmp_path_factory.mktemp("own") / "pairs"
    write_pairs(folder, pairs, "test")
    return folder


@pytest.fixture
def engine(capsys):
    """Runs the command; returns exit status, standard output and standard error."""

    def run(*arguments):
        status = main(["evaluate", *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def evaluate(engine):
    """The same with --fast for a checkpoint, where all that matters is what is read and written."""
    return lambda *arguments: engine(*arguments, *([] if "--predictions" in arguments else ["--fast"]))


@pytest.mark.slow
def test_the_default_weights_on_own_pairs(engine, own_pairs):
    status, out, err = engine("default", own_pairs, "--limit", 1)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("bitr 0")
    assert "samplings 1" in lines[0]
    assert lines[4].startswith("| default | 1 | 0 |")
    assert lines[5].startswith("| chance | – | – | 126.5 ± 37.0 |")


def test_a_refinement_comes_after_every_pose(evaluate, own_pairs, monkeypatch):
    """A stand-in refinement that knows the answer: it is asked with the model's pose and all points."""
    asked = []

    def right(source, reference, pose):
        asked.append((len(source), len(reference)))
        return none(source, reference, np.eye(4))

    monkeypatch.setitem(REFINEMENTS, "icp", right)
    status, out, err = evaluate("default", own_pairs, "--refine", "icp")
    assert (status, err) == (0, "")
    assert "refine icp" in out
    assert asked == [(40, 40)] * 3


def test_a_run_sees_as_many_points_as_in_training(evaluate, own_pairs, weights, tmp_path):
    shutil.copy(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.toml").write_text("[data]\npoints = 32\n")
    status, out, _ = evaluate(tmp_path, own_pairs)
    assert status == 0
    assert "points 32" in out
    assert "points 20" in evaluate(tmp_path, own_pairs, "--points", "20")[1]


def test_json_is_one_object_and_nothing_else(evaluate, own_pairs, weights):
    status, out, err = evaluate(weights, own_pairs, "--json")
    assert (status, err) == (0, "")
    assert out.count("\n") == 1
    found = json.loads(out)
    assert (found["dataset"], found["checkpoint"]) == (str(own_pairs), str(weights))
    assert [score["id"] for score in found["rows"][0]["samplings"][0]["scores"]] == [
        "pair 0",
        "pair 1",
        "pair 2",
    ]


def test_a_lawful_model_is_as_good_on_perturbed_pairs(evaluate, own_pairs):
    found = json.loads(evaluate("default", own_pairs, "--perturb", "--limit", 1, "--json")[1])["rows"]
    assert [row["name"] for row in found] == [
        f"default, {t}" for t in ("original", "swapped", "scaled", "moved")
    ]
    for row in found[1:]:
        for error in ("rotation_error_deg", "translation_error", "displacement"):
            expected = found[0]["pooled"][error]["mean"]
            assert row["pooled"][error]["mean"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_the_folder_gets_json_table_and_plots(evaluate, own_pairs, weights, tmp_path):
    folder = tmp_path / "out"
    status, out, err = evaluate(weights, own_pairs, "-o", folder)
    assert (status, err) == (0, "")
    assert {path.name for path in folder.iterdir()} == FILES
    assert f"wrote {folder / 'table.md'}" in out
    assert (folder / "table.md").read_text(encoding="utf-8") in out
    assert json.loads((folder / "evaluation.json").read_text())["rows"][0]["pooled"]["pairs"] == 3
    for name in ("rotation_error.png", "recall.png", "median_pair.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    status, _, err = evaluate(weights, own_pairs, "-o", folder)
    assert status == 2
    assert "exists already" in err
    assert evaluate(weights, own_pairs, "-o", folder, "--force", "--limit", 1)[0] == 0
    assert json.loads((folder / "evaluation.json").read_text())["rows"][0]["pooled"]["pairs"] == 1


@pytest.mark.slow
def test_the_page_shows_the_pairs_with_errors_laws_and_poses(evaluate, own_pairs, weights, tmp_path):
    path = tmp_path / "report.html"
    status, out, err = evaluate(weights, own_pairs, "--html", path)
    assert (status, err) == (0, "")
    assert f"wrote {path}" in out
    page = path.read_text(encoding="utf-8")
    assert "://" not in page
    parsed = Parsed(page)
    scenes = [json.loads(e["text"]) for e in parsed.all("script", **{"class": "scene"})]
    assert [scene["source"]["count"] for scene in scenes] == ["40 points"] * 3
    for i in range(3):
        assert f"pair {i}" in [e["text"] for e in parsed.all("button")]
    cells = [e["text"] for e in parsed.all("td")]
    laws = [text for text in cells if text.startswith("Δ_bi")]
    assert len(laws) == 3
    for text in laws:
        found = [float(value) for value in re.findall(r"Δ_\w+ (\S+?)[,;]", text)]
        assert len(found) == 3
        assert max(found) < 1e-6
    assert sum(text.endswith("%") and text[:-1].isdigit() for text in cells) >= 3  # confidences
    refused(evaluate(weights, own_pairs, "--html", path), "exists already")
    assert evaluate(weights, own_pairs, "--html", path, "--force", "--limit", 1)[0] == 0
    assert len(Parsed(path.read_text(encoding="utf-8")).all("script", **{"class": "scene"})) == 1


@pytest.mark.slow
def test_the_page_has_the_confidence_of_calibrated_weights(evaluate, own_pairs, weights, tmp_path):
    calibrated, path = tmp_path / "calibrated.safetensors", tmp_path / "report.html"
    with_verifier(weights, calibrated, linear_verifier(), ("model",))
    assert evaluate(calibrated, own_pairs, "--html", path)[0] == 0
    cells = [e["text"] for e in Parsed(path.read_text(encoding="utf-8")).all("td")]
    assert cells.count("50%") == 3


def test_the_page_of_predictions_has_no_laws(evaluate, own_pairs, tmp_path):
    file, path = tmp_path / "poses.csv", tmp_path / "report.html"
    pose = " ".join(map(str, np.eye(4).ravel().tolist()))
    file.write_text(f"id,transformation\npair 0,{pose}\npair 1,\npair 2,{pose}\n")
    assert evaluate("--predictions", file, own_pairs, "--html", path)[0] == 0
    page = path.read_text(encoding="utf-8")
    assert "Δ_bi" not in page
    assert "no answer: the file has no answer" in page
    assert len(Parsed(page).all("script", **{"class": "scene"})) == 2


def test_the_picture_is_of_the_pair_in_the_middle(own_pairs):
    degrees = dict(zip(("pair 0", "pair 1", "pair 2"), (40.0, 20.0, 30.0), strict=True))

    def solve(pair):
        turn = Rotation.from_rotvec([0, 0, degrees[pair.id]], degrees=True).as_matrix()
        return pose(turn, np.zeros(3)) @ pair.ref_from_src

    def pairs_of(sampling):
        return dataset(str(own_pairs))

    none = Method("none", lambda pair: np.full((4, 4), np.nan))
    samplings = tuple(evaluate_method(each, pairs_of(0)) for each in (none, Method("turned", solve)))
    scene = command.find_median(Repeated("turned", samplings), pairs_of)
    assert scene.title == "pair 2"
    np.testing.assert_allclose(scene.transformation, solve(pairs_of(0)[2]), atol=1e-12)


def test_the_points_are_what_the_model_sees(evaluate, own_pairs, weights):
    def poses(*options):
        scores = json.loads(evaluate(weights, own_pairs, "--limit", 1, "--json", *options)[1])["rows"][0][
            "samplings"
        ][0]
        return np.array([score["transformation"] for score in scores["scores"]])

    assert np.abs(poses() - poses("--points", 1000)).max() == 0
    assert np.abs(poses() - poses("--points", 20)).max() > 1e-6


def test_own_predictions_score_as_the_model_did(evaluate, own_pairs, weights, tmp_path):
    found = json.loads(evaluate(weights, own_pairs, "--json")[1])["rows"][0]["samplings"][0]
    path = tmp_path / "poses.jsonl"
    path.write_text(
        "".join(json.dumps({k: s[k] for k in ("id", "transformation")}) + "\n" for s in found["scores"])
    )
    status, out, err = evaluate("--predictions", path, own_pairs, "--json")
    assert (status, err) == (0, "")
    row = json.loads(out)["rows"][0]
    assert row["name"] == "poses"
    for error in ("rotation_error_deg", "displacement", "add_s"):
        assert row["pooled"][error]["mean"] == pytest.approx(found[error]["mean"])


def test_a_batch_can_be_scored(evaluate, own_pairs, weights, tmp_path, capsys):
    results = tmp_path / "results.csv"
    manifest = own_pairs / "pairs.jsonl"
    assert (
        main(["assemble", "--manifest", str(manifest), "-o", str(results), "--model", str(weights), "--fast"])
        == 0
    )
    capsys.readouterr()
    status, out, _ = evaluate("--predictions", results, manifest)
    assert status == 0
    assert "| results | 3 | 0 |" in out


def test_samplings_of_a_data_set_differ(evaluate, weights, real_data):
    run = (weights, "bunny", "--limit", 1, "--points", 50, "--json", "--data-root", real_data)
    found = json.loads(evaluate(*run)[1])
    assert found["samplings"] == 3
    means = [each["rotation_error_deg"]["mean"] for each in found["rows"][0]["samplings"]]
    assert len(set(means)) == 3
    assert found["rows"][0]["std_between_samplings"]["rotation_error_deg"] == pytest.approx(
        np.std(means, ddof=1)
    )
    later = json.loads(evaluate(*run, "--seed", 1, "--samplings", 1)[1])
    assert later["rows"][0]["pooled"]["rotation_error_deg"]["mean"] == means[1]


def refused(result, says):
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.startswith("bitr: ")
    assert err.count("\n") == 1
    assert says in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "got 0 names, expected MODEL and DATASET"),
        (["default"], "got 1 name, expected MODEL and DATASET"),
        (["default", "bunny", "indoor"], "got 3 names"),
        (["default", "bunnny"], "no such data set"),
        (["no-such-model", "."], "no such weights come with bitr"),
        (["default", ".", "--samplings", "0"], "--samplings"),
        (["default", ".", "--points", "3"], "points = 3: expected a whole number from 4"),
        (["default", ".", "--limit", "0"], "--limit"),
        (["--predictions", "a.csv", "default", "bunny"], "got 2 names, expected DATASET with --predictions"),
        (["--predictions", "a.csv", "bunny", "--perturb"], "are for a model"),
        (["--predictions", "a.csv", "bunny", "--limit", "3"], "are for a model"),
        (["--predictions", "a.csv", "bunny", "--refine", "icp"], "are for a model"),
        (["--predictions", "a.csv", "bunny", "--fast"], "are for a model"),
        (["--predictions", "a.csv", "bunny", "--method", "seam"], "are for a model"),
        (["default", ".", "--method", "glue"], "method = 'glue': expected one of auto"),
        (["default", ".", "--refine", "icpp"], "--refine icpp: expected one of none, icp, ot"),
        (["default", ".", "-o", "no/such/folder"], "does not exist"),
        (["default", ".", "--html", "no/such/a.html"], "does not exist"),
        (["default", ".", "--html", "a.pdf"], "--html writes no .pdf, expected one of .html .htm"),
    ],
)
def test_bad_usage_is_one_line(engine, arguments, says):
    refused(engine(*arguments), says)


def test_a_bad_predictions_file_is_one_line(evaluate, own_pairs, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "pair 0", "transformation": [1]}\n')
    refused(evaluate("--predictions", path, own_pairs), "a.jsonl, line 1: found 1 numbers, expected 16")
    refused(evaluate("--predictions", tmp_path / "none.csv", own_pairs), "none.csv: cannot be read")


def test_when_no_pair_is_answered_it_says_why(evaluate, own_pairs, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,transformation\npair 0,\npair 1,\npair 2,\n")
    refused(evaluate("--predictions", path, own_pairs), "none of the 3 pairs was answered")


def test_plots_without_matplotlib_are_refused_before_any_work(evaluate, own_pairs, tmp_path, monkeypatch):
    monkeypatch.setattr("bitr.cli.options.find_spec", lambda name: None)
    refused(evaluate("default", own_pairs, "-o", tmp_path / "out"), 'pip install -e ".[viz]"')
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_page_may_go_into_the_folder_that_the_command_makes(evaluate, own_pairs, weights, tmp_path):
    folder = tmp_path / "results"
    assert evaluate(weights, own_pairs, "--limit", 1, "-o", folder, "--html", folder / "page.html")[0] == 0
    assert (folder / "page.html").is_file()
