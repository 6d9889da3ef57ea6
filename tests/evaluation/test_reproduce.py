"""The runner: the four tests, the ablation, comparisons, and rows that say why there is nothing."""

import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from bitr.errors import InputError
from bitr.evaluation import experiment, reproduce
from bitr.evaluation.evaluate import Evaluation, Score
from bitr.evaluation.experiment import EXPERIMENTS, Case, Plan, Weights, find_experiment
from bitr.evaluation.report import Repeated, table
from bitr.evaluation.reproduce import Result, Table, difference, run, run_all, run_one
from bitr.model.checkpoint import load, save
from bitr.training.config import config_file
from bitr.training.folder import read_log
from tests.evaluation.cases import SMALL, plan, result
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

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_data")]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BITR_DATA", raising=False)
        out = tmp_path_factory.mktemp("toy")
        return out, *run_one(find_experiment("toy"), plan(out))


def test_table_json_plots_and_pictures_are_written(toy):
    out, found, files = toy
    assert {path.name for path in files} == {*FILES, "paper.md"}
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
    monkeypatch.setattr(experiment, "PROBE", 8)

    class Stops(Heard):
        def recorded(self, record):
            super().recorded(record)
            raise KeyboardInterrupt

    timed = plan(tmp_path, budget="1h", limit=1, samplings=1)
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


BROKEN = {"BITR": set(), "BITR without swap": {"swapped"}, "BITR without scale": {"scaled"}}


