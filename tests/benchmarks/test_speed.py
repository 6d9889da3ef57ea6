"""The speed study: peers that do the same work as our layers, and figures that are what they say."""

import json

import pytest
import torch
from benchmarks.peers import CHANNELS, STACKS, E3nnLayer, LayerRow, LiteralLayer, StackRow, e3nn_harmonics
from benchmarks.speed import BACKWARD, FORWARD, LimitRow, MemoryRow, StageRow, Stopwatch, Traffic, stage_rows

from benchmarks import peers, speed
from bitr import BITR, Rigid
from bitr.evaluation import speed as timing
from bitr.evaluation.speed import Patience, Times, example_clouds
from bitr.groups import Rep
from bitr.layers import Neighborhoods
from tests.conftest import assert_same_field, random_field, random_points
from tests.layers.cases import make_edges, make_layer, rep_of
from tests.reference.actions import turn

ONE = torch.eye(3).double()


@pytest.mark.parametrize("max_degree", [1, 2])
def test_the_e3nn_peer_is_a_lawful_layer_of_the_same_shape(rng, max_degree):
    layer, g = E3nnLayer(max_degree, channels=2, functions=4).double(), Rigid.random(rng)
    x, f = random_points(12, 3, rng), random_field(rep_of(1, max_degree, 2), 12, rng)

    def on(points, field):
        edges = make_edges(points, max_degree, functions=4)
        return layer(field, edges, e3nn_harmonics(edges, max_degree))

    out = on(x, f)
    assert {d: v.shape for d, v in out.items()} == {d: v.shape for d, v in f.items()}
    moved = on(g.act(x), turn(f, g.rotation, ONE))
    assert_same_field(moved, turn(out, g.rotation, ONE), tol=1e-6)  # e3nn's own constants limit it


@pytest.mark.parametrize("name", STACKS)
def test_both_stacks_are_lawful_and_see_the_geometry(rng, name):
    stack, g = STACKS[name](2).double(), Rigid.random(rng)
    x, f = random_points(12, 3, rng), random_field(Rep.one_sided(2, CHANNELS), 12, rng)
    out = stack(f, Neighborhoods.of(x, 5))
    moved = stack(turn(f, g.rotation, ONE), Neighborhoods.of(g.act(x), 5))
    assert_same_field(moved, turn(out, g.rotation, ONE), tol=1e-6)
    other = stack(f, Neighborhoods.of(random_points(12, 3, rng), 5))
    assert (other[0, 0] - out[0, 0]).abs().max() > 1e-3


def test_the_literal_peer_gives_what_our_layer_gives(rng):
    layer = make_layer(1, 1)
    x, f = random_points(8, 3, rng), random_field(rep_of(1, 1, 2), 8, rng)
    edges = make_edges(x, 1)
    unit = 1.5  # of make_edges; the peer's points are in units of 1
    assert_same_field(LiteralLayer(layer)(f, edges, x[0] / unit), layer(f, edges))


def test_times_faster_compares_the_same_kind_of_times():
    assert peers.times_faster(Times(1.0, 2.0), Times(5.0, 6.0)) == (5, 3)


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


def test_the_outermost_of_nested_stages_counts():
    watch = Stopwatch()
    inner = watch.around("inner", lambda: "result")
    assert watch.around("outer", inner)() == "result"
    assert watch.seconds.keys() == {"outer"}
    inner()
    assert watch.seconds.keys() == {"outer", "inner"}


@pytest.mark.slow
def test_the_stages_are_those_of_a_real_pass_and_leave_the_model_as_it_was():
    x, y = example_clouds(64, 1)
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


ROWS = {
    "memory": MemoryRow("paper", 1024, 34.4, None),
    "layers": LayerRow(1, 1024, 4.5, 4.0, 3.5, 3.0, 100.0, 90.0),
    "stacks": StackRow(2, 256, 4.5, 4.0, 3.5, 3.0),
    "limits": LimitRow("default", 1024, 20.0, 0.25, 1.0, 200.0, 12.0),
    "stages": StageRow("default", 1024, "forward", "merge", 0.25, 1.0),
}


def test_tables_have_a_cell_under_every_head_also_where_nothing_was_measured(monkeypatch, capsys):
    one = {name: (type(row), lambda quick, row=row: iter([row])) for name, row in ROWS.items()}
    assert list(one) == list(speed.TABLES)
    monkeypatch.setattr(speed, "TABLES", one)
    monkeypatch.setattr(speed, "machine", lambda quick: {"threads": 2, "unit_ms": 7.0})
    speed.main(["--quick"])
    facts, *printed = capsys.readouterr().out.strip().split("\n\n")
    assert "- unit ms: 7.0" in facts
    assert [table.count("\n") for table in printed] == [2] * len(ROWS)
    assert all(len({line.count("|") for line in table.splitlines()}) == 1 for table in printed)


@pytest.mark.slow
def test_the_study_prints_one_json_object(monkeypatch, capsys):
    monkeypatch.setattr(timing, "QUICK", Patience(rounds=1, seconds=0.0, least=1))
    monkeypatch.setattr(peers, "points_for", lambda max_degree, quick: 64)
    speed.main(["--quick", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report.keys() == {"machine", *speed.TABLES}
    assert all(row["training_mb"] < 1000 for row in report["memory"])
    assert all(row["literal_forward_times_faster"] > 0 for row in report["layers"])
    assert [row["max_degree"] for row in report["stacks"]] == [1, 2]
    assert all(min(row["products_at_least_ms"], row["forward_ms"]) > 0 for row in report["limits"])
