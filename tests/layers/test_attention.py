"""The transformer layer: equal to the paper's equations, lawful, and differentiable with little memory."""

import pytest
import torch

from bitr import InputError, Rigid
from bitr.groups import Rep
from bitr.layers import Chebyshev, Homogeneous, TransformerLayer, attention
from tests.conftest import assert_same_field, random_field, random_points
from tests.layers.cases import make_edges, make_layer, rep_of
from tests.reference.actions import swap, turn
from tests.reference.literal import literal_layer

KINDS = ("default", "paper")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("sides", "max_degree", "n"),
    [(1, 1, 7), (1, 2, 7), (2, 1, 5), pytest.param(2, 2, 3, marks=pytest.mark.slow)],
)
def test_fast_layer_equals_the_literal_one_in_values_and_gradients(rng, sides, max_degree, n, kind):
    k = min(4, n - 1)
    layer = make_layer(sides, max_degree, kind, self_interaction=kind == "default")
    points = random_points(n, 3 * sides, rng).requires_grad_()
    field = {d: f.requires_grad_() for d, f in random_field(rep_of(sides, max_degree, 2), n, rng).items()}
    inputs = [points, *field.values(), *layer.parameters()]
    edges = make_edges(points, max_degree, kind, k)

    fast = layer(field, edges)
    slow = literal_layer(layer, field, points[0], edges, 1.5 if kind == "default" else None)
    assert_same_field(fast, slow)

    probe = random_field(layer.rep_out, n, rng)
    gradients = [
        torch.autograd.grad(sum((f * probe[d]).sum() for d, f in out.items()), inputs, allow_unused=True)
        for out in (fast, slow)
    ]
    for ours, theirs in zip(*gradients, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("max_degree", [1, 2])
@pytest.mark.parametrize(
    ("rep_in", "rep_out"),
    [
        ({(0, 0): 3, (1, 0): 1}, {(0, 0): 4, (1, 0): 2}),
        ({(0, 0): 2}, {(0, 0): 2, (1, 0): 2}),
        ({(0, 0): 4, (1, 0): 2}, {(0, 0): 6}),
    ],
    ids=["unequal channels", "scalars only", "to scalars"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_fast_layer_equals_the_literal_one_for_unequal_degrees(rng, rep_in, rep_out, max_degree, kind):
    radial = Chebyshev(1, 3) if kind == "default" else Homogeneous(1, 4, degree=0)
    layer = TransformerLayer(
        Rep(rep_in), Rep(rep_out), radial, radial, heads=2, head_channels=2, tied=False
    ).double()
    points, field = random_points(7, 3, rng), random_field(Rep(rep_in), 7, rng)
    edges, unit = make_edges(points, max_degree, kind), 1.5 if kind == "default" else None
    assert_same_field(layer(field, edges), literal_layer(layer, field, points[0], edges, unit))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_degree", [1, 2, 3])
def test_layer_on_one_cloud_turns_with_it(rng, max_degree, kind):
    layer, g = make_layer(1, max_degree, kind), Rigid.random(rng)
    x, f = random_points(12, 3, rng), random_field(rep_of(1, max_degree, 2), 12, rng)
    one = torch.eye(3).double()
    moved = layer(turn(f, g.rotation, one), make_edges(g.act(x), max_degree, kind))
    assert_same_field(moved, turn(layer(f, make_edges(x, max_degree, kind)), g.rotation, one))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_degree", [1, 2])
def test_layer_on_the_merged_cloud_turns_with_both_sides(rng, max_degree, kind):
    layer, g1, g2 = make_layer(2, max_degree, kind), Rigid.random(rng), Rigid.random(rng)
    z, f = random_points(8, 6, rng), random_field(rep_of(2, max_degree, 2), 8, rng)
    moved_z = torch.cat([g1.act(z[..., :3]), g2.act(z[..., 3:])], dim=-1)
    moved = layer(turn(f, g1.rotation, g2.rotation), make_edges(moved_z, max_degree, kind))
    still = layer(f, make_edges(z, max_degree, kind))
    assert_same_field(moved, turn(still, g1.rotation, g2.rotation))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_degree", [1, 2])
def test_tied_layer_commutes_with_the_swap_and_an_untied_one_does_not(rng, max_degree, kind):
    z, f = random_points(8, 6, rng), random_field(rep_of(2, max_degree, 2), 8, rng)
    edges = make_edges(z, max_degree, kind)
    swapped_edges = make_edges(z.roll(3, dims=-1), max_degree, kind)
    for tied in (True, False):
        layer = make_layer(2, max_degree, kind, tied=tied)
        difference = layer(swap(f), swapped_edges)[1, 1] - swap(layer(f, edges))[1, 1]
        assert (difference.abs().max() < 1e-10) == tied


def test_swap_ties_self_interaction_query_and_kernels(rng):
    """Prop. 5.2 names the weights: W^o = W^õ, W_Q^o = W_Q^õ and the radial functions."""
    layer = make_layer(2, 1, tied=True)
    f = random_field(rep_of(2, 1, 2), 4, rng)
    assert_same_field(layer.skip(swap(f)), swap(layer.skip(f)))
    assert_same_field(layer.query(swap(f)), swap(layer.query(f)))
    order = layer.radial_k.swap_order
    w, mirrored = layer.keys.of_degrees((1, 0), (1, 1)), layer.keys.of_degrees((0, 1), (1, 1))
    torch.testing.assert_close(mirrored, w.transpose(1, 2)[order])
    same = layer.keys.of_degrees((1, 1), (1, 1))
    torch.testing.assert_close(same, same.transpose(1, 2)[order])


@pytest.mark.parametrize("max_degree", [1, 2])
def test_one_sided_layer_is_the_two_sided_one_with_all_degrees_p_zero(rng, max_degree):
    """The SE(3)-transformer is the special case q = 0, when the radial functions ignore the second side."""
    rep, radial = rep_of(1, max_degree, 2), Chebyshev(2, 3)
    x, f = random_points(9, 3, rng), random_field(rep, 9, rng)
    one = make_layer(1, max_degree)
    two = TransformerLayer(rep, rep, radial, radial, heads=2, head_channels=1, tied=False).double()
    with torch.no_grad():
        for ours, theirs in ((two.query, one.query), (two.skip, one.skip)):
            for key in ours.weights:
                ours.weights[key].copy_(theirs.weights[key])
        for ours, theirs in ((two.keys, one.keys), (two.values, one.values)):
            weights = []
            for o in rep:
                for i in rep:
                    w = torch.zeros_like(ours.of_degrees(o, i))
                    w[::3] = theirs.of_degrees(o, i)  # function (a, b) with b = 0, the constant
                    weights.append(w.flatten())
            ours.free.copy_(torch.cat(weights))
    lifted = torch.cat([x, torch.zeros_like(x)], dim=-1)
    assert_same_field(two(f, make_edges(lifted, max_degree)), one(f, make_edges(x, max_degree)))


@pytest.mark.parametrize("sides", [1, 2])
def test_layer_does_not_care_about_the_order_of_points(rng, sides):
    layer, order = make_layer(sides, 1), torch.randperm(10, generator=rng)
    x, f = random_points(10, 3 * sides, rng), random_field(rep_of(sides, 1, 2), 10, rng)
    shuffled = layer({d: v[order] for d, v in f.items()}, make_edges(x[:, order], 1))
    assert_same_field(shuffled, {d: v[order] for d, v in layer(f, make_edges(x, 1)).items()})


@pytest.mark.parametrize("kind", KINDS)
def test_padding_does_not_change_the_other_points(rng, kind):
    layer, x, f = make_layer(1, 1, kind), random_points(9, 3, rng), random_field(rep_of(1, 1, 2), 9, rng)
    mask = torch.arange(14)[None] < 9
    padded = torch.cat([x, 100 * random_points(5, 3, rng)], dim=1)
    padded_f = {d: torch.cat([v, 7 + torch.zeros_like(v[:5])]) for d, v in f.items()}
    out = layer(padded_f, make_edges(padded, 1, kind, mask=mask))
    assert_same_field({d: v[:9] for d, v in out.items()}, layer(f, make_edges(x, 1, kind)))
    assert all(v.isfinite().all() for v in out.values())


def test_a_neighbor_that_enters_does_not_make_the_output_jump(rng):
    """Two points trade places as the k-th neighbour: the smooth layer does not notice, the plain one does."""
    x, f = random_points(12, 3, rng), random_field(rep_of(1, 1, 2), 12, rng)
    distance = (x[0, 0] - x[0, 1:]).norm(dim=-1)
    order = distance.argsort() + 1
    fourth, fifth = order[3], order[4]
    direction = (x[0, fifth] - x[0, 0]) / (x[0, fifth] - x[0, 0]).norm()
    jumps = {}
    for kind in KINDS:
        layer, outputs = make_layer(1, 1, kind), []
        for step in (-1e-7, 1e-7):
            moved = x.clone()
            moved[0, fifth] = x[0, 0] + direction * (distance[fourth - 1] + step)
            edges = make_edges(moved, 1, kind)
            assert (int(fifth) in edges.index[0].tolist()) == (step < 0)
            outputs.append(layer(f, edges)[1, 0][0])
        jumps[kind] = (outputs[0] - outputs[1]).norm().item()
    assert jumps["default"] < 1e-5
    assert jumps["paper"] > 1e-3


def test_neighbors_all_at_the_same_distance_say_nothing_and_break_nothing(rng):
    tetrahedron = (
        torch.tensor([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]).double()[None].requires_grad_()
    )
    layer, f = make_layer(1, 1), random_field(rep_of(1, 1, 2), 4, rng)
    out = layer(f, make_edges(tetrahedron, 1, k=3))
    assert_same_field(out, layer.skip(f))
    out[1, 0].sum().backward()
    assert tetrahedron.grad.isfinite().all()


def test_large_logits_do_not_overflow(rng):
    layer, x = make_layer(1, 1), random_points(10, 3, rng).float()
    f = {d: 1e3 * v.float() for d, v in random_field(rep_of(1, 1, 2), 10, rng).items()}
    out = layer.float()(f, make_edges(x, 1))
    assert all(v.isfinite().all() for v in out.values())


def test_channels_that_heads_cannot_share_are_refused():
    rep, radial = Rep({(0, 0): 3}), Chebyshev(1, 2)
    with pytest.raises(InputError, match="multiples of the number of heads, 2"):
        TransformerLayer(rep, rep, radial, radial, heads=2, head_channels=1, tied=False)


def test_representations_without_scalars_or_a_common_degree_are_refused():
    radial = Chebyshev(1, 2)
    for rep_in, rep_out in (({(1, 0): 2}, {(1, 0): 2}), ({(0, 0): 2}, {(1, 0): 2})):
        with pytest.raises(InputError, match="expected scalars at the input and a degree in common"):
            TransformerLayer(Rep(rep_in), Rep(rep_out), radial, radial, heads=2, head_channels=1, tied=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["default", "paper"])
@pytest.mark.parametrize("sides", [1, 2])
def test_backward_pass_is_the_derivative_of_the_forward_pass(rng, sides, kind):
    layer, points = make_layer(sides, 1, kind), random_points(6, 3 * sides, rng).requires_grad_()
    field = {d: f.requires_grad_() for d, f in random_field(rep_of(sides, 1, 2), 6, rng).items()}

    def run(points, *features):
        return tuple(layer(dict(zip(field, features, strict=True)), make_edges(points, 1, kind)).values())

    assert torch.autograd.gradcheck(run, (points, *field.values()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["default", "paper"])
def test_backward_pass_is_right_for_padded_clouds(rng, kind):
    layer, points = make_layer(1, 1, kind), random_points(8, 3, rng).requires_grad_()
    mask = torch.arange(8)[None] < 6
    field = {d: f.requires_grad_() for d, f in random_field(rep_of(1, 1, 2), 8, rng).items()}

    def run(points, *features):
        out = layer(dict(zip(field, features, strict=True)), make_edges(points, 1, kind, mask=mask))
        return tuple(value[:6] for value in out.values())

    assert torch.autograd.gradcheck(run, (points, *field.values()))


@pytest.mark.slow
def test_backward_pass_is_right_for_the_papers_functions_with_an_envelope(rng):
    layer, points = make_layer(1, 1, "paper"), random_points(6, 3, rng).requires_grad_()
    field = {d: f.requires_grad_() for d, f in random_field(rep_of(1, 1, 2), 6, rng).items()}

    def run(points, *features):
        edges = make_edges(points, 1, functions=0)
        assert edges.envelope is not None
        return tuple(layer(dict(zip(field, features, strict=True)), edges).values())

    assert torch.autograd.gradcheck(run, (points, *field.values()))


@pytest.mark.parametrize("kind", ["default", "paper"])
def test_nodes_in_chunks_give_the_same_values_and_gradients(rng, monkeypatch, kind):
    layer, points = make_layer(1, 1, kind), random_points(20, 3, rng).requires_grad_()
    mask = torch.arange(20)[None] < 17
    field = {d: f.requires_grad_() for d, f in random_field(rep_of(1, 1, 2), 20, rng).items()}
    results = []
    for edges_at_once in (10**6, 12):
        monkeypatch.setattr(attention, "EDGES_AT_ONCE", edges_at_once)
        out = layer(field, make_edges(points, 1, kind, mask=mask))
        loss = sum(value[:17].square().sum() for value in out.values())
        results.append((loss, *torch.autograd.grad(loss, [points, *field.values(), *layer.parameters()])))
    for whole, in_chunks in zip(*results, strict=True):
        torch.testing.assert_close(in_chunks, whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_training_keeps_nothing_per_edge_but_the_geometry(rng, kind):
    """Inside the layer, all per-edge tensors are made again; outside, the geometry was there before."""
    layer, k = make_layer(1, 1, kind), 7
    edges = make_edges(random_points(50, 3, rng), 1, kind, k=k)
    field = {d: f.requires_grad_() for d, f in random_field(rep_of(1, 1, 2), 50, rng).items()}
    geometry = (edges.directions, edges.lengths, edges.envelope, edges.basis)
    known = {t.data_ptr() for t in geometry if t is not None}
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        out = layer(field, edges)
    per_edge = [t for t in kept if k in t.shape and t.data_ptr() not in known]
    assert not per_edge, [t.shape for t in per_edge]
    assert len(kept) > 5, "features and weights are kept"
    sum(value.sum() for value in out.values()).backward()
    assert all(f.grad.isfinite().all() for f in field.values())
