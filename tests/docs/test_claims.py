"""README.md and BENCHMARK.md stay short, and say nothing that no command measures or the code contradicts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pkgutil import resolve_name

import pytest
import typer
from markdown.extensions.toc import slugify

from benchmarks import tables
from bitr.assembly.assemble import METHOD_NAMES, SURE
from bitr.assembly.batch import FIELDS
from bitr.assembly.finish import METHODS
from bitr.assembly.sample import DENSE
from bitr.assembly.verify import LISTED, MATCHES, NAMES
from bitr.cli import app
from bitr.data import dataset, datasets
from bitr.evaluation.certificate import BOUNDS, MEDIAN
from bitr.evaluation.metrics import RIGHT
from bitr.evaluation.tables import COMMANDS, ENGINE
from bitr.io import SUFFIXES
from bitr.io.read import ACCEPTED
from bitr.model import BITRConfig
from bitr.settings import read_toml
from bitr.show.viewer.panel import MOST_BYTES, MOST_HYPOTHESES
from bitr.show.viewer.session import HYPOTHESES
from bitr.training.config import LossConfig, OptimizerConfig
from tests.docs.documents import DOCUMENTS, ROOT, command_lines

WORDS = {"README.md": 900, "BENCHMARK.md": 2000}
FIGURE = re.compile(r"\d+(?:\.\d+)?[°%]")
COMMAND = re.compile(r"`(?:bitr|python -m|pytest) [^`]+`")
MAKE = {"demo": "bitr demo", "test": "pytest"}
"""Two targets that README names, and the program of each."""


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def sections(name: str) -> dict[str, str]:
    """Text below each heading of the second level, by its anchor."""
    _, *parts = re.split(r"^## ", text_of(name), flags=re.MULTILINE)
    return {slugify(part.partition("\n")[0], "-"): part for part in parts}


def table_rows(text: str) -> list[list[str]]:
    """Cells of all rows of tables, without heads and lines."""
    lines = re.findall(r"^\|.*\|$(?!\n\| ---)", text, re.MULTILINE)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if set(row[0]) != {"-"}]


@pytest.mark.parametrize("name", WORDS)
def test_it_is_short(name):
    assert len(text_of(name).split()) <= WORDS[name]


def test_every_row_of_readme_links_to_a_measurement_with_its_figures():
    measured, rows = sections("BENCHMARK.md"), table_rows(sections("README.md")["what-it-reaches"])
    assert len(rows) >= 5
    for row in rows:
        anchor = re.search(r"\(BENCHMARK\.md#([\w-]+)\)", row[0])
        assert anchor, row
        assert COMMAND.search(measured[anchor[1]]), row
        assert set(FIGURE.findall(row[-1])) <= set(FIGURE.findall(measured[anchor[1]])), row


def test_every_figure_of_readme_is_in_benchmark():
    assert set(FIGURE.findall(text_of("README.md"))) <= set(FIGURE.findall(text_of("BENCHMARK.md")))


def test_every_section_of_benchmark_with_a_table_names_its_commands():
    for anchor, text in sections("BENCHMARK.md").items():
        assert not table_rows(text) or COMMAND.search(text), anchor


def test_every_table_of_benchmark_is_what_was_written():
    """``bitr reproduce`` writes the files, and ``python -m benchmarks.tables`` brings them into the page."""
    text = text_of("BENCHMARK.md")
    found = tables.shown(text)
    assert set(found) == set(COMMANDS) == {path.stem for path in tables.KEPT.glob("*.md")}
    assert len(re.findall(r"^\| ---", text, re.MULTILINE)) == len(found)  # no table without a file
    for name, table in found.items():
        assert table == tables.body(name), f"{name}: run python -m benchmarks.tables"
        first = (tables.KEPT / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0]
        assert first == f"<!-- {COMMANDS[name]} -->"


def test_the_targets_of_readme_start_what_tests_run():
    """``test_commands_of_readme_run_as_printed`` runs the other commands of README.md."""
    targets = [words[1] for words in command_lines(ROOT / "README.md") if words[0] == "make"]
    assert targets == list(MAKE)
    for target, program in MAKE.items():
        assert re.search(rf"^{target}:.*\n\t.*{program}", text_of("Makefile"), re.MULTILINE), target


def test_the_formats_that_are_named_are_read():
    rows = {row[0]: row[1] for row in table_rows(text_of("docs/two-pieces.md")) if len(row) == 2}
    named = re.findall(r"\w+", f"{rows['clouds']} {rows['meshes']}")
    assert {f".{name}" for name in named if name != "KITTI"} == set(SUFFIXES.read)
    said = re.findall(r"\w+", re.search(r"It reads (.+?)\.", text_of("README.md"), re.DOTALL)[1].lower())
    assert {f".{name}" for name in said if name not in ("kitti", "and")} <= set(SUFFIXES.read)


def test_streets_are_said_to_be_three_pairs():
    assert all("three pairs" in text for text in map(text_of, WORDS) if "streets" in text.lower())


def test_the_engine_page_explains_all_evidence_and_methods():
    text = text_of("docs/engine.md")
    groups = ("clear_", "border_", "is_")
    assert not [name for name in NAMES if f"`{name}`" not in text and not name.startswith(groups)]
    assert all(f"`{group}…`" in text for group in groups)
    assert all(f"| `{method}` |" in text for method in METHODS)


def test_the_options_of_two_pieces_are_those_of_the_command():
    text = text_of("docs/two-pieces.md")
    command = typer.main.get_command(app).commands["assemble"]
    options = {option for parameter in command.params for option in parameter.opts}
    said = {option for row in table_rows(text) for option in re.findall(r"`(--?[a-z-]+)", row[0])}
    assert said <= options
    elsewhere = set(re.findall(r"`(--[a-z-]+)", text_of("docs/batches.md") + text))
    for parameter in command.params:
        assert set(parameter.opts) & {*said, *elsewhere, "pieces"}, f"{parameter.opts}: on no page"
    assert all(f"`{method}`" in text for method in METHOD_NAMES)


def test_the_row_of_a_batch_is_as_documented():
    text = text_of("docs/batches.md")
    listed = re.search(r"^A row has (.+?)\.", text, re.MULTILINE | re.DOTALL)[1]
    assert tuple(re.findall(r"`(\w+)`", listed)) == FIELDS


def test_the_confidence_of_ok_is_as_documented():
    assert f"the confidence is at least {SURE}" in text_of("docs/trust.md")


def test_every_experiment_is_in_the_table_of_reproduce():
    (path,) = (ROOT / "src").rglob("experiments.toml")
    experiments = read_toml(path)
    rows = {row[0].strip("`"): row for row in table_rows(text_of("docs/reproduce.md"))}
    assert set(experiments) <= set(rows)
    for name, experiment in experiments.items():
        for data in experiment["data"]:
            assert data in rows[name][2] or data in name + "bunny", name
        for refinement in experiment.get("refinements", []):
            assert name == "unseen" or refinement.upper() in rows[name][3], name


def test_numbers_that_pages_state_are_those_of_the_code():
    said = {
        "docs/engine.md": f"looks at up to {LISTED} of them, and chooses the {MATCHES} that",
        "docs/viewer.md": f"at most {MOST_BYTES // 2**20} MB each",
        "docs/training.md": f'The default, `loss.compare = "{LossConfig().compare}"`',
    }
    for name, words in said.items():
        assert words in text_of(name), name
    assert f"Of a cloud of more than {DENSE:,} points" in text_of("docs/viewer.md")
    assert f"lists up to {HYPOTHESES} poses ({MOST_HYPOTHESES}, if asked for)" in text_of("docs/viewer.md")
    assert OptimizerConfig().name == "muon"
    assert "Muon moves the matrices" in text_of("docs/training.md")


def test_right_is_told_in_the_words_of_the_command():
    """``bitr assemble`` prints them beside the confidence."""
    text = " ".join(text_of("docs/fragments.md").split())
    assert f"% that the pose is right: {RIGHT} method" in text  # as printed
    assert f"`confidence` is the chance that the pose is right: {RIGHT}, " in text
    assert f"Right is {RIGHT};" in text
    for path in DOCUMENTS:
        assert not re.search(r"tenth of the\s(\S+\s)?radius", path.read_text(encoding="utf-8")), path


def test_the_share_of_low_overlap_is_that_of_the_table():
    rows = {row[0]: row for row in table_rows(tables.body("engine"))}
    right = float(rows[ENGINE["indoor:low"][0]][-2].rstrip("%"))
    assert 45 <= right <= 55
    assert "overlap of 0.1 to 0.3 half are right" in text_of("docs/scans.md")


def test_the_data_sets_of_the_engine_are_counted():
    words = {10: "ten", 11: "eleven", 12: "twelve"}
    assert f"for `engine` {words[len(ENGINE)]} data sets" in text_of("docs/reproduce.md")


def test_everything_that_python_takes_is_on_the_page_of_two_pieces():
    text = sections("docs/two-pieces.md")["python"]
    for word in ("path", "array", "tensor", "list", "frame", "trimesh", "Open3D"):
        assert word in ACCEPTED
        assert re.search(rf"\b{word}", text, re.IGNORECASE), word
    assert "`--scale`" in re.search(r"\*\*Units\.\*\*.+?\n-", text_of("docs/two-pieces.md"), re.DOTALL)[0]


def test_the_bounds_of_the_certificate_are_those_of_the_code():
    rows = {row[0]: row[1:] for row in table_rows(text_of("docs/certificate.md"))}
    for name, bounds in BOUNDS.items():
        *numbers, judged = rows[name]
        assert tuple(map(float, numbers)) == (bounds.bi, bounds.swap, bounds.scale)
        assert judged == ("median" if name in MEDIAN else "worst")


@pytest.mark.parametrize(
    "name",
    ["shapes", *(pytest.param(name, marks=pytest.mark.slow) for name in ("mug-hanging", "bowl-placing"))],
)
def test_counts_on_the_page_of_data_are_right(name):
    counts = {(row[0], row[1]): row[2] for row in table_rows(text_of("docs/data.md")) if len(row) == 7}
    for split in ("train", "val", "test"):
        assert len(dataset(name, split)) == int(counts[name, split])


def test_every_data_set_is_on_the_page_of_data():
    text = text_of("docs/data.md")
    assert not [info.name for info in datasets() if info.name not in text]


def names_of_the_package() -> Iterator[str]:
    """Dotted names in sentences and in the reference, as ``bitr.io.read``, but for those of past changes."""
    named = re.compile(r"(?:`|^::: )(bitr(?:\.\w+)+)", re.MULTILINE)
    for path in DOCUMENTS:
        if path.name != "CHANGELOG.md":
            yield from named.findall(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(set(names_of_the_package())))
def test_names_of_the_package_exist(name):
    resolve_name(name)


def test_settings_of_the_model_that_pages_name_exist():
    names = {field.name for field in fields(BITRConfig)}
    for path in (ROOT / "docs").rglob("*.md"):
        said = set(re.findall(r"`model\.([a-z_]+) ?=", path.read_text(encoding="utf-8")))
        assert said <= names, path
    counts = BITRConfig().num_keypoints, BITRConfig.paper().num_keypoints
    assert f"({counts[0]}; {counts[1]} in the paper's" in text_of("docs/speed.md")
