"""What the documents promise: Python runs, command lines run or at least parse, links lead somewhere."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import typer

from bitr.cli import UsageError, app, main
from tests.docs.commands import SHORTER, check_other_program, parse, why_not_run
from tests.docs.documents import (
    DOCUMENTS,
    ROOT,
    arguments_of_bitr,
    command_lines,
    mentions,
    other_mentions,
    python_of,
)
from tests.docs.stand_ins import make_stand_ins

README = ROOT / "README.md"
each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stand-ins")
    make_stand_ins(folder)
    return folder


@pytest.fixture
def workplace(stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the documents name, and nothing of the machine's own data."""
    folder = tmp_path / "work"
    shutil.copytree(stand_ins, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BITR_DATA", str(folder / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if python_of(path)], ids=lambda path: path.name)
def test_python_snippets_run_in_order(path, workplace, capsys):
    exec(compile(python_of(path), str(path), "exec"), {})
    said = {"README.md": "1.        ]]", "model.md": "torch.Size([1, 3, 3])"}.get(path.name, "")
    assert said in capsys.readouterr().out


@pytest.mark.slow
@each_document
def test_command_lines_run_or_are_parsed(path, workplace, capsys):
    for words in command_lines(path):
        arguments = arguments_of_bitr(words)
        if arguments is None:
            check_other_program(words)
            continue
        command = parse(arguments)
        if path != README and command and why_not_run(words, command) is None:
            as_is = "--method" in words or "--fast" in words
            status = main(arguments if as_is else [*arguments, *SHORTER.get(command, "").split()])
            assert status == 0, f"{' '.join(words)}: {capsys.readouterr().err}"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=[pytest.mark.slow] if words[1] == "puzzle" else [], id=" ".join(words))
        for words in command_lines(README)
        if words[0] == "bitr"
    ],
)
def test_commands_of_readme_run_as_printed(words, workplace, capsys):
    """Other documents have theirs made shorter."""
    assert main(words[1:]) == 0, capsys.readouterr().err
    assert all(Path(word).stat().st_size for word in words if Path(word).suffix)  # what it reads and writes


@each_document
def test_commands_inside_sentences_exist_with_their_options(path):
    for mention in mentions(path):
        words = mention.split()[1:]
        command = typer.main.get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        if words and not words[0].startswith("-") and (below := getattr(command, "commands", {})):
            assert set(words[0].split("|")) <= set(below), f"{mention}: no such command"
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        used = re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", " ".join(words))
        assert set(used) <= known, f"{mention}: {set(used) - known}"


@each_document
def test_other_programs_inside_sentences_can_be_started(path):
    for words in other_mentions(path):
        check_other_program(words)


@each_document
def test_links_to_files_lead_somewhere(path):
    text = re.sub(r"`[^`\n]*`", "", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target:
            assert (path.parent / target).exists(), target


@each_document
def test_source_files_that_are_named_exist(path):
    folders = ("src", "tests", "examples", "benchmarks")
    files = [f"/{each.relative_to(ROOT)}" for name in folders for each in (ROOT / name).rglob("*.*")]
    for name in re.findall(r"`([\w/]+\.(?:py|ipynb))`", path.read_text(encoding="utf-8")):
        assert any(each.endswith(f"/{name}") for each in files), name


def test_the_readme_shows_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text


@pytest.mark.parametrize(
    "line",
    [
        "assemble a.ply b.ply --refien icp",
        "asemble a.ply b.ply",
        "train --set",
        "data shwo x",
        "evaluate --limit x",
    ],
)
def test_a_wrong_command_line_is_found(line):
    with pytest.raises(UsageError):
        parse(line.split())
