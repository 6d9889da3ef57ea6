import os
import re
import subprocess
import sys

import numpy as np
import pytest

import bitr
import bitr.cli
from bitr.cli import main
from bitr.cli.options import one_line
from tests.pieces import two_pieces

COMMANDS = ("assemble", "calibrate", "certify", "evaluate", "reproduce", "train", "view", "demo", "bench")


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "bitr", *map(str, arguments)], capture_output=True, text=True, **options
    )


def test_help_comes_without_heavy_imports():
    """`bitr --help` must answer at once; torch alone takes a second."""
    code = (
        "import sys; from bitr.cli import main; status = main(['--help']); "
        "heavy = {'torch', 'numpy', 'scipy', 'trimesh', 'ray', 'matplotlib'}; "
        "print(sorted(heavy & sys.modules.keys())); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(command in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_an_example_in_its_help(command, capsys):
    assert main([command, "--help"]) == 0
    assert f"example: bitr {command} " in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == bitr.__version__


def test_no_command_is_bad_usage(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "demo" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["assembel"], "No such command 'assembel'"),
        (["assemble", "a", "b", "--jsn"], "No such option: --jsn"),
        (["assemble", "a", "b", "--points", "many"], "--points"),
        (["assemble", "a", "b", "-o"], "-o"),
        (["demo", "--seed", "x"], "--seed"),
    ],
)
def test_bad_usage_is_one_line_and_status_2(arguments, says, capsys):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("bitr: ")
    assert err.count("\n") == 1
    assert says in err


def raising(monkeypatch, tmp_path, weights, error):
    """An ``assemble`` command that fails with the error once its files are read."""

    def fail(*_, **__):
        raise error

    for name in "xy":
        np.save(tmp_path / f"{name}.npy", two_pieces(100)[0])
    monkeypatch.setattr("bitr.cli.answer.assemble_geometries", fail)
    return ["assemble", str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), "--model", str(weights)]


def test_anything_unexpected_is_one_line_and_status_1(monkeypatch, capsys, tmp_path, weights):
    error = RuntimeError("first line\nsecond line")
    assert main(raising(monkeypatch, tmp_path, weights, error)) == 1
    assert capsys.readouterr().err == "bitr: unexpected RuntimeError: first line\n"


def test_with_v_the_log_says_where_an_unexpected_error_came_from(monkeypatch, capsys, tmp_path, weights):
    command = raising(monkeypatch, tmp_path, weights, RuntimeError("no luck"))
    assert main(command) == 1
    assert capsys.readouterr().err == "bitr: unexpected RuntimeError: no luck\n"
    assert main([*command, "-v"]) == 1
    err = capsys.readouterr().err
    assert "reading" in err
    assert "Traceback" in err
    assert err.endswith("bitr: unexpected RuntimeError: no luck\n")


def test_ctrl_c_is_quiet_and_status_130(monkeypatch, capsys, tmp_path, weights):
    assert main(raising(monkeypatch, tmp_path, weights, KeyboardInterrupt())) == 130
    assert capsys.readouterr() == ("", "")


def test_a_reader_that_goes_away_is_no_error_to_speak_of():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "bitr", "--help"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-"])
def test_it_runs_with_a_standard_stream_closed(tmp_path, weights, closed):
    for name, points in zip("xy", two_pieces(100), strict=True):
        np.save(tmp_path / f"{name}.npy", points)
    options = ["x.npy", "y.npy", "--model", str(weights), "-o", "pose.json", "--json"]
    command = " ".join([sys.executable, "-m", "bitr", "assemble", *options])
    done = subprocess.run(
        ["sh", "-c", f"exec {command} {closed}"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("" if closed == "1>&-" else (tmp_path / "pose.json").read_text())


def test_letters_that_standard_output_does_not_have_are_escaped():
    call = [sys.executable, "-m", "bitr", "--help"]
    done = subprocess.run(call, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"assemble" in done.stdout


def test_shell_completion_is_offered():
    done = run(
        "--show-completion", "bash", env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    )
    assert done.returncode == 0
    assert "_BITR_COMPLETE" in done.stdout


@pytest.mark.slow
def test_public_names_and_parts_are_there_when_asked_for():
    code = "import bitr; print(bitr.data.cut.__name__, *(getattr(bitr, n).__name__ for n in bitr.__all__))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["cut", *bitr.__all__]
    assert set(bitr.__all__) <= set(dir(bitr))
    with pytest.raises(AttributeError, match="has no attribute 'nonesuch'"):
        bitr.nonesuch  # noqa: B018


def test_one_line_keeps_what_can_be_printed():
    assert one_line("a b é ü 雪") == "a b é ü 雪"
    assert one_line("a\nb\tc\x1b[31m\udcff") == "a\\nb\\tc\\x1b[31m\\udcff"
