"""``bitr certify``: exit status, JSON, the page, and what the argument may be."""

import json
import sys

import pytest
import torch

from bitr import BITRConfig
from bitr.cli import certify as command
from bitr.cli import main
from bitr.evaluation.certificate import WAYS

METHODS = """
import numpy as np
import torch
from bitr import BITR, BITRConfig, arun

def lawful(x, y):
    return arun(torch.from_numpy(x), torch.from_numpy(y)).matrix().numpy()

def identity(x, y):
    return np.eye(4)

def fails(x, y):
    raise ValueError("no such\\nthing")

def pair(x, y):
    return x

torch.manual_seed(0)
untied = BITR(BITRConfig(num_keypoints=8, num_neighbors=8, num_layers=1, swap=False))
number = 3
"""


@pytest.fixture
def methods(tmp_path, monkeypatch):
    """A module in the current folder, which is not on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "certified_methods.py").write_text(METHODS)
    yield "certified_methods"
    sys.modules.pop("certified_methods", None)


def certified(capsys, *arguments):
    status = main(["certify", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.slow
def test_the_shipped_weights_pass_through_assemble_too(capsys, tmp_path):
    page = tmp_path / "page.html"
    status, out, err = certified(capsys, "default", "--trials", 1, "--json", "--html", page)
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert (found["ok"], found["broken"]) == (True, [])
    paths = {row["path"] for row in found["rows"]}
    assert {f"assemble, {kind}, {way}" for kind in ("cloud", "mesh") for way in WAYS} <= paths
    worst = {(row["path"], row["law"]): row["worst"] for row in found["rows"]}
    assert f"<b>{worst['model, float32', 'bi']:.1e}</b>" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_broken_model_has_status_1_after_the_table(capsys, methods, monkeypatch):
    monkeypatch.setattr("bitr.evaluation.certificate.WAYS", ("fast",))  # the other takes longer
    monkeypatch.setattr("bitr.evaluation.certificate.FEWEST_FOR_A_MEDIAN", 1)
    status, out, err = certified(capsys, f"{methods}:untied", "--trials", 1)
    lines = out.splitlines()
    assert (status, err) == (1, "")
    assert lines[0].split() == ["worst", "error", "/", "bound", "Δ_bi", "Δ_swap", "Δ_scale"]
    assert lines[-1] == f"{methods}:untied: Broken: Δ_swap."
    assert next(line for line in lines if line.startswith("model, float64")).count("!") == 1


def test_functions_of_the_current_folder_are_audited(capsys, methods):
    status, out, _ = certified(capsys, f"{methods}:lawful", "--trials", 2)
    assert status == 0
    assert "All three laws hold." in out
    status, out, _ = certified(capsys, f"{methods}:identity", "--trials", 2, "--json")
    assert (status, json.loads(out)["broken"]) == (1, ["bi"])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("certified_methods:missing", "cannot be imported (AttributeError"),
        ("no_such_module:f", "cannot be imported (ModuleNotFoundError"),
        ("certified_methods:fails", "raised ValueError: no such"),
        ("certified_methods:pair", "returned shape (350, 3), expected a 4×4 matrix"),
        ("certified_methods:number", "is int, expected a function"),
        ("untrained:papper", "expected untrained:default or untrained:paper"),
        ("no-such-weights", "no such file or folder"),
    ],
)
def test_what_cannot_be_audited_is_told_in_one_line(capsys, methods, name, says):
    status, out, err = certified(capsys, name, "--trials", 1)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert name in err
    assert says in err


def test_a_module_that_fails_on_import_is_told_in_one_line(capsys, methods, tmp_path):
    (tmp_path / "certified_damaged.py").write_text("def f(:\n")
    status, _, err = certified(capsys, "certified_damaged:f")
    assert (status, err.count("\n")) == (2, 1)
    assert "SyntaxError" in err


def test_a_damaged_checkpoint_is_bad_input(capsys, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"not weights")
    status, out, err = certified(capsys, path)
    assert (status, out) == (2, "")
    assert "not a readable safetensors file" in err


@pytest.mark.parametrize(
    "options", [("--trials", 0), ("--html", "page.pdf"), ("--html", "no/such/page.html")]
)
def test_bad_options_are_told_before_any_work(capsys, methods, monkeypatch, options):
    status, out, err = certified(capsys, f"{methods}:lawful", *options)
    assert (status, out) == (2, "")
    assert str(options[1]) in err


def test_a_page_is_not_overwritten_without_force(capsys, methods, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("mine")
    arguments = (f"{methods}:lawful", "--trials", 1, "--html", page)
    assert certified(capsys, *arguments)[0] == 2
    assert page.read_text() == "mine"
    assert certified(capsys, *arguments, "--force")[0] == 0
    assert "All three laws hold." in page.read_text(encoding="utf-8")


def test_untrained_constructions_have_a_name_and_weights_of_the_seed():
    model, again, other = (command.find_subject("untrained:paper", seed) for seed in (3, 3, 4))
    assert model.config == BITRConfig.paper()
    assert command.find_subject("untrained:default", 3).config == BITRConfig()
    first, same, different = (next(each.parameters()) for each in (model, again, other))
    assert torch.equal(first, same)
    assert not torch.equal(first, different)


def test_the_help_has_an_example(capsys):
    assert main(["certify", "--help"]) == 0
    assert command.EXAMPLE in " ".join(capsys.readouterr().out.split())
