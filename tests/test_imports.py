"""Imports point one way: a folder may use those above it in this list, never those below."""

import ast
import re
import subprocess
import sys
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
    "assembly",
    "show.stage",  # evaluations draw their own pictures, and reports show evaluations
    "show.picture",
    "testing",
    "training",
    "evaluation",
    "show",
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
            top, *parts = name.split(".")
            if top == "bitr" and parts:
                found.add(part_of(parts) or "cli")  # other names come from the top level, which knows all
    return found


def part_of(parts: list[str]) -> str | None:
    """The most specific entry of the order that a module lies in."""
    names = (".".join(parts[:length]) for length in (2, 1))
    return next((name for name in names if name in ORDER), None)


def upward_imports(root: Path) -> list[str]:
    wrong = []
    for path in root.rglob("*.py"):
        parts = list(path.relative_to(root).with_suffix("").parts)
        if parts[0] in ("__init__", "__main__"):
            continue
        part = part_of(parts)
        assert part is not None, f"{path} lies in a part of the package that has no place in the order"
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


def test_the_package_does_without_e3nn():
    users = [
        p.relative_to(ROOT).as_posix()
        for p in ROOT.rglob("*.py")
        if re.search(r"^\s*(from|import) e3nn", p.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ]
    assert users == []


LAZY = """
import sys

import bitr

assert "torch" not in sys.modules
bitr.BITR()
slow = {"e3nn", "roma", "sympy", "torch._dynamo"} & sys.modules.keys()
assert not slow, slow
"""


def test_a_model_is_made_without_slow_imports():
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


REACH = """
import sys

import bitr

for name in sys.argv[1:]:
    value = bitr
    for part in name.split(".")[1:]:
        value = getattr(value, part)
"""


def test_all_that_the_documentation_names_is_reachable_from_the_package():
    page = (ROOT.parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
    names = re.findall(r"^::: (bitr\S*)", page, flags=re.MULTILINE)
    assert len(names) > 30
    done = subprocess.run([sys.executable, "-c", REACH, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
