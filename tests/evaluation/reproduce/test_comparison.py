"""Methods side by side: refinements, baselines that ran, and rows that say why there is nothing."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from bitr.errors import InputError
from bitr.evaluation.evaluate import Evaluation
from bitr.evaluation.report import Published, Repeated
from bitr.evaluation.reproduce import EXPERIMENTS, Budget, comparison, every, experiment, manipulation
from bitr.evaluation.reproduce.comparison import compare
from bitr.evaluation.reproduce.experiment import Case
from bitr.evaluation.reproduce.plan import Plan
from bitr.evaluation.reproduce.result import Result, Table
from bitr.evaluation.reproduce.weights import Weights
from bitr.evaluation.score import Score
from bitr.model.checkpoint import load
from bitr.training.config import config_file
from tests.evaluation.reproduce.cases import plan

pytestmark = pytest.mark.usefixtures("no_data")
COMPARED = replace(
    experiment("fragments"),
    name="compared",
    data=("bunny",),
    refinements=("icp",),
    baselines=("centroids", "kiss-matcher"),
    learned=("nsm",),
    published={"BITR": Published("8.4 (0.9)", "0.07"), "GEO": Published("9.2")},
)


OURS = ["BITR", "bitr assemble", "BITR + ICP"]


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "kiss_matcher", None)  # as if it were not installed
    result = compare(COMPARED, plan(tmp_path, baselines="all", samplings=1))
    assert "with the same budget each" in result.to_markdown()
    return {row.name: row for row in result.tables[0].rows}


def test_every_method_has_a_row_and_none_is_dropped_silently(rows):
    assert list(rows) == [*OURS, "centroids", "kiss-matcher", "in the manner of NSM", "GEO"]
    measured = [name for name, row in rows.items() if row.samplings]
    assert measured == [*OURS, "centroids", "in the manner of NSM"]
    assert 'pip install "bitr[baselines]"' in rows["kiss-matcher"].made
    assert rows["kiss-matcher"].made.startswith("not installed")
    assert rows["GEO"].made == "not run here: the paper's figure alone"
    assert re.search(r"trained \S+ min, 4 steps, 1 thread$", rows["in the manner of NSM"].made)
    assert rows["BITR"].published.rotation == "8.4 (0.9)"


def test_a_row_says_how_many_pairs_came_within_fifteen_degrees(rows):
    for name in ("BITR", "centroids"):
        scores = rows[name].pooled.scores
        near = [score for score in scores if score.errors and score.errors.rotation_error_deg <= 15]
        assert rows[name].shares == {"within 15°": len(near) / len(scores)}
    assert rows["GEO"].shares == {}


def test_learned_baselines_are_trained_by_default_when_there_is_time(tmp_path):
    assert plan(tmp_path, baselines=None).learned
    assert not replace(plan(tmp_path, baselines=None), budget=Budget.of("10m")).learned
    assert replace(plan(tmp_path, baselines=None), budget=Budget.of("1h")).learned


def test_each_share_that_is_kept_is_a_data_set_of_its_own():
    cases = experiment("airplane").cases
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

    monkeypatch.setattr(comparison, "weights", noted)
    monkeypatch.setattr(comparison, "samplings", lambda name, plan: [[]])
    monkeypatch.setattr(comparison, "measured", lambda entries, pairs, published, plan: ())
    monkeypatch.setattr(Plan, "pairs", lambda self, data, sampling: [])
    compare(experiment("airplane"), plan(tmp_path, baselines="none", model=None))
    keeps = ["airplane:0.7", "airplane:0.5", "airplane:0.4", "airplane:0.3"]
    assert begun == dict(
        zip(keeps, ["", *(str(tmp_path / k.replace(":", "-")) for k in keeps)], strict=False)
    )


def test_weights_that_come_with_bitr_are_not_trained(tmp_path):
    unseen = replace(experiment("unseen"), data=("bunny",), baselines=(), refinements=())
    (table,) = compare(unseen, plan(tmp_path, limit=1, samplings=1)).tables
    assert table.rows[0].made.endswith("weights default")


@pytest.mark.parametrize("name", ["airplane", "inter-class", "fragments", "indoor", "outdoor", "unseen"])
def test_missing_data_is_one_line_that_says_how_to_get_it(tmp_path, name):
    with pytest.raises(InputError, match="to get it: "):
        every.run_one(experiment(name), plan(tmp_path))


def test_all_of_them_go_on_where_one_lacks_its_data(tmp_path, monkeypatch):
    def found(chosen, settings):
        row = Repeated("BITR", (), "made up")
        return Result(chosen.name, chosen.title, chosen.section, {}, (Table("bunny", (row,), []),))

    monkeypatch.setattr(every.folder, "write", lambda folder, result: [])
    generated = ("toy", "ablation", "complete-matching", "manipulation")
    # the last table of "unseen" is of the user's meshes
    chosen = {n: replace(e, run=found) if n in generated else e for n, e in EXPERIMENTS.items()}
    monkeypatch.setattr(every, "EXPERIMENTS", chosen)
    result, files = every.run_all(plan(tmp_path))
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert [path.name for path in files] == ["table.md", "result.json"]
    for name in EXPERIMENTS:
        expected = f"| {name}: BITR | made up |" if name in generated else f"| {name} | not measured: "
        assert expected in text, name
    assert result.to_json().count("not measured") == 7


def test_success_counts_pairs_without_an_answer_as_failures(tmp_path, monkeypatch):
    class Worked:
        succeeded = True

    scores = [Score(f"pair/{i}", "m", None, np.eye(4) if i else None, None, None) for i in range(4)]
    monkeypatch.setattr(manipulation, "success", lambda id, pose, root: Worked())
    assert manipulation.success_rate(Evaluation("any", tuple(scores)), plan(tmp_path)) == 0.75


@pytest.mark.slow
def test_manipulation_counts_successes_and_the_true_pose_has_them_all(tmp_path, monkeypatch):
    pytest.importorskip("pybullet")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "scenes"))
    bowls = replace(experiment("manipulation"), data=("bowl-placing",))
    result = bowls.run(bowls, plan(tmp_path, model="default", limit=1, samplings=1, baselines="classical"))
    shares = {row.name: row.shares[manipulation.SUCCESS] for row in result.tables[0].rows}
    assert list(shares) == ["BITR", "bitr assemble", "centroids", "true pose"]
    assert shares["true pose"] == 1.0
    assert "| success in simulation |" in result.to_markdown()
