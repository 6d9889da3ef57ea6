import json

import pytest
import torch

from bitr import Rigid
from bitr.cli import main
from bitr.evaluation import speed
from bitr.evaluation.e3nn_layer import E3nnLayer
from bitr.groups import turn
from tests.conftest import assert_same_field, random_field, random_points
from tests.layers.cases import make_edges, rep_of


def test_the_fastest_turn_of_each_job_counts():
    calls = []
    seconds = speed._fastest([lambda: calls.append("a"), lambda: calls.append("b")], rounds=4)
    assert calls == ["a", "b"] * 5
    assert all(0 < s < 1 for s in seconds)


@pytest.mark.parametrize("max_degree", [1, 2])
def test_the_e3nn_peer_is_a_lawful_layer_of_the_same_shape(rng, max_degree):
    """A peer that did less than we do would be no peer."""
    layer, g = E3nnLayer(max_degree, channels=2, radial_functions=4).double(), Rigid.random(rng)
    x, f = random_points(12, 3, rng), random_field(rep_of(1, max_degree, 2), 12, rng)
    out = layer(f, make_edges(x, max_degree, functions=4))
    assert {d: v.shape for d, v in out.items()} == {d: v.shape for d, v in f.items()}
    one = torch.eye(3).double()
    moved = layer(turn(f, g.rotation, one), make_edges(g.act(x), max_degree, functions=4))
    assert_same_field(moved, turn(out, g.rotation, one), tol=1e-6)  # e3nn's own constants limit it


@pytest.mark.slow
def test_bench_prints_one_json_object(monkeypatch, capsys):
    monkeypatch.setattr(speed, "QUICK_SIZES", (64,))
    assert main(["bench", "--quick", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {"machine", "models", "memory", "layers"} == report.keys()
    assert {row["config"] for row in report["models"]} == {"default", "paper"}
    assert all(row["forward_units"] > 0 and row["training_units"] > 0 for row in report["models"])
    assert all(row["training_mb"] < 1000 for row in report["memory"])
    assert [row["max_degree"] for row in report["layers"]] == [1, 2]
