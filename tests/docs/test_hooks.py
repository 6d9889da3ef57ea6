"""What the build of the site adds to the pages."""

from __future__ import annotations

import runpy

import pytest
from mkdocs.exceptions import PluginError

from tests.docs.documents import ROOT

include, formulas = (
    runpy.run_path(str(ROOT / "docs" / "hooks" / f"{name}.py")) for name in ("include", "formulas")
)


def test_a_paragraph_that_is_only_a_link_becomes_the_section():
    text = include["on_page_markdown"]("# A page\n\n[The laws](../README.md#the-laws)\n\nThe end.\n")
    assert "bi-equivariance" in text
    assert "## Layout" not in text
    assert "](../README.md" not in text


def test_a_section_that_is_not_there_stops_the_build():
    with pytest.raises(PluginError, match="no section no-such-thing"):
        include["on_page_markdown"]("[x](../README.md#no-such-thing)\n")


def test_links_out_of_the_included_text_are_those_of_the_site():
    assert include["as_in_docs"]("[a](docs/data.md#counts)") == "[a](data.md#counts)"
    assert include["as_in_docs"]("![p](docs/pictures/demo.png)") == "![p](pictures/demo.png)"
    assert include["as_in_docs"]("[b](BENCHMARK.md)") == "[b](benchmark.md)"
    assert include["as_in_docs"]("[docs/data.md](docs/data.md)") == "[Data](data.md)"
    assert include["as_in_docs"]("[s](src/bitr/testing.py)") == "`src/bitr/testing.py`"


def test_formulas_of_pages_and_docstrings_become_mathml():
    page = formulas["on_page_content"]("<p>$<code>a &lt; b</code>$ and :math:<code>x^2</code></p>")
    assert page.count("<math") == 2
    assert "<code>" not in page
    block = formulas["on_page_content"]('<div class="formula">\\frac12</div>')
    assert 'display="block"' in block
    assert "<mfrac>" in block
