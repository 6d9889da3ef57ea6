"""Rows of BENCHMARK.md: from results to files, and from files into the page."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import tables as page
from bitr.assembly.puzzle import Puzzle
from bitr.cli import main
from bitr.data.poses import PuzzleCase, random_pose
from bitr.errors import InputError
from bitr.evaluation import speed, tables
from bitr.evaluation.evaluate import Evaluation, score_of
from bitr.evaluation.experiment import EXPERIMENTS, MEASURED, find_experiment
from bitr.evaluation.puzzles import Study
from bitr.evaluation.report import Published, Repeated
from bitr.evaluation.reproduce import Result, Table
from bitr.evaluation.tables import cells_of, engine_row, paper_row, write_result, write_table
from bitr.io import Geometry
from bitr.testing import Laws
from tests.data.cases import pair_of
from tests.evaluation.cases import plan

HEAD = ("model", "Δ_bi", "Δ_swap", "Δ_scale")


def row(name, degrees, made="", published=None, shares=None, away=None):
    """A row of pairs whose answers are turned by so many degrees; the one by ``away`` is shifted, too."""
    scores = []
    for number, angle in enumerate(degrees):
        pair = pair_of(30, np.random.default_rng(number))
        c, s = np.cos(np.radians(angle)), np.sin(np.radians(angle))
        turned = pair.ref_from_src.copy()
        turned[:3, :3] = turned[:3, :3] @ [[c, -s, 0], [s, c, 0], [0, 0, 1]]
        turned[0, 3] += 10 * (angle == away)
        scores.append(score_of(pair, turned, 1.0))
    samplings = (Evaluation(name, tuple(scores)),) if scores else ()
    return Repeated(name, samplings, made, published, shares or {})


def result(name, *rows, **changes):
    experiment = find_experiment(name)
    table = Table("a table", rows, [], minutes=changes.pop("minutes", 12.54))
    return Result(replace(experiment, **changes), {}, (table,) * len(experiment.cases))


def test_a_row_takes_the_place_of_the_one_with_the_same_first_cell(tmp_path):
    write_table(tmp_path, "laws", HEAD, [("a", "1", "2", "3"), ("b", "4", "", "6")])
    new = [("b", "7", "8", "9"), ("c", "1", "1", "1")]
    path = write_table(tmp_path, "laws", HEAD, new)
    text = path.read_text(encoding="utf-8")
    assert cells_of(text) == [HEAD, ("a", "1", "2", "3"), *new]
    assert text.startswith("<!-- bitr reproduce laws -->\n| model |")
    assert write_table(tmp_path, "laws", HEAD, cells_of(text)[1:]).read_text(encoding="utf-8") == text
    write_table(tmp_path, "laws", ("model", "Δ"), [("a", "1")])
    assert cells_of(path.read_text(encoding="utf-8")) == [("model", "Δ"), ("a", "1")]  # no rows of another


def test_the_row_of_an_experiment_has_the_paper_the_best_other_method_and_ours():
    found = result(
        "indoor",
        row("BITR", [10, 30], "RedKitchen; trained", Published("26.7 (0.0)")),
        row("bitr assemble", [1, 1]),
        row("BITR + OT", [5, 5], published=Published("9.5 (0.0)")),
        row("bound", [0.1, 0.1], "looks at the answer"),
        row("ICP", [70, 70]),
        row("FGR", [20, 40]),
        row("in the manner of OMN", [], published=Published("129.02 (2.15)")),
    )
    usual = {"limit": None, "samplings": 3, "baselines": None}
    assert paper_row(found, 0, plan(Path(), changes=("run.batch=4",), budget="9m", **usual)) == (
        "rooms, model alone",
        "`bitr reproduce indoor --budget 9m --set run.batch=4`",
        "12.5",
        "26.7°; OT 9.5°",
        "FGR 30.0°, median 30.0°",
        "20.0°, median 20.0°; OT 5.0°",
    )


def test_the_command_of_a_row_has_every_option_that_it_was_made_with():
    given = {"budget": "20s", "model": "runs/x", "limit": 2, "samplings": 1, "seed": 7, "baselines": "none"}
    command = paper_row(result("toy", row("BITR", [10])), 0, plan(Path(), changes=(), **given))[1]
    options = " ".join(f"--{name} {value}" for name, value in given.items())
    assert command == f"`bitr reproduce toy {options}`"


def test_a_stand_in_has_a_dagger_and_the_papers_own_figures_say_so():
    found = result(
        "fragments",
        row("BITR", [10], "wine bottles of Breaking Bad", Published("8.4 (0.9)")),
        row("in the manner of DGL", [], published=Published("101.3")),
        row("in the manner of LEV", [], published=Published("98.3")),
        minutes=None,
    )
    label, _, minutes, paper, other, _ = paper_row(found, 0, plan(Path()))
    assert label == "wine bottles†, model alone"
    assert (minutes, paper, other) == ("–", "8.4°", "LEV 98.3° (in the paper)")


def test_success_in_simulation_is_a_share(tmp_path):
    simulated = row("BITR", [10], "scenes simulated here", shares={"success in simulation": 2 / 3})
    other = row("centroids", [90], "nothing to train", shares={"success in simulation": 0.0})
    (path,) = write_result(tmp_path, result("manipulation", simulated, other), plan(tmp_path))
    head, mugs, bowls = cells_of(path.read_text(encoding="utf-8"))
    assert head == tables.HEADS["paper"]
    assert mugs == ("mugs to hang†, success", mugs[1], "12.5", "pictures", "", "67%")
    assert bowls[0] == "bowls to place†, success"


def test_unseen_objects_are_a_table_of_methods_by_data(tmp_path):
    found = result("unseen", row("BITR", [1, 2, 30], away=2), row("ICP", [90, 90]))
    (path,) = write_result(tmp_path, found, plan(tmp_path))
    head, ours, icp, chance = cells_of(path.read_text(encoding="utf-8"))
    assert head == ("mean Δr, median, within 15° and 0.1 of the size", *find_experiment("unseen").labels)
    assert ours == ("BITR", *["11.0°, 2.0°, 33%"] * 4)  # two within 15°, one of them far away
    assert icp == ("ICP", *["90.0°, 90.0°, 0%"] * 4)
    assert chance[:2] == ("chance", "126.5°, 132.3°")


def test_experiments_without_a_row_in_the_page_write_none(tmp_path):
    assert write_result(tmp_path, result("ablation", row("BITR", [10])), plan(tmp_path)) == []


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda each: each.name)
def test_every_table_has_its_label_or_none_has(experiment):
    assert len(experiment.labels) in (0, len(experiment.cases))
    assert len(experiment.said) in (0, len(experiment.cases))


def test_the_engine_is_measured_once_and_its_row_is_that_of_an_evaluation(tmp_path, monkeypatch):
    pairs = [pair_of(40, np.random.default_rng(k)) for k in range(3)]
    asked = []

    def measured(method, pairs, progress=None):
        asked.append(len(pairs))
        return Evaluation("default", tuple(score_of(each, each.ref_from_src, 1.0, 0.9) for each in pairs))

    monkeypatch.setattr(tables, "evaluate", measured)
    monkeypatch.setattr("bitr.evaluation.experiment.dataset", lambda *_: pairs)
    monkeypatch.setattr(tables, "ENGINE", {"shapes:cut": ("generated cuts", 60)})
    for _ in range(2):
        text, (path,) = tables.run_table("engine", plan(tmp_path, limit=2))
    assert asked == [2]
    command = "`bitr evaluate default shapes:cut --limit 2 --samplings 1`"
    assert cells_of(text)[1] == ("generated cuts", command, "2", "0.0°", "0.0°", "100.0%", "100.0%")
    assert path == tmp_path / "tables" / "engine.md"
    tables.run_table("engine", plan(tmp_path, limit=1))
    assert asked == [2, 1]  # other settings are measured anew


def test_data_that_is_not_in_the_table_is_refused():
    with pytest.raises(InputError, match="bunny: is not in the table, expected one of shapes:cut, "):
        engine_row({"dataset": "bunny", "rows": [{"pooled": {}}]})


def test_the_command_writes_the_laws_and_prints_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, "measured_laws", lambda setting: [(0, 200, Laws(1e-6, 2e-7, 3e-15))])
    assert main(["reproduce", "laws", "-o", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["table"], found["head"]) == ("laws", list(HEAD))
    assert found["rows"][0] == ["default, float64", "1e-06", "2e-07", "3e-15"]
    assert found["rows"][-1][1:] == ["5e-06", "2e-07", "5e-07"]
    kept = {cells[0] for cells in cells_of((page.KEPT / "laws.md").read_text(encoding="utf-8"))}
    assert {cells[0] for cells in found["rows"]} | {"model"} == kept


@pytest.mark.slow
def test_speed_has_the_rows_of_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "FULL", speed.Patience(rounds=1, seconds=0.0, least=1))
    monkeypatch.setattr(tables, "SPEED", (("default", 64, 1), ("paper", 64, 2)))
    head, *rows = cells_of(tables.run_table("speed", plan(tmp_path))[0])
    assert head == cells_of((page.KEPT / "speed.md").read_text(encoding="utf-8"))[0]
    assert [cells[0] for cells in rows] == ["default, 64 × 1", "paper's construction, 64 × 2"]


def test_puzzles_are_rows_and_a_study_without_its_data_is_passed_over(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    pieces = tuple(Geometry(rng.normal(size=(40, 3))) for _ in range(3))
    places = np.stack([random_pose(rng, 1.0) for _ in pieces])
    asked = []

    def make(objects):
        return lambda root, split, seed, i: (
            asked.append((split, seed, i)) or PuzzleCase(pieces, places, objects, "puzzle", "m")
        )

    def solve(case, workshop):
        (workshop.folder / "pairs.jsonl").touch()  # kept for the next call
        return Puzzle(("a", "b", "c"), places, ((0, 1),), (2,), (1.0,) * 3, (), (), 7.4, "none", ())

    def nothing(*_):
        raise InputError("no rooms are here")

    studies = {"cut-3": Study(make((0, 0, 1)), 5, solve), "time": Study(make((0, 0, 0)), 1, solve)}
    monkeypatch.setattr("bitr.evaluation.puzzles.STUDIES", studies | {"rooms": Study(nothing, 1)})
    monkeypatch.setattr(tables, "STUDIES", studies | {"rooms": Study(nothing, 1)})
    monkeypatch.setattr(tables, "PUZZLES", {"cut-3": "cut into 3", "rooms": "rooms", "time": "large"})
    text, (path,) = tables.run_table("puzzles", plan(tmp_path, limit=2, seed=4))
    head, cut, large = cells_of(text)
    assert head == tables.HEADS["puzzles"]
    assert cut == ("cut into 3", "2", "100%, foreign kept out 100%", "0.0°", "7")
    assert large == ("large", "1", "67%", "0.0°, worst 0.0° and 0.000 m", "7")
    assert asked == [("test", 4, 0), ("test", 4, 1), ("test", 4, 0)]
    assert path == tmp_path / "tables" / "puzzles.md"
    assert (tmp_path / "puzzles" / "cut-3-test-4-1" / "pairs.jsonl").is_file()


def test_all_makes_every_table_of_the_page(tmp_path):
    """``run_all`` runs the experiments, whose results are written here, and measures the other tables."""
    made = set(MEASURED)
    for name in EXPERIMENTS:
        found = result(name, row("BITR", [10], shares={tables.SUCCESS: 1.0}))
        made |= {path.stem for path in write_result(tmp_path, found, plan(tmp_path))}
    assert made == {path.stem for path in page.KEPT.glob("*.md")}
    assert set(tables.PUZZLES) <= set(tables.STUDIES)


def test_rows_and_evaluations_are_brought_into_the_page(tmp_path):
    kept, new = tmp_path / "kept", tmp_path / "new"
    write_table(
        kept, "engine", tables.HEADS["engine"], [("generated cuts", "`a`", *"12345"), ("b", *"123456")]
    )
    document = "before\n\n<!-- benchmarks/tables/engine.md -->\n\n| old |\n| --- |\n\nafter\n"
    pooled = {
        "pairs": 60,
        "rotation_error_deg": {"mean": 5.06, "median": 1.4},
        "right": 0.983,
        "within_5_deg": 0.9,
    }
    settings = {"dataset": "shapes:cut", "checkpoint": "default", "limit": 60, "samplings": 1}
    new.mkdir()
    (new / "evaluation.json").write_text(json.dumps(settings | {"rows": [{"pooled": pooled}]}))
    page.take(new / "evaluation.json", kept)
    page.take(write_table(new, "engine", tables.HEADS["engine"], [("b", *"654321")]), kept)
    text = page.insert(document, kept)
    assert text.startswith("before\n\n<!-- benchmarks/tables/engine.md -->\n\n| pairs | command |")
    assert (
        "| generated cuts | `bitr evaluate default shapes:cut --limit 60 --samplings 1` | 60 | 5.1° |" in text
    )
    assert "| b | 6 | 5 | 4 | 3 | 2 | 1 |" in text
    assert text.endswith("|\n\nafter\n")
    assert page.insert(text, kept) == text
