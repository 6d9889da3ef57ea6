import json
from dataclasses import replace

import pytest
import torch

from bitr import BITR
from bitr.cli.bench import bench
from bitr.evaluation.speed import model_speed, peers, tables, timing
from bitr.evaluation.speed.limits import LimitRow, Traffic
from bitr.evaluation.speed.memory import MemoryRow
from bitr.evaluation.speed.model_speed import ModelRow
from bitr.evaluation.speed.passes import pair
from bitr.evaluation.speed.peers import LayerRow, StackRow
from bitr.evaluation.speed.stages import BACKWARD, FORWARD, StageRow, Stopwatch, stage_rows
from bitr.evaluation.speed.timing import Patience


def test_traffic_is_what_operations_read_and_write():
    a, b, out = torch.ones(1000), torch.ones(1000), torch.empty(1000)

    def moved(job):
        with Traffic() as traffic:
            job()
        return traffic.moved

    assert moved(lambda: a + b) == 12000
    assert moved(lambda: torch.mul(a, b, out=out)) == 12000
    assert moved(lambda: a.add_(b)) == 12000
    assert moved(lambda: a.reshape(10, 100).mT[2:]) == 0
    assert moved(lambda: torch.empty(1000)) == 0
    assert moved(lambda: a.reshape(10, 100) + b[:1].expand(10, 100)) == 12000  # b's storage has 1000 numbers


def test_of_stages_inside_one_another_the_outermost_counts():
    watch = Stopwatch()
    inner = watch.around("inner", lambda: "result")
    assert watch.around("outer", inner)() == "result"
    assert watch.seconds.keys() == {"outer"}
    inner()
    assert watch.seconds.keys() == {"outer", "inner"}


def test_the_stages_are_those_of_a_real_pass_and_leave_the_model_as_it_was():
    x, y = pair(64, 1)
    model = BITR()
    before = model(x, y).matrix()
    rows = list(stage_rows(quick=True, n=64))
    assert torch.equal(model(x, y).matrix(), before)
    assert not any("timed" in getattr(owner, name).__qualname__ for owner, name, _ in (*FORWARD, *BACKWARD))
    for config in ("default", "paper"):
        for job, stages in (("forward", FORWARD), ("with backward", BACKWARD)):
            own = [row for row in rows if (row.config, row.job) == (config, job)]
            lacking = {stage for _, _, stage in stages} - {row.stage for row in own}
            assert lacking <= ({"whole-cloud blocks"} if config == "paper" else set())
            assert all(row.ms > 0 for row in own)
            assert sum(row.percent for row in own) == pytest.approx(100)


@pytest.mark.slow
def test_bench_prints_one_json_object(monkeypatch, capsys):
    monkeypatch.setattr(timing, "QUICK", Patience(rounds=1, seconds=0.0, least=1))
    monkeypatch.setattr(model_speed, "QUICK_SIZES", (64,))
    monkeypatch.setattr(peers, "_points", lambda max_degree, quick: 64)
    bench(quick=True, as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert report.keys() == {"machine", "notes", *(table.name for table in tables.TABLES)}
    assert {row["config"] for row in report["models"]} == {"default", "paper"}
    for row in report["models"]:
        assert 0 < row["forward_ms"] <= row["forward_median_ms"]
        assert row["forward_units"] > 0
        assert row["training_units"] > 0
    assert all(row["training_mb"] < 1000 for row in report["memory"])
    assert all(row["literal_forward_times_faster"] > 0 for row in report["layers"])
    assert [row["max_degree"] for row in report["stacks"]] == [1, 2]
    assert all(row["products_at_least_ms"] < row["forward_ms"] for row in report["limits"])


ROWS = {
    "models": ModelRow("default", 1, 256, 1, 2.25, 15.0, 16.0, None, None, None, 0.125),
    "memory": MemoryRow("paper", 1024, 34.4, None),
    "layers": LayerRow(1, 1024, 4.5, 4.0, 3.5, 3.0, 16, None, None),
    "stacks": StackRow(2, 256, 4.5, 4.0, 3.5, 3.0, None, None),
    "limits": LimitRow("default", 1024, 20.0, 0.25, 1.0, 200.0, 12.0),
    "stages": StageRow("default", 1024, "forward", "merge", 0.25, 1.0),
}


def test_tables_have_a_cell_under_every_head_also_where_nothing_was_measured(monkeypatch, capsys):
    one_row = tuple(replace(t, rows=lambda quick, row=ROWS[t.name]: iter([row])) for t in tables.TABLES)
    monkeypatch.setattr(tables, "TABLES", one_row)
    monkeypatch.setattr(tables, "machine", lambda quick: {"threads": 2, "unit_ms": 7.0})
    bench(quick=True, as_json=False)
    out = capsys.readouterr().out
    assert "- unit ms: 7.0" in out
    assert "| default | 1 | 256 | 1 | 2.2 (15) |  | 0.12 |" in out
    printed = [part.splitlines() for part in out.split("\n\n") if part.startswith("|")]
    assert [len(lines) for lines in printed] == [3] * len(ROWS)
    assert all(len({line.count("|") for line in lines}) == 1 for lines in printed)
