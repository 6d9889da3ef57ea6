"""Which command lines of the documents are run, which are only parsed and why, and how they are parsed."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import typer

from bitr.cli import app
from bitr.data import datasets
from tests.docs.documents import ROOT

SHORTER = {
    "assemble": "--fast",
    "train": "--set run.steps=2 --set run.batch=2 --set data.points=100 --set data.workers=0 "
    "--set data.val_pairs=2 --set run.validate_every=2",
    "evaluate": "--limit 2 --samplings 1 --fast --points 100",
    "data make": "--pairs 2",
}
"""Added to a documented command, so that it runs in a moment; what the document says stays in it."""
ONLY_PARSED = {
    "bench": "measures the machine for minutes",
    "certify": "takes half a minute; tests/cli/test_certify.py runs it",
    "calibrate": "solves a thousand pairs",
    "data fetch": "downloads",
    "demo": "tests/cli/test_demo.py runs it",
    "puzzle": "compares many pairs; tests/cli/test_puzzle.py runs it",
    "reproduce": "trains for minutes to hours",
    "view": "serves until it is stopped",
    "--ray": "starts a cluster",
    "--stats": "opens every data set",
    "torchrun": "starts processes; tests/training/test_torchrun.py runs it",
}
"""What is not run, and why: the command line is still parsed by the command itself, values and all."""
ABSENT = {info.name for info in datasets() if not info.present(None)} - {"bunny"}
"""Data sets whose files cannot be passed on: commands on those are parsed only. The bunny has a stand-in."""


def parse(arguments: list[str]) -> str:
    """The name of the command, its arguments parsed by the command itself; an unknown option raises."""
    command: Any = typer.main.get_command(app)
    context, names = command.make_context("bitr", list(arguments)), []
    while hasattr(command, "commands") and context._protected_args + context.args:
        name, command, rest = command.resolve_command(context, context._protected_args + context.args)
        names.append(name)
        context = command.make_context(name, rest, parent=context)
    return " ".join(names)


def why_not_run(words: list[str], command: str) -> str | None:
    if missing := ABSENT & {word.partition(":")[0] for word in words}:
        return f"{missing}: its files cannot be passed on"
    return next((reason for key, reason in ONLY_PARSED.items() if key == command or key in words), None)


def check_other_program(words: list[str]) -> None:
    """Targets of make, modules and scripts of Python, extras of pip: each has to exist."""
    if words[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in words[1:]), words
    elif words[:2] == ["python", "-m"]:
        assert find_spec(words[2]), words
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file(), words
    elif words[:2] == ["pip", "install"]:
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        extras = re.findall(r"^(\w+) = \[", project, re.MULTILINE)
        asked = " ".join(words).partition("[")[2].partition("]")[0]
        assert set(re.findall(r"\w+", asked)) <= set(extras), words
    else:
        assert words[0] == "export", f"{words}: a line that no rule covers"
