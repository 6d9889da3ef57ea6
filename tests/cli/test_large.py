"""Two million points a file, in bounded memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bitr.io import read
from tests.cli.test_laws_on_files import float32_ply
from tests.pieces import moved, two_pieces

NUM_POINTS = 2_000_000
MEASURED = """
import json, sys
from bitr.cli import main
status = main(sys.argv[1:])
with open("/proc/self/status") as file:
    peak = next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM:"))
print(json.dumps({"peak_mb": peak}), file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_two_million_points(tmp_path, weights):
    names = tmp_path / "x.ply", tmp_path / "y.ply"
    for name, seed in zip(names, (0, 1), strict=True):
        float32_ply(name, np.concatenate(two_pieces(NUM_POINTS, seed)))
    out = tmp_path / "out.ply"
    call = ["assemble", *names, "-o", out, "--model", weights, "--json"]
    done = subprocess.run([sys.executable, "-c", MEASURED, *map(str, call)], capture_output=True, text=True)
    assert done.returncode == 0
    assert json.loads(done.stderr)["peak_mb"] < 2000
    source, written = read(names[0]).points, read(out).points
    assert len(written) == NUM_POINTS
    assert np.allclose(written, moved(source, np.array(json.loads(done.stdout)["transformation"])), atol=1e-9)
