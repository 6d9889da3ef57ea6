"""A peer that did less than we do would be no peer."""

import pytest
import torch

from bitr import Rigid
from bitr.evaluation.speed import literal_peer, tables
from bitr.evaluation.speed.e3nn_layer import E3nnLayer, e3nn_harmonics
from bitr.evaluation.speed.literal_peer import LiteralLayer, literal_ratios
from bitr.evaluation.speed.stacks import CHANNELS, STACKS
from bitr.groups import Rep, turn
from bitr.layers import Neighborhoods
from tests.conftest import assert_same_field, random_field, random_points
from tests.layers.cases import make_edges, make_layer, rep_of

ONE = torch.eye(3).double()


@pytest.mark.parametrize("max_degree", [1, 2])
def test_the_e3nn_peer_is_a_lawful_layer_of_the_same_shape(rng, max_degree):
    layer, g = E3nnLayer(max_degree, channels=2, radial_functions=4).double(), Rigid.random(rng)
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


def test_without_a_checkout_the_literal_column_is_empty_and_a_note_says_so(monkeypatch, tmp_path):
    assert tables.notes() == []
    for module in (literal_peer, tables):
        monkeypatch.setattr(module, "LITERAL", tmp_path / "literal.py")
    assert literal_ratios(1) == (None, None)
    assert "literal layer" in tables.notes()[0]
