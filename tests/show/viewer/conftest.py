"""An evaluated data set for the tests of the viewer."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bitr.cli import main
from bitr.cli.demo import ASSETS
from bitr.io import write
from tests.show.cases import demo_pair


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """A folder of ``bitr evaluate``, of three pairs that are turned the more the later they come."""
    home = tmp_path_factory.mktemp("results")
    rows, predicted = [], []
    x, y = (replace(side, points=side.points[::8]) for side in demo_pair())
    write(home / "x.ply", x)
    write(home / "y.ply", y)
    truth = np.loadtxt(ASSETS / "demo-pose.txt")
    for number, degrees in enumerate((40.0, 10.0, 90.0)):
        c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
        turn = np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
        common = {"id": f"pair {number} <b>"}
        rows.append(common | {"source": "x.ply", "reference": "y.ply", "pose": truth.tolist()})
        predicted.append(common | {"transformation": (turn @ truth).tolist()})
    for name, table in (("pairs.jsonl", rows), ("predictions.jsonl", predicted)):
        (home / name).write_text("".join(json.dumps(row) + "\n" for row in table))
    folder = home / "evaluated"
    given = ["--predictions", str(home / "predictions.jsonl"), "-o", str(folder)]
    assert main(["evaluate", str(home / "pairs.jsonl"), *given]) == 0
    return folder
