"""The written-out backward pass, and what it keeps."""

from dataclasses import replace

import pytest
import torch

from bitr.layers import message
from bitr.layers.edges import _angular
from bitr.layers.rows import VectorRows, rows_of_any_degree
from tests.conftest import random_field, random_points
from tests.layers.cases import make_edges, make_layer, rep_of


@pytest.mark.parametrize("kind", ["default", "paper"])
@pytest.mark.parametrize("sides", [1, 2])
def test_backward_pass_is_the_derivative_of_the_forward_pass(rng, sides, kind):
    layer, points = make_layer(sides, 1, kind), random_points(6, 3 * sides, rng).requires_grad_()
    field = {d: f.requires_grad_() for d, f in random_field(rep_of(sides, 1, 2), 6, rng).items()}

    def run(points, *features):
        return tuple(layer(dict(zip(field, features, strict=True)), make_edges(points, 1, kind)).values())

    assert torch.autograd.gradcheck(run, (points, *field.values()))


def test_backward_pass_is_right_for_padded_clouds(rng):
    layer, points = make_layer(1, 1), random_points(8, 3, rng).requires_grad_()
    mask = torch.arange(8)[None] < 6
    field = {d: f.requires_grad_() for d, f in random_field(rep_of(1, 1, 2), 8, rng).items()}

    def run(points, *features):
        out = layer(dict(zip(field, features, strict=True)), make_edges(points, 1, mask=mask))
        return tuple(value[:6] for value in out.values())

    assert torch.autograd.gradcheck(run, (points, *field.values()))


def test_rows_of_vectors_are_the_rows_of_any_degree(rng):
    """Dot, cross and outer products are the angular matrices of degrees 0 and 1."""
    edges, field = make_edges(random_points(9, 3, rng), 1), random_field(rep_of(1, 1, 3), 9, rng)
    degrees = [(0, 0), (1, 0)]
    rows = VectorRows.of(field, edges, degrees)
    closed = rows.forward(rows.features, rows.direction, slice(None))
    with_matrices = replace(edges, angular=_angular(edges.directions, 1))
    by_edge = rows_of_any_degree(field, with_matrices, degrees)
    for ours, general in zip(closed, message._by_node(by_edge, edges), strict=True):
        torch.testing.assert_close(ours, general, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["default", "paper"])
def test_nodes_in_chunks_give_the_same_values_and_gradients(rng, monkeypatch, kind):
    layer, points = make_layer(1, 1, kind), random_points(20, 3, rng).requires_grad_()
    mask = torch.arange(20)[None] < 17
    field = {d: f.requires_grad_() for d, f in random_field(rep_of(1, 1, 2), 20, rng).items()}
    results = []
    for edges_at_once in (10**6, 12):
        monkeypatch.setattr(message, "EDGES_AT_ONCE", edges_at_once)
        out = layer(field, make_edges(points, 1, kind, mask=mask))
        loss = sum(value[:17].square().sum() for value in out.values())
        results.append((loss, *torch.autograd.grad(loss, [points, *field.values(), *layer.parameters()])))
    for whole, in_chunks in zip(*results, strict=True):
        torch.testing.assert_close(in_chunks, whole, rtol=1e-10, atol=1e-10)


def test_training_keeps_nothing_per_edge_but_the_geometry(rng):
    layer, k = make_layer(1, 1), 7
    edges = make_edges(random_points(50, 3, rng), 1, k=k)
    field = {d: f.requires_grad_() for d, f in random_field(rep_of(1, 1, 2), 50, rng).items()}
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        layer(field, edges)
    geometry = {t.data_ptr() for t in (edges.directions, edges.envelope, edges.basis)}
    per_edge = [t for t in kept if t.shape[-1] == k]
    assert per_edge, "the geometry itself is kept"
    assert {t.data_ptr() for t in per_edge} <= geometry
