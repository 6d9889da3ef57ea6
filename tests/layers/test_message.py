"""The written-out backward pass, and what it keeps."""

from dataclasses import replace

import pytest
import torch

from bitr.groups import Rep
from bitr.layers import message
from bitr.layers.edges import _angular
from bitr.layers.pair_rows import PairRows
from bitr.layers.rows import VectorRows, as_square, kept_rows, rows_of_any_degree
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


@pytest.mark.parametrize("kind", ["default", "paper"])
def test_backward_pass_is_right_for_padded_clouds(rng, kind):
    layer, points = make_layer(1, 1, kind), random_points(8, 3, rng).requires_grad_()
    mask = torch.arange(8)[None] < 6
    field = {d: f.requires_grad_() for d, f in random_field(rep_of(1, 1, 2), 8, rng).items()}

    def run(points, *features):
        out = layer(dict(zip(field, features, strict=True)), make_edges(points, 1, kind, mask=mask))
        return tuple(value[:6] for value in out.values())

    assert torch.autograd.gradcheck(run, (points, *field.values()))


def test_backward_pass_is_right_for_the_papers_functions_with_an_envelope(rng):
    layer, points = make_layer(1, 1, "paper"), random_points(6, 3, rng).requires_grad_()
    field = {d: f.requires_grad_() for d, f in random_field(rep_of(1, 1, 2), 6, rng).items()}

    def run(points, *features):
        edges = make_edges(points, 1, functions=0)
        assert edges.envelope is not None
        return tuple(layer(dict(zip(field, features, strict=True)), edges).values())

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


@pytest.mark.parametrize("rep", [Rep.two_sided(1, 2), Rep({(0, 0): 3, (1, 0): 1, (0, 1): 2})], ids=str)
def test_rows_of_the_merged_cloud_are_the_rows_of_any_degree(rng, rep):
    """In values and in gradients, also where degrees have different numbers of channels or are missing."""
    points = random_points(6, 6, rng).requires_grad_()
    edges, degrees = make_edges(points, 1), [(0, 0), (0, 1), (1, 1)]
    field = {d: f.requires_grad_() for d, f in random_field(rep, 6, rng).items()}
    general = [
        t.unflatten(0, edges.index.shape).transpose(1, 2).flatten(2)
        for t in rows_of_any_degree(field, edges, degrees)
    ]
    square = as_square(field, 2, 2)
    kept = [kept_rows(field, o, 2, 2, square.shape[3]) for o in degrees]
    rows = PairRows(edges.index, 1, degrees, kept)
    ours, known = rows.forward(square, edges.angular)
    for own, other in zip(ours, general, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-12, atol=1e-12)

    d_rows = [torch.randn(t.shape, generator=rng, dtype=t.dtype) for t in ours]
    inputs = [*field.values(), points]
    wanted = torch.autograd.grad(general, inputs, d_rows, retain_graph=True)
    with torch.no_grad():
        gradients = rows.backward(d_rows, known, square, edges.angular)
    found = torch.autograd.grad([square, edges.angular], inputs, gradients)
    for own, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-10, atol=1e-10)


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


@pytest.mark.parametrize("kind", ["default", "paper"])
def test_training_keeps_nothing_per_edge_but_the_geometry(rng, kind):
    layer, k = make_layer(1, 1, kind), 7
    edges = make_edges(random_points(50, 3, rng), 1, kind, k=k)
    field = {d: f.requires_grad_() for d, f in random_field(rep_of(1, 1, 2), 50, rng).items()}
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        layer(field, edges)
    geometry = (edges.directions, edges.lengths, edges.envelope, edges.basis, edges.harmonics)
    known = {t.data_ptr() for t in geometry if t is not None}
    per_edge = [t for t in kept if t.shape[-1] == k]
    assert per_edge, "the geometry itself is kept"
    # a radial function of its own is one number per edge
    assert {t.data_ptr() for t in per_edge if t.numel() > t.shape[0] * k} <= known
