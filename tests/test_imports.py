"""Imports point one way: a folder may use those above it in this list, never those below."""

import ast
import re
from pathlib import Path

import bitr

ORDER = [
    "errors",
    "files",
    "settings",
    "groups",
    "layers",
    "model",
    "io",
    "data",
    "refine",
    "hypotheses",
    "assembly",
    "pictures",
    "testing",
    "training",
    "evaluation",
    "app",
    "viewer",
    "cli",
]
ROOT = Path(bitr.__file__).parent


def imported_parts(path: Path) -> set[str]:
    """The parts of bitr that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides its direction"
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "bitr" and len(parts) > 1:
                # a name that is no part comes from the top level, which knows everything
                found.add(parts[1] if parts[1] in ORDER else "cli")
    return found


def upward_imports(root: Path) -> list[str]:
    wrong = []
    for path in root.rglob("*.py"):
        part = path.relative_to(root).parts[0].removesuffix(".py")
        if part in ("__init__", "__main__"):
            continue
        assert part in ORDER, f"{path} lies in a part of the package that has no place in the order"
        wrong += [
            f"{part} imports {other}"
            for other in imported_parts(path)
            if ORDER.index(other) > ORDER.index(part)
        ]
    return wrong


def test_no_folder_imports_upwards():
    assert upward_imports(ROOT) == []


def test_an_upward_import_would_be_found(tmp_path):
    (tmp_path / "groups").mkdir()
    for line, found in (("from bitr.model import BITR", "model"), ("from bitr import BITR", "cli")):
        (tmp_path / "groups" / "bad.py").write_text(f"def f():\n    {line}\n")
        assert upward_imports(tmp_path) == [f"groups imports {found}"]


def test_only_one_file_knows_e3nn():
    users = [
        p.relative_to(ROOT).as_posix()
        for p in ROOT.rglob("*.py")
        if re.search(r"^\s*(from|import) e3nn", p.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ]
    assert users == ["groups/clebsch_gordan.py"]
