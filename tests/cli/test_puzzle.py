"""``bitr puzzle``: files in, files out, and one line for what is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bitr.cli import main
from bitr.io import read
from tests.pieces import two_pieces


@pytest.fixture
def pieces(tmp_path):
    names = []
    for seed in range(2):
        for side, points in zip("xy", two_pieces(120, seed), strict=True):
            names.append(str(tmp_path / f"{side}{seed}.npy"))
            np.save(names[-1], points)
    return names


def test_a_bad_file_gets_one_line_that_names_it(tmp_path, pieces, capsys):
    bad = tmp_path / "bad.ply"
    bad.write_text("ply\nnonsense\n")
    output = tmp_path / "poses.json"
    assert main(["puzzle", *pieces, str(bad), "-o", str(output)]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert "bad.ply" in said[0]
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x0.npy"], "got 1 piece"),
        (["x0.npy", "x0.npy"], "named twice among the pieces"),
        (["x0.npy", "y0.npy", "-o", "x0.npy"], "named twice"),
        (["x0.npy", "y0.npy", "-o", "poses.txt"], "--output writes no .txt"),
        (["x0.npy", "y0.npy", "--scene", "poses.json"], "--scene writes no .json"),
        (["x0.npy", "y0.npy", "--workers", "0"], "expected at least 1"),
        (["x0.npy", "missing.ply"], "missing.ply"),
    ],
)
def test_bad_usage_gets_one_line(tmp_path, pieces, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert main(["puzzle", *arguments]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert said in lines[0]


@pytest.mark.slow
def test_the_answer_as_files_and_as_json(tmp_path, pieces, weights, capsys):
    files = {name: tmp_path / f"out.{name}" for name in ("json", "glb", "html", "png")}
    options = [
        "-o",
        files["json"],
        "--scene",
        files["glb"],
        "--html",
        files["html"],
        "--picture",
        files["png"],
    ]
    command = [
        "puzzle",
        *pieces[:3],
        *map(str, options),
        "--model",
        str(weights),
        "--points",
        "60",
        "--workers",
        "1",
    ]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(files["json"].read_text())
    assert sorted([*told["left_over"], *(k for group in told["groups"] for k in group)]) == [0, 1, 2]
    assert all(path.stat().st_size for path in files.values())
    assert len(read(files["glb"]).points) == sum(len(np.load(name)) for name in pieces[:3])
    assert not (tmp_path / "out.json.pairs").exists()
    assert main(command) == 2  # nothing is overwritten unasked
    assert "exists already" in capsys.readouterr().err


@pytest.mark.slow
def test_processes_give_the_same_answer(tmp_path, pieces, weights, capsys):
    common = ["puzzle", *pieces, "--model", str(weights), "--points", "60", "--json"]
    answers = []
    for workers in ("1", "2"):
        assert main([*common, "--workers", workers]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    np.testing.assert_allclose(answers[0]["poses"], answers[1]["poses"], atol=1e-6)
    assert answers[0]["groups"] == answers[1]["groups"]
