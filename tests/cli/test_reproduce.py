"""``bitr reproduce`` as a command: what it prints, refuses and hints at."""

import json

import pytest

from bitr.cli import main
from tests.evaluation.cases import SMALL

SETTINGS = [part for change in SMALL for part in ("--set", change)]


@pytest.fixture
def reproduce(capsys, monkeypatch):
    """Runs the command on a machine without data; returns exit status, standard output and standard error."""
    monkeypatch.delenv("BITR_DATA", raising=False)

    def run(*arguments):
        status = main(["reproduce", *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


@pytest.mark.slow
def test_the_toy_on_generated_data_from_a_fresh_clone(reproduce, tmp_path):
    few = ("--budget", "full", "--limit", 1, "--samplings", 1, "--output", tmp_path, *SETTINGS)
    status, out, err = reproduce("toy", *few)
    assert status == 0
    assert out.startswith("# Proof of concept: the bunny in two parts (Sec. 6.2, App. D.2)\n\nbitr 0")
    assert "| BITR, swapped | stand-in: a generated shape, not the bunny; trained" in out
    assert f"wrote {tmp_path / 'toy' / 'table.md'}" in out
    assert "held out: loss" in err
    status, out, err = reproduce("toy", *few, "--json")
    assert (status, out.count("\n")) == (0, 1)
    assert json.loads(out)["experiment"] == "toy"
    assert err.startswith("training on bunny-stand-in")
    assert err.endswith("\ngoing on from step 4 of 4\n")


def test_an_unknown_name_is_told_the_nearest_one(reproduce, tmp_path):
    status, out, err = reproduce("airplanes", "--output", tmp_path)
    assert (status, out) == (2, "")
    assert err.startswith("bitr: airplanes: no such experiment, expected one of toy, ablation, ")
    assert err.endswith("did you mean airplane?\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("toy", "--budget", "soon"), "--budget soon: expected a time as 90s, 10m or 1h, or full"),
        (("toy", "--train", "--model", "default"), "--train and --model: choose one"),
        (("toy", "--set", "run.seed=1"), "--set run.seed=1: the experiment decides on"),
        (("fragments",), "winebottle:all: not found, the variable BITR_DATA names no folder"),
    ],
)
def test_what_cannot_be_done_is_one_line(reproduce, tmp_path, arguments, said):
    status, out, err = reproduce(*arguments, "--output", tmp_path / "out")
    assert (status, out) == (2, "")
    assert err.startswith(f"bitr: {said}")
    assert err.count("\n") == 1
