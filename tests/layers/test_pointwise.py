"""Layers that act on each point: linear maps, Elu, normalisation, feed-forward."""

import pytest
import torch

from bitr import Rigid
from bitr.groups import Rep
from bitr.layers import (
    Clouds,
    DegreeLinear,
    Elu,
    FeedForward,
    FieldNorm,
    WholeCloudBlock,
)
from tests.conftest import assert_same_field, random_field, random_points
from tests.reference.actions import swap, turn
from tests.reference.literal import literal_elu

REP = Rep.two_sided(2, 3)


class Norm(FieldNorm):
    """Of a single cloud."""

    def forward(self, field):
        return super().forward(field, Clouds(((1, len(field[0, 0])),)))


LAYERS = {
    "linear": lambda tied: DegreeLinear(REP, REP, tied),
    "elu": lambda tied: Elu(REP, tied=tied, epsilon=1e-2, leak=0.2),
    "norm": lambda tied: Norm(center=False),
    "centred norm": lambda tied: Norm(center=True),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
def test_layer_turns_with_the_features(rng, make):
    layer, f = make(True).double(), random_field(REP, 5, rng)
    r1, r2 = Rigid.random(rng).rotation, Rigid.random(rng).rotation
    assert_same_field(layer(turn(f, r1, r2)), turn(layer(f), r1, r2))


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
def test_layer_commutes_with_the_swap(rng, make):
    layer, f = make(True).double(), random_field(REP, 5, rng)
    assert_same_field(layer(swap(f)), swap(layer(f)))


@pytest.mark.parametrize("name", ["linear", "elu"])
def test_untied_layer_does_not_commute_with_the_swap(rng, name):
    layer, f = LAYERS[name](False).double(), random_field(REP, 5, rng)
    assert (layer(swap(f))[1, 2] - swap(layer(f))[1, 2]).abs().max() > 1e-3


def test_elu_is_the_true_projection_of_the_paper(rng):
    layer, f = Elu(REP, tied=True, epsilon=1e-15, leak=0.0).double(), random_field(REP, 6, rng)
    out, mu, nu = layer(f), layer.mu(f), layer.nu(f)
    for degree in f:
        literal = torch.stack([literal_elu(a, b) for a, b in zip(mu[degree], nu[degree], strict=True)])
        torch.testing.assert_close(out[degree], literal, rtol=1e-10, atol=1e-10)


def test_elu_keeps_the_scale_degree_of_its_input(rng):
    layer, f = Elu(REP, tied=True, epsilon=0.0, leak=0.2).double(), random_field(REP, 6, rng)
    assert_same_field(layer({d: 3 * v for d, v in f.items()}), {d: 3 * v for d, v in layer(f).items()})


def test_soft_elu_does_not_jump_where_its_direction_vanishes():
    """A scalar channel whose F_ν changes its sign: the paper's Elu jumps from F_μ to 0, the soft one not."""
    rep, jump = Rep({(0, 0): 1}), {}
    for epsilon in (1e-2, 1e-30):
        layer = Elu(rep, tied=False, epsilon=epsilon, leak=0.0).double()
        outputs = []
        for nu in (1e-9, -1e-9):
            layer.mu.weights["00"].data.fill_(1.0)
            layer.nu.weights["00"].data.fill_(nu)
            outputs.append(layer({(0, 0): torch.ones(1, 1, 1).double()})[0, 0].item())
        jump[epsilon] = abs(outputs[0] - outputs[1])
    assert jump[1e-2] < 1e-6
    assert jump[1e-30] == pytest.approx(1.0)


def test_elu_of_zero_features_has_a_finite_gradient():
    layer = Elu(REP, tied=True, epsilon=1e-12, leak=0.2).double()
    f = {d: torch.zeros(2, (2 * d[0] + 1) * (2 * d[1] + 1), 3).double().requires_grad_() for d in REP}
    sum(v.sum() for v in layer(f).values()).backward()
    assert all(v.grad.isfinite().all() for v in f.values())


def test_norm_brings_every_degree_of_every_cloud_to_size_one_and_ignores_padding(rng):
    """A batch of two clouds of 8 places, the second with 5 points, and a cloud of 4."""
    small, large = random_field(REP, 4, rng), {d: 100 * v for d, v in random_field(REP, 16, rng).items()}
    mask = torch.ones(20, dtype=torch.bool)
    mask[13:16] = False
    clouds = Clouds(((2, 8), (1, 4)), mask)
    out = FieldNorm(center=False)({d: torch.cat([large[d], small[d]]) for d in REP}, clouds)
    for degree, value in out.items():
        for cloud in (value[:8], value[8:13], value[16:]):
            assert cloud.square().mean().sqrt().item() == pytest.approx(1.0, abs=1e-3), degree
    assert_same_field({d: v[16:] for d, v in out.items()}, Norm(center=False)(small))


def test_means_and_spread_of_clouds_in_a_row(rng):
    values, mask = random_points(20, 3, rng)[0], torch.arange(20) < 18
    clouds = Clouds(((2, 8), (1, 4)), mask)
    means = clouds.means(values)
    expected = [values[:8].mean(0), values[8:16].mean(0), values[16:18].mean(0)]
    torch.testing.assert_close(means, torch.stack(expected))
    torch.testing.assert_close(clouds.spread(means)[[0, 15, 16]], means)
    torch.testing.assert_close(Clouds(((2, 8), (1, 4))).means(values)[:2], means[:2])
    assert [part.shape for part in clouds.split(values)] == [(2, 8, 3), (1, 4, 3)]


ONE_SIDED = Rep({(0, 0): 4, (1, 0): 3, (2, 0): 2})


def test_feed_forward_turns_with_the_features(rng):
    layer, f = FeedForward(ONE_SIDED).double(), random_field(ONE_SIDED, 5, rng)
    r, one = Rigid.random(rng).rotation, torch.eye(3, dtype=torch.float64)
    assert_same_field(layer(turn(f, r, one)), turn(layer(f), r, one))


def test_feed_forward_tells_a_shape_from_its_mirror_image(rng):
    """By the cross products; inner products alone would not."""
    layer, f = FeedForward(ONE_SIDED).double(), random_field(ONE_SIDED, 5, rng)
    mirrored = {d: (-1) ** d[0] * values for d, values in f.items()}
    assert (layer(mirrored)[1, 0] + layer(f)[1, 0]).abs().max() > 1e-3


def test_feed_forward_does_not_run_away_from_large_features(rng):
    layer, f = FeedForward(ONE_SIDED).double(), random_field(ONE_SIDED, 50, rng)
    change = {}
    for factor in (1.0, 1e4):
        large = {d: factor * values for d, values in f.items()}
        change[factor] = max(float((layer(large)[d] - large[d]).detach().abs().max()) for d in f)
    assert change[1e4] < 10 * change[1.0]


def test_whole_cloud_block_turns_each_cloud_by_itself(rng):
    block, clouds = WholeCloudBlock(ONE_SIDED).double(), Clouds(((1, 6), (1, 4)))
    f, one = random_field(ONE_SIDED, 10, rng), torch.eye(3, dtype=torch.float64)
    r1, r2 = Rigid.random(rng).rotation, Rigid.random(rng).rotation

    def turned(field):
        parts = [turn({d: v[rows] for d, v in field.items()}, r, one) for r, rows in halves]
        return {d: torch.cat([parts[0][d], parts[1][d]]) for d in field}

    halves = [(r1, slice(0, 6)), (r2, slice(6, 10))]
    assert_same_field(block(turned(f), clouds), turned(block(f, clouds)))


def test_whole_cloud_block_sees_the_other_cloud_and_no_padding(rng):
    block, f = WholeCloudBlock(ONE_SIDED).double(), random_field(ONE_SIDED, 10, rng)
    clouds = Clouds(((1, 6), (1, 4)), torch.tensor([True] * 9 + [False]))
    out = block(f, clouds)
    padding, other = ({d: v.clone() for d, v in f.items()} for _ in range(2))
    for d in f:
        padding[d][9] = 100.0
        other[d][8] = 2.0
    unpadded = {d: v[:9] for d, v in block(padding, clouds).items()}
    assert_same_field(unpadded, {d: v[:9] for d, v in out.items()})
    assert (block(other, clouds)[1, 0][:6] - out[1, 0][:6]).abs().max() > 1e-6
