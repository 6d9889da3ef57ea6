"""What is packed: one version, a description without dead links, and sources that can run their tests."""

import re
import sys
from pathlib import Path

import bitr

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_is_written_in_one_place_and_the_newest_of_the_changelog():
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "bitr.__version__"}
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\d\S*) - \d{4}-\d\d-\d\d$", changes, re.MULTILINE)
    assert newest is not None
    assert newest[1] == bitr.__version__
    assert f"\nversion: {bitr.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_description_has_no_link_that_an_index_could_not_follow():
    text = PROJECT["project"]["readme"]["text"]
    assert all(link.startswith("https://") for link in re.findall(r"\]\(([^)]*)\)", text))


def test_the_sources_have_every_folder_that_the_tests_use():
    lines = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    grafted = {line.split()[1] for line in lines if line.startswith("graft ")}
    assert grafted == {"benchmarks", "configs", "docs", "examples", "tests"}
    named = [name for line in lines if line.startswith("include ") for name in line.split()[1:]]
    assert all((ROOT / name).exists() for name in (*grafted, *named))