@pytest.fixture(scope="module")
def ablated(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BITR_DATA", raising=False)
        out = tmp_path_factory.mktemp("ablation")
        return out, result("ablation", plan(out, samplings=1))


@pytest.mark.parametrize("variant", BROKEN)
def test_a_missing_law_breaks_its_own_test_and_no_other(ablated, variant):
    rows = {row.name: row for row in ablated[1].tables[0].rows}
    original = rows[f"{variant}, original"]
    for test in ("swapped", "scaled", "moved"):
        off = difference(original, rows[f"{variant}, {test}"])
        assert off > 0.1 if test in BROKEN[variant] else off < 1e-3, test


def test_the_papers_figures_stand_beside_ours(ablated):
    printed = {row.name: row.published.rotation for row in ablated[1].tables[0].rows}
    assert len(printed) == 12
    assert printed["BITR without swap, swapped"] == "70.3 (20.0)"
    assert printed["BITR without scale, scaled"] == "125.4 (15.0)"
    assert printed["BITR without scale, swapped"] == "15.0 (8.0)"


def test_given_weights_stand_for_their_own_variant_alone(ablated, tmp_path):
    given = ablated[0] / "runs" / "bunny-stand-in-without-swap-full"
    rows = result("ablation", plan(tmp_path, model=str(given), limit=1, samplings=1)).tables[0].rows
    measured = {row.name.partition(",")[0] for row in rows if row.samplings}
    assert measured == {"BITR without swap"}
    assert all("nothing is, and" in row.made for row in rows if not row.samplings)


COMPARED = replace(
    find_experiment("fragments"),
    name="compared",
    data=("bunny",),
    refinements=("icp",),
    baselines=("centroids", "kiss-matcher"),
    learned=("nsm",),
    published={"BITR": ("8.4 (0.9)", "0.07"), "GEO": ("9.2",)},
)


OURS = ["BITR", "bitr assemble", "BITR + ICP"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BITR_DATA", raising=False)
        patch.setitem(sys.modules, "kiss_matcher", None)  # as if it were not installed
        result = run(COMPARED, plan(tmp_path_factory.mktemp("rows"), baselines="all", samplings=1, limit=1))
    assert "with the same budget each" in result.to_markdown()
    return {row.name: row for row in result.tables[0].rows}


def test_every_method_has_a_row_and_none_is_dropped_silently(rows):
    assert list(rows) == [*OURS, "centroids", "kiss-matcher", "in the manner of NSM", "GEO"]
    measured = [name for name, row in rows.items() if row.samplings]
    assert measured == [*OURS, "centroids", "in the manner of NSM"]
    assert 'pip install -e ".[baselines]"' in rows["kiss-matcher"].made
    assert rows["kiss-matcher"].made.startswith("not installed")
    assert rows["GEO"].made == "not run here: the paper's figure alone"
    assert re.search(r"trained \S+ min, 4 steps, 1 thread$", rows["in the manner of NSM"].made)
    assert rows["BITR"].published.rotation == "8.4 (0.9)"


def test_right_has_one_criterion(rows):
    """The column of all tables; there is no other share of rotations alone."""
    assert all(row.shares == {} for row in rows.values())
    head = table(list(rows.values())).splitlines()[0]
    assert "| right |" in head
    assert "within 15°" not in head


def test_learned_baselines_are_trained_by_default_when_there_is_time(tmp_path):
    assert plan(tmp_path, baselines=None).learned
    assert not replace(plan(tmp_path, baselines=None), budget="10m").learned
    assert replace(plan(tmp_path, baselines=None), budget="1h").learned


def test_each_share_that_is_kept_is_a_data_set_of_its_own():
    cases = find_experiment("airplane").cases
    assert cases[1] == Case("airplane:0.5", 0.5)
    assert [case.title for case in cases] == [f"airplane, keep {keep}" for keep in (0.7, 0.5, 0.4, 0.3)]


@pytest.mark.parametrize("name", sorted({name for each in EXPERIMENTS.values() for name in each.data}))
def test_every_data_set_has_a_config(name):
    assert config_file(name.partition(":")[0]).stem == name.partition(":")[0]


def test_each_share_goes_on_from_the_weights_for_the_larger_one(tmp_path, monkeypatch):
    begun = {}

    def noted(config, name, plan, parts):
        begun[name] = config.run.init_from
        return Weights(load("default").double(), "made up", tmp_path / name.replace(":", "-"))

    monkeypatch.setattr(reproduce, "weights", noted)
    monkeypatch.setattr(reproduce, "_samplings", lambda case, config, plan: [[]])
    monkeypatch.setattr(reproduce, "_measure", lambda entries, pairs, experiment, case, plan: ())
    monkeypatch.setattr(Plan, "pairs", lambda self, data, sampling: [])
    run(find_experiment("airplane"), plan(tmp_path, baselines="none", model=None))
    keeps = ["airplane:0.7", "airplane:0.5", "airplane:0.4", "airplane:0.3"]
    assert begun == dict(
        zip(keeps, ["", *(str(tmp_path / k.replace(":", "-")) for k in keeps)], strict=False)
    )


def test_weights_that_come_with_bitr_are_not_trained(tmp_path):
    unseen = replace(find_experiment("unseen"), data=("bunny",), baselines=(), refinements=())
    (table,) = run(unseen, plan(tmp_path, limit=1, samplings=1)).tables
    assert table.rows[0].made.endswith("weights default")


@pytest.mark.parametrize("name", ["airplane", "inter-class", "fragments", "indoor", "outdoor", "unseen"])
def test_missing_data_is_one_line_that_says_how_to_get_it(tmp_path, name):
    with pytest.raises(InputError, match="to get it: "):
        run_one(find_experiment(name), plan(tmp_path))


def test_all_of_them_go_on_where_one_lacks_its_data(tmp_path, monkeypatch):
    def found(chosen, settings):
        row = Repeated("BITR", (), "made up")
        return Result(chosen, {}, (Table("bunny", (row,), []),))

    monkeypatch.setattr(reproduce, "write_files", lambda folder, result: [])
    generated = ("toy", "ablation", "complete-matching", "manipulation")
    # the last table of "unseen" is of the user's meshes
    monkeypatch.setattr(
        reproduce, "run", lambda e, own: found(e, own) if e.name in generated else run(e, own)
    )
    measured = []

    def run_table(name, plan):
        measured.append(name)
        if name == "engine":
            raise InputError("engine: none of its data is here")

    monkeypatch.setattr(reproduce, "run_table", run_table)
    result, files = run_all(plan(tmp_path))
    assert measured == ["laws", "speed", "engine", "puzzles"]
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert [path.name for path in files] == ["table.md", "result.json", "paper.md"]
    for name in EXPERIMENTS:
        expected = f"| {name}: BITR | made up |" if name in generated else f"| {name} | not measured: "
        assert expected in text, name
    assert "| engine | not measured: engine: none of its data is here |" in text
    assert result.to_json().count("not measured") == 8


def test_success_counts_pairs_without_an_answer_as_failures(tmp_path, monkeypatch):
    class Worked:
        succeeded = True

    scores = [Score(f"pair/{i}", "m", None, np.eye(4) if i else None, None, None) for i in range(4)]
    monkeypatch.setattr(reproduce, "success", lambda id, pose, root: Worked())
    found = reproduce.success_share(Evaluation("any", tuple(scores)), plan(tmp_path))
    assert found == {reproduce.SUCCESS: 0.75}


def test_manipulation_counts_successes_and_the_true_pose_has_them_all(tmp_path, monkeypatch):
    pytest.importorskip("pybullet")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "scenes"))
    bowls = replace(find_experiment("manipulation"), data=("bowl-placing",))
    result = run(bowls, plan(tmp_path, model="default", limit=1, samplings=1, baselines="classical"))
    shares = {row.name: row.shares[reproduce.SUCCESS] for row in result.tables[0].rows}
    assert list(shares) == ["BITR", "bitr assemble", "centroids", "true pose"]
    assert shares["true pose"] == 1.0
    assert "| success in simulation |" in result.to_markdown()
