"""Options mean the same in every command, and the Tab key completes names and choices."""

import os
import subprocess
import sys

import pytest
import typer

from bitr.assembly.assemble import METHOD_NAMES
from bitr.assembly.refine import REFINEMENTS
from bitr.cli import app, evaluate, main, options
from bitr.data import datasets
from bitr.data.storage import SPLITS
from bitr.evaluation.experiment import EXPERIMENTS, MEASURED
from bitr.model.checkpoint import find
from bitr.training.config import config_file

TOGETHER = {"--output": "-o", "--verbose": "-v", "--json": None, "--force": None, "--data-root": None}
"""Options that several commands have, with their short names."""
WORDS = ("--budget", "--points")


def commands(command=None, name="bitr"):
    """All commands below one, by their full names."""
    command = command or typer.main.get_command(app)
    for short, below in getattr(command, "commands", {}).items():
        yield f"{name} {short}", below
        yield from commands(below, f"{name} {short}")


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_an_option_has_one_name_in_every_command_and_a_help(name, command):
    for parameter in command.params:
        if parameter.param_type_name != "option" or getattr(parameter, "hidden", False):
            continue
        long, *short = parameter.opts
        assert long.startswith("--"), long
        assert short == [TOGETHER[long]] if TOGETHER.get(long) else not short, parameter.opts
        assert long not in ("--out", "--n"), name
        if long != "--help":
            assert parameter.help, long
            assert parameter.help.endswith("."), parameter.help


def test_a_budget_is_time_and_points_are_points():
    found = {(word, name) for name, c in commands() for p in c.params for word in p.opts if word in WORDS}
    several = {("--points", f"bitr {name}") for name in ("assemble", "evaluate", "puzzle", "view")}
    assert found == {("--budget", "bitr reproduce"), *several}


def complete(monkeypatch, capsys, line):
    """The candidates for the last word of a line."""
    monkeypatch.setenv("_BITR_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    monkeypatch.setattr(sys, "argv", ["bitr"])
    assert main() == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.split()


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("bitr ass", ["assemble"]),
        ("bitr data f", ["fetch"]),
        ("bitr assemble --json a b --mo", ["--model"]),
        ("bitr assemble a b --model de", ["default"]),
        ("bitr view --model mug", ["mug-hanging"]),
        ("bitr train --init-from bowl", ["bowl-placing"]),
        ("bitr train bu", ["bunny"]),
        ("bitr evaluate default ind", ["indoor"]),
        ("bitr calibrate runs/mine outd", ["outdoor"]),
        ("bitr data show openshapes -o x --split ", ["train", "val", "test"]),
        ("bitr data fetch bunny-", ["bunny-stand-in"]),
        ("bitr assemble a b --method s", ["seam"]),
        ("bitr evaluate default bunny --refine ", ["none", "icp", "ot"]),
        ("bitr reproduce low", ["low-overlap"]),
        ("bitr reproduce toy --baselines cl", ["classical"]),
        ("bitr certify untrained:p", ["untrained:paper"]),
        ("bitr assemble hand", []),  # the shell offers files
        ("bitr assemble a b -o ", []),
    ],
)
def test_tab_completes(monkeypatch, capsys, line, candidates):
    assert complete(monkeypatch, capsys, line) == candidates


def test_a_shell_gets_the_candidates_on_standard_output_without_heavy_imports():
    code = "import sys; from bitr.cli import main; main(); print('torch' in sys.modules)"
    asked = {"_BITR_COMPLETE": "complete_bash", "COMP_WORDS": "bitr evaluate de", "COMP_CWORD": "2"}
    call = [sys.executable, "-c", code]
    done = subprocess.run(call, capture_output=True, text=True, env=os.environ | asked, check=True)
    assert (done.stdout.split(), done.stderr) == (["default", "False"], "")


def test_names_and_choices_are_those_that_the_commands_know():
    assert "|".join(METHOD_NAMES) == options.METHODS
    assert "|".join(SPLITS) == options.SPLITS
    assert "|".join(REFINEMENTS) == evaluate.REFINEMENTS
    assert options.list_data() == [info.name for info in datasets()]
    assert options.list_experiments() == [*EXPERIMENTS, *MEASURED, "all"]
    assert all(find(name).stem == name for name in options.list_models())
    assert all(config_file(name).stem == name for name in options.list_configs())
