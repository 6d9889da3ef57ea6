"""The documentation as a site: it builds strictly, and needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from bitr.cli import app
from tests.docs.documents import ROOT

REMOTE = re.compile(r'<(?:script|img|iframe|link)[^>]*(?:src|href)="(?:https?:)?//[^"]*"')
"""What a browser would load from the network to show a page; links that a reader may follow are fine."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as ``make docs`` does: a page that is in no menu, or a dead link or anchor, stops it."""
    folder = tmp_path_factory.mktemp("site")
    # not --quiet, which keeps warnings from being counted
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    told = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_document_is_a_page(site):
    pages = {path.relative_to(site).with_suffix(".md") for path in site.rglob("*.html")}
    assert {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")} <= pages
    assert not (site / "hooks").exists()


def test_no_page_loads_anything_from_the_network(site):
    for page in site.rglob("*.html"):
        assert not REMOTE.findall(page.read_text(encoding="utf-8")), page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import|url\((?:\"|')?(?:https?:)?//", sheet.read_text(encoding="utf-8")), (
            sheet
        )


def test_every_formula_has_become_mathml(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r":math:|\$<code>|class=\"formula\"|<merror|begin\{", text), page
    assert (site / "mathematics.html").read_text(encoding="utf-8").count('display="block"') > 10
    assert "<math" in (site / "api.html").read_text(encoding="utf-8")


def test_the_command_line_reference_has_every_command_and_option(site):
    text = re.sub(r"<[^>]*>", "", (site / "commands.html").read_text(encoding="utf-8"))
    top = typer.main.get_command(app)
    for name, command in top.commands.items():
        assert f"bitr {name}" in text
        for parameter in command.params:
            assert (
                getattr(parameter, "hidden", False) or parameter.opts[-1] in text or parameter.metavar in text
            )


def test_the_reference_has_the_public_names(site):
    text = (site / "api.html").read_text(encoding="utf-8")
    for name in ("assemble", "Assembly", "BITR", "BITRConfig", "Rigid", "Cloud", "load", "save", "arun"):
        assert f'id="bitr.{name}"' in text


def test_what_the_readme_says_stands_on_the_first_pages(site):
    assert "nothing to compile" in (site / "index.html").read_text(encoding="utf-8").replace("\n", " ")
    assert "--manifest" in (site / "index.html").read_text(encoding="utf-8")
    assert "Speed and memory" in (site / "benchmark.html").read_text(encoding="utf-8")
