"""``bitr view`` from the command line."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from bitr.cli import main, view
from bitr.cli.demo import REFERENCE, SOURCE


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a.ply"], "got 1 files, expected SRC and REF"),
        (["a.ply", "b.ply", "c.ply"], "got 3 files"),
        (["nothing.ply", "nothing.ply"], "nothing.ply: no such file"),
        ([str(SOURCE), str(REFERENCE), "--results", "x"], "two files and --results"),
        (["--data-root", "x"], "--data-root goes with --results"),
        (["--results", "nowhere"], "no such file, expected a folder that bitr evaluate -o has written"),
        (["--points", "2"], "points = 2"),
        (["--method", "magic"], "method = 'magic': expected one of auto"),
        (["--host", "192.0.2.1"], "--host 192.0.2.1: cannot be used"),
        (["--model", "nothing"], "nothing"),
    ],
)
def test_bad_usage_is_told_in_one_line(given, message, capsys):
    assert main(["view", *given]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_without_viser_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr(view, "find_spec", lambda _: None)
    assert main(["view"]) == 2
    assert 'pip install "bitr[viz]"' in capsys.readouterr().err


def serve(*given):
    command = [sys.executable, "-m", "bitr", "view", *given]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes, env=os.environ | {"PYTHONWARNINGS": "error"})


def ended(process):
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0
    return out, error


@pytest.mark.slow
def test_it_serves_on_the_next_free_port_until_ctrl_c():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = serve("--port", str(port))
        line = process.stdout.readline()
        url = line.split()[1]
        assert url.startswith("http://127.0.0.1:")
        assert int(url.rpartition(":")[2]) > port
        with urllib.request.urlopen(url) as answer:
            assert b"<html" in answer.read()
        assert ended(process) == ("stopped\n", "")


@pytest.mark.slow
def test_another_host_comes_with_a_warning():
    process = serve("--host", "0.0.0.0", "--port", "0")
    assert process.stdout.readline().startswith("open http://0.0.0.0:")
    _, error = ended(process)
    assert error == (
        "bitr: warning: whoever can reach 0.0.0.0 can see these pieces and keep this machine busy\n"
    )
