"""The proof of concept from end to end, on the shape that stands in for the bunny."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from bitr.errors import InputError
from bitr.evaluation.reproduce import Budget, budget, experiment
from bitr.evaluation.reproduce.every import run_one
from bitr.evaluation.reproduce.toy import difference
from bitr.model.checkpoint import load, save
from bitr.training.log import read_log
from tests.evaluation.reproduce.cases import SMALL, plan, result
from tests.training.cases import Heard

FILES = {
    "table.md",
    "result.json",
    "rotation_error.png",
    "recall.png",
    "best_pair.png",
    "median_pair.png",
    "worst_pair.png",
}

pytestmark = pytest.mark.usefixtures("no_data")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BITR_DATA", raising=False)
        out = tmp_path_factory.mktemp("toy")
        return out, *run_one(experiment("toy"), plan(out))


def test_table_json_plots_and_pictures_are_written(toy):
    out, found, files = toy
    assert {path.name for path in files} == FILES
    assert all(path.stat().st_size for path in files)
    assert (out / "toy" / "table.md").read_text(encoding="utf-8") == found.to_markdown()
    assert json.loads((out / "toy" / "result.json").read_text(encoding="utf-8")) == found.to_dict()
    assert (out / "toy" / "runs" / "bunny-stand-in-full" / "curves.png").is_file()


def test_the_table_says_what_it_was_measured_on_beside_the_papers_figures(toy):
    lines = toy[1].to_markdown().splitlines()
    head, rows = lines[4], [line for line in lines if line.startswith("| BITR,")]
    assert head.startswith("|  | data and training | pairs | failed | Δr (°) | paper Δr (°) |")
    assert len(rows) == 4
    for row in rows:
        assert re.search(
            r"stand-in: a generated shape, not the bunny; trained \S+ min, 4 steps, 1 thread \|", row
        )
        assert "| 17.1 (6.0) |" in row
    assert any(line.startswith("| chance | – | – | – | 126.5 ± 37.0 |") for line in lines)


def test_the_four_tests_are_alike_and_the_laws_hold(toy):
    original, *others = toy[1].tables[0].rows
    assert all(difference(original, row) < 1e-6 for row in others)
    found = toy[1].to_dict()
    assert all(error < 1e-9 for error in found["laws"]["float64"].values())
    assert found["paper_laws"] == {"bi": 5e-6, "swap": 2e-7, "scale": 5e-7}


def test_the_same_command_again_trains_nothing(toy):
    out, before, _ = toy
    heard = Heard()
    after = result("toy", plan(out / "toy", listener=heard))
    assert heard.begun == [(4, 4)]
    assert heard.records == []
    for old, new in zip(before.tables[0].rows, after.tables[0].rows, strict=True):
        np.testing.assert_array_equal(old.pooled.values("add_s"), new.pooled.values("add_s"))


def test_a_run_that_was_stopped_goes_on_with_the_steps_it_began_with(tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "PROBE", 8)

    class Stops(Heard):
        def recorded(self, record):
            super().recorded(record)
            raise KeyboardInterrupt

    timed = plan(tmp_path, budget=Budget.of("1h"), limit=1, samplings=1)
    with pytest.raises(KeyboardInterrupt):
        result("toy", replace(timed, listener=Stops()))
    heard = Heard()
    result("toy", replace(timed, listener=heard))
    folder = tmp_path / "runs" / "bunny-stand-in-1h"
    assert heard.begun[0][1] == 4  # what the config has, since it fits
    assert [row["step"] for row in read_log(folder)][-1] == 4


def test_a_run_does_not_go_on_with_other_settings(toy):
    with pytest.raises(InputError, match=r"optimizer\.rate"):
        result("toy", plan(toy[0] / "toy", changes=(*SMALL, "optimizer.rate=1e-5")))


def test_named_weights_are_used_and_nothing_is_trained(toy, tmp_path):
    trained = toy[0] / "toy" / "runs" / "bunny-stand-in-full"
    save(load(trained), tmp_path / "own.safetensors")
    found = result("toy", plan(tmp_path, model=str(tmp_path / "own.safetensors"))).tables[0].rows[0]
    expected = toy[1].tables[0].rows[0]
    assert found.made.endswith("own.safetensors")
    assert found.pooled.summary("add_s") == expected.pooled.summary("add_s")
    assert not (tmp_path / "runs").exists()


def test_what_the_experiment_decides_cannot_be_set(tmp_path):
    with pytest.raises(InputError, match=r"the experiment decides on data\.name"):
        plan(tmp_path, changes=("data.name=bunny",))
