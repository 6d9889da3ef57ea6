"""What docstrings cite of the paper stands in docs/mathematics.md, by the number that the paper prints."""

import re
from pathlib import Path

import pytest

import bitr

ROOT = Path(bitr.__file__).parent
PAGE = (ROOT.parents[1] / "docs" / "mathematics.md").read_text(encoding="utf-8")
FILES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
EQUATIONS = re.compile(r"\b[Ee]qs?\. (\(\d+\)(?:(?:, | and | to )\(\d+\))*)")
PLACES = re.compile(
    r"\b(Sec|App|Prop|Lemma|Definition|Proposition|Assumption)s?\.? ([A-E3-5](?:\.\d+)*(?:, [\d.]+\d)*)"
)
KINDS = {"Proposition": "Prop"}


def cited(text: str) -> set[str]:
    """Equations, sections and statements of a text; those on experiments (Sec. 6, App. D) are left out."""
    found = set()
    for numbers in EQUATIONS.findall(text):
        for first, last in re.findall(r"\((\d+)\)(?: to \((\d+)\))?", numbers):
            found |= {f"eq. ({n})" for n in range(int(first), int(last or first) + 1)}
    for kind, numbers in PLACES.findall(text):
        found |= {f"{KINDS.get(kind, kind)} {number}" for number in numbers.split(", ")}
    return {each for each in found if not each.startswith("App D")}


def test_the_page_has_the_equations_of_the_model_without_a_gap():
    assert {f"eq. ({n})" for n in range(1, 15)} <= cited(PAGE)


@pytest.mark.parametrize("name", [name for name, text in FILES.items() if cited(text)])
def test_what_a_file_cites_stands_on_the_page(name):
    sections = {"Sec 3", "Sec 4", "Sec 5"}
    assert cited(FILES[name]) <= cited(PAGE) | sections


def test_the_files_of_the_layers_and_the_model_cite_the_paper():
    names = ["layers/attention.py", "layers/kernel.py", "model/bitr.py", "model/projection.py"]
    assert all(any(each.startswith("eq.") for each in cited(FILES[name])) for name in names)


def test_equations_are_cited_by_number_and_not_by_label():
    assert not [name for name, text in FILES.items() if re.search(r"\b[Ee]qs?\. (?!\()", text)]
