"""``bitr puzzle``: files in, files out, and one line for what is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bitr.assembly.puzzle import Puzzle
from bitr.cli import main
from bitr.errors import InputError
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
        (["x0.npy", "y0.npy", "--ray", "--workers", "2"], "--workers is for this machine"),
        (["x0.npy", "missing.ply"], "missing.ply"),
    ],
)
def test_bad_usage_gets_one_line(tmp_path, pieces, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert main(["puzzle", *arguments]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert said in lines[0]


@pytest.fixture
def folders(monkeypatch):
    """Folders that pairs were kept in; the answer is there at once: a group of two, and one more."""
    found = []

    def solve(pieces, workshop):
        assert workshop.folder.is_dir()
        (workshop.folder / "pairs.jsonl").touch()
        found.append(workshop.folder)
        names, poses = tuple(piece.name for piece in pieces), np.tile(np.eye(4), (len(pieces), 1, 1))
        return Puzzle(names, poses, ((0, 1),), (2,), (0.9, 0.9, 0.1), (), (), 0.0, "default", ())

    monkeypatch.setattr("bitr.assembly.puzzle.solve_puzzle", solve)
    return found


@pytest.mark.parametrize("address", ["10.0.0.3:6379", "ray://head:10001"])
def test_a_cluster_elsewhere_needs_a_folder_that_it_shares(pieces, folders, monkeypatch, capsys, address):
    monkeypatch.setenv("RAY_ADDRESS", address)
    assert main(["puzzle", *pieces[:3], "--ray"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert address in line
    assert "give -o" in line
    assert not folders


@pytest.mark.parametrize(
    ("address", "options"),
    [("10.0.0.3:6379", ["-o", "poses.json"]), ("127.0.0.1:6379", []), ("auto", []), (None, [])],
)
def test_a_cluster_here_or_with_an_output_is_taken(
    tmp_path, pieces, folders, monkeypatch, capsys, address, options
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address is not None:
        monkeypatch.setenv("RAY_ADDRESS", address)
    assert main(["puzzle", *pieces[:3], "--ray", *options]) == 0
    assert len(folders) == 1


@pytest.mark.parametrize(
    ("names", "folder"),
    [
        (["--html", "r.html", "--scene", "s.glb", "-o", "p.json"], "p.json.pairs"),
        (["--html", "r.html", "--scene", "s.glb"], "s.glb.pairs"),
        (["--html", "r.html"], "r.html.pairs"),
    ],
)
def test_pairs_are_kept_beside_the_first_file(tmp_path, pieces, folders, monkeypatch, names, folder):
    monkeypatch.chdir(tmp_path)
    assert main(["puzzle", *pieces[:3], *names]) == 0
    assert [each.name for each in folders] == [folder]
    assert not folders[0].exists()
    assert all((tmp_path / name).stat().st_size for name in names[1::2])


def test_a_file_that_cannot_be_written_costs_no_work(tmp_path, pieces, folders, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["puzzle", *pieces[:3], "-o", "p.json", "--scene", "s.glb", "--html", "r.html"]

    def fail(*_, **__):
        raise InputError("r.html: no space")

    with monkeypatch.context() as full:
        full.setattr("bitr.show.puzzle.write_puzzle_page", fail)
        assert main(command) == 2
    assert (folders[0] / "pairs.jsonl").exists()
    assert not [name for name in ("p.json", "s.glb", "r.html") if (tmp_path / name).exists()]
    assert main(command) == 0  # the same command, not --force
    assert [each.name for each in folders] == ["p.json.pairs"] * 2
    assert not folders[0].exists()


def test_groups_and_pieces_left_over_are_told_in_sentences(pieces, folders, capsys):
    assert main(["puzzle", *pieces[:3]]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[-2:] == ["x0.npy and y0.npy belong together.", "x1.npy is left over."]


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
