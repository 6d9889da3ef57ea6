"""The notebooks of examples/: valid, without outputs, and their cells run in order.

The cells run in one namespace of this process. A Jupyter kernel would bring two dozen packages and a server
on a local port to run the same Python; what only a kernel understands (%magic, !shell) fails here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.documents import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def code_of(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_all_are_there():
    assert {path.stem for path in NOTEBOOKS} >= {"assemble_two_files", "train_on_ten_examples", "two_sherds"}


@each_notebook
def test_it_is_kept_without_outputs(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.slow
@each_notebook
def test_its_cells_run_in_order(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {}
    for number, cell in enumerate(code_of(path), start=1):
        exec(compile(cell, f"{path.name}, code cell {number}", "exec"), names)
