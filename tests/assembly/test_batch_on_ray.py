import importlib
import json

import numpy as np
import pytest

from bitr.assembly import batch
from bitr.assembly.assemble import Settings
from bitr.assembly.batch import run_batch
from bitr.assembly.network import Network
from bitr.errors import InputError
from tests.assembly.test_batch import pairs_in, rows_of
from tests.pieces import model_file


@pytest.mark.slow
def test_two_workers_give_the_rows_of_one_process(tmp_path, capfd):
    pytest.importorskip("ray")
    pairs, settings, model = pairs_in(tmp_path, 6), Settings(fast=True, points=60), str(model_file(tmp_path))
    network = Network.of(model)
    plain, ray = tmp_path / "plain.jsonl", tmp_path / "ray.jsonl"
    run_batch(pairs, network, settings, plain)
    with open(ray, "w") as file:  # an earlier run that was stopped after a row and a half
        file.write("".join(plain.read_text().splitlines(keepends=True)[:2])[:-40])
    (tmp_path / "ray.jsonl.settings.json").write_text((tmp_path / "plain.jsonl.settings.json").read_text())
    summary = run_batch(pairs, network, settings, ray, solver=batch.solve_on_ray(model, settings, workers=2))
    assert (summary.ok, summary.errors, summary.resumed) == (5, 1, 1)
    assert capfd.readouterr() == ("", "")
    found = {row["id"]: row for row in rows_of(ray)}
    assert len(rows_of(ray)) == 6
    for expected in rows_of(plain):
        row = found[expected["id"]]
        for key in ("id", "status", "error", "model", "method", "source", "reference", "warnings"):
            assert row[key] == expected[key]
        if expected["status"] != "error":
            assert np.allclose(row["transformation"], expected["transformation"], atol=1e-9)
            assert row["fitness"] == pytest.approx(expected["fitness"], abs=0.05)


def test_a_row_survives_the_journey(tmp_path):
    worker = batch.Worker(str(model_file(tmp_path)), "its name", Settings(fast=True, points=60))
    (pair,) = pairs_in(tmp_path, 1)
    item = {"pair": json.dumps({"id": pair.id, "source": pair.source, "reference": pair.reference})}
    row = json.loads(worker(item)["row"])
    assert (row["error"], row["model"], row["source"]) == (None, "its name", pair.source)


def test_without_ray_one_line_says_how_to_get_it(monkeypatch):
    def missing(name, *arguments):
        if name.split(".")[0] == "ray":
            raise ImportError(name)
        return importlib.import_module(name, *arguments)

    monkeypatch.setattr(batch, "import_module", missing)
    with pytest.raises(InputError, match=r'pip install -e "\.\[ray\]"'):
        batch.solve_on_ray("default", Settings())


@pytest.mark.slow
def test_no_workers_are_refused():
    pytest.importorskip("ray")
    with pytest.raises(InputError, match="workers = 0: expected at least 1"):
        batch.solve_on_ray("default", Settings(), workers=0)


def test_a_worker_has_what_comes_with_the_weights():
    network = batch.Worker("default", "its name", Settings()).network
    expected = Network.of("default")
    assert (network.points, network.joints, network.fitted) == (expected.points, expected.joints, True)
