"""Timing by turns, and the table of ``bitr bench``."""

import json
from types import SimpleNamespace

import pytest

from bitr.cli import bench
from bitr.evaluation import speed
from bitr.evaluation.speed import ModelRow, Patience, Times, take_turns


class Clock:
    """A clock that jobs move, so that no test waits or depends on the machine."""

    def __init__(self) -> None:
        self.now = 0.0

    def job(self, seconds):
        left = iter(seconds)
        return lambda: setattr(self, "now", self.now + next(left))


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(speed, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def test_jobs_take_turns():
    calls = []
    take_turns([lambda: calls.append("a"), lambda: calls.append("b")], Patience(rounds=4, seconds=60.0))
    assert calls == ["a", "b"] * 5


def test_the_fastest_turn_and_the_median_count_and_the_first_turn_does_not(clock):
    times = take_turns(
        [clock.job([0.5, 4.0, 2.0, 9.0]), clock.job([90.0, 1.0, 1.0, 1.0])], Patience(rounds=3, seconds=1e9)
    )
    assert times == [Times(fastest=2.0, median=4.0), Times(fastest=1.0, median=1.0)]


def test_patience_ends_the_turns_but_not_before_the_least(clock):
    patience = Patience(rounds=99, seconds=0.1, least=2)
    assert take_turns([clock.job([1.0, 7.0, 5.0])], patience) == [Times(5.0, 6.0)]


@pytest.mark.slow
def test_bench_prints_one_json_object(monkeypatch, capsys):
    monkeypatch.setattr(speed, "QUICK", Patience(rounds=1, seconds=0.0, least=1))
    monkeypatch.setattr(speed, "QUICK_SIZES", (64,))
    bench.run(quick=True, json=True)
    report = json.loads(capsys.readouterr().out)
    assert report.keys() == {"machine", "models"}
    assert report["machine"]["gflop_per_second"] > 0
    assert [row["config"] for row in report["models"]] == ["default", "paper"]
    for row in report["models"]:
        assert 0 < row["forward_ms"] <= row["forward_median_ms"]
        assert row["forward_units"] > 0
        assert row["training_units"] > 0


def test_bench_prints_a_table_with_a_cell_under_every_head(monkeypatch, capsys):
    row = ModelRow("default", 1, 256, 1, 2.25, 15.0, 16.0, None, None, None, 0.125)
    monkeypatch.setattr(speed, "model_rows", lambda quick: iter([row]))
    monkeypatch.setattr(speed, "machine", lambda quick: {"threads": 2, "unit_ms": 7.0})
    bench.run(quick=True, json=False)
    facts, table = capsys.readouterr().out.split("\n\n")
    assert facts.splitlines() == ["- threads: 2", "- unit ms: 7.0"]
    assert table.splitlines()[2] == "| default | 1 | 256 | 1 | 2.2 (15) |  | 0.12 |"
    assert len({line.count("|") for line in table.splitlines()}) == 1
