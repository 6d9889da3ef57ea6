"""Every damaged file is bad input: status 2, one line, nothing on standard output, nothing written."""

import subprocess
import sys

import numpy as np
import pytest

from bitr.assembly.network import Network
from bitr.cli import main
from tests.io.damaged import damaged_files
from tests.pieces import two_pieces


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return damaged_files(tmp_path_factory.mktemp("damaged"))


@pytest.fixture
def good(tmp_path):
    np.save(tmp_path / "good.npy", two_pieces(100)[0])
    return str(tmp_path / "good.npy")


@pytest.mark.slow
def test_in_place_of_the_source_or_of_the_reference(corpus, good, tmp_path, weights, capsys, monkeypatch):
    network = Network.of(weights)
    monkeypatch.setattr(Network, "of", lambda _: network)  # loaded once, to be quick
    outputs = ["-o", str(tmp_path / "out.ply"), "--html", str(tmp_path / "out.html")]
    before, wrong = set(tmp_path.iterdir()), []
    assert len(corpus) >= 60
    for number, (path, fragment) in enumerate(corpus):
        pair = (str(path), good)[:: 1 if number % 2 else -1]
        status = main(["assemble", *pair, "--model", str(weights), "--json", *outputs])
        out, err = capsys.readouterr()
        one_line = err.startswith("bitr: ") and err.count("\n") == 1
        if (status, out) != (2, "") or not one_line or fragment not in err:
            wrong.append(f"{path.name}: status {status}, out {out!r:.80}, err {err!r:.300}")
    assert "\n".join(wrong) == ""
    assert set(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_in_a_process_of_its_own(corpus, good, tmp_path, weights):
    """Nothing else may end up on the two streams either, from libraries or from the interpreter."""
    for path, fragment in corpus[:: len(corpus) // 2]:
        call = [sys.executable, "-m", "bitr", "assemble", path, good, "--model", weights, "--json"]
        done = subprocess.run(
            [*map(str, call), "-o", str(tmp_path / "out.ply")], capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("bitr: ")
        assert done.stderr.count("\n") == 1
        assert fragment in done.stderr
        assert not (tmp_path / "out.ply").exists()


def test_a_damaged_checkpoint(good, tmp_path, capsys):
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"\xff" * 100)
    assert main(["assemble", good, good, "--model", str(bad)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "not a readable safetensors file" in err
    assert err.count("\n") == 1
