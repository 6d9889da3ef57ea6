"""The density over poses: its normaliser, its laws, and that samples follow it."""

import math

import pytest
import torch

from bitr import BITR, BITRConfig, Rigid
from bitr.model.distribution import (
    CONCENTRATION,
    SPREAD,
    Heads,
    beliefs,
    bounded_spread,
    log_density,
    log_normalizer,
    sample_rotations,
)
from bitr.model.projection import Unprojected
from bitr.testing import SETTINGS, example_pair


@pytest.fixture(scope="module")
def model() -> BITR:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return BITR(BITRConfig(num_modes=3)).double().eval()


@pytest.fixture(scope="module")
def pair() -> tuple[torch.Tensor, torch.Tensor]:
    return example_pair(seed=2, n=100, setting=SETTINGS[0])


def uniform(n: int, seed: int = 0) -> torch.Tensor:
    return Rigid.random(torch.Generator().manual_seed(seed), n).rotation


@pytest.mark.parametrize("size", [0.0, 0.3, 2.0])
def test_the_normalizer_is_the_mean_over_all_rotations(size, rng):
    a = size * torch.randn(3, 3, generator=rng, dtype=torch.float64)
    mean = (uniform(400_000) * a).sum((-2, -1)).exp().mean()
    assert float(log_normalizer(a)) == pytest.approx(math.log(float(mean)), abs=0.02)


def test_the_normalizer_of_a_multiple_of_one_is_known():
    """c(s I) = e^s (I₀(2s) − I₁(2s)) by Weyl's formula."""
    for s in (0.1, 1.0, 20.0, 3000.0):
        t = torch.tensor(2 * s, dtype=torch.float64)
        expected = 3 * s + float((torch.special.i0e(t) - torch.special.i1e(t)).log())
        assert float(log_normalizer(s * torch.eye(3, dtype=torch.float64))) == pytest.approx(
            expected, rel=1e-9
        )


def test_the_normalizer_sees_proper_singular_values_only_and_has_a_finite_gradient(rng):
    a = torch.randn(5, 3, 3, generator=rng, dtype=torch.float64)
    r1, r2 = uniform(5, 1), uniform(5, 2)
    torch.testing.assert_close(log_normalizer(r1 @ a @ r2.mT), log_normalizer(a))
    torch.testing.assert_close(log_normalizer(a.mT), log_normalizer(a))
    same = torch.eye(3, dtype=torch.float64).requires_grad_()
    log_normalizer(same).backward()
    assert same.grad.isfinite().all()
    assert torch.autograd.gradcheck(log_normalizer, a.requires_grad_())


@torch.no_grad()
def test_the_likelihood_keeps_all_three_laws(model, pair, rng):
    (x, y), g, g1, g2 = pair, *(Rigid.random(rng, 1) for _ in range(3))
    expected = model.log_likelihood(g, x, y)
    for pose, source, reference in (
        (g2 @ g @ g1.inverse(), g1.act(x), g2.act(y)),
        (g.inverse(), y, x),
        (g.scaled(30.0), 30 * x, 30 * y),
    ):
        torch.testing.assert_close(
            model.log_likelihood(pose, source, reference), expected, rtol=1e-7, atol=1e-7
        )


@pytest.mark.slow
@torch.no_grad()
def test_samples_are_likelier_than_the_same_places_turned_at_random(model, pair):
    x, y = pair
    drawn = model.sample(x, y, 40, torch.Generator().manual_seed(0))
    many = [cloud.expand(40, -1, -1) for cloud in pair]
    near = model.log_likelihood(Rigid(drawn.rotation[0], drawn.translation[0]), *many)
    far = model.log_likelihood(Rigid(uniform(40), drawn.translation[0]), *many)
    assert near.mean() > far.mean()


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0])
def test_samples_of_rotations_have_the_mean_that_the_density_has(size, rng):
    """The gradient of the log-normaliser is the mean rotation."""
    a = (size * torch.randn(3, 3, generator=rng, dtype=torch.float64)).requires_grad_()
    log_normalizer(a).backward()
    drawn = sample_rotations(a.detach().expand(20_000, 3, 3), rng)
    torch.testing.assert_close(drawn @ drawn.mT, torch.eye(3, dtype=torch.float64).expand_as(drawn))
    torch.testing.assert_close(drawn.mean(0), a.grad, atol=0.02, rtol=0)


@torch.no_grad()
def test_samples_take_each_head_as_often_as_it_weighs(model, pair):
    heads = model.solve(*pair).heads
    drawn = model.sample(*pair, 5000, torch.Generator().manual_seed(1))
    assert drawn.rotation.shape == (1, 5000, 3, 3)
    with torch.enable_grad():
        a = (CONCENTRATION * heads.votes.mean().r_hat[0]).detach().requires_grad_()
        log_normalizer(a).sum().backward()
    mean = (heads.log_weight[0].exp()[:, None, None] * a.grad).sum(0)
    torch.testing.assert_close(drawn.rotation[0].mean(0), mean, atol=0.05, rtol=0)


@torch.no_grad()
def test_heads_come_in_the_order_of_the_density_at_their_poses(rng):
    """A vague head with a large share does not come before a sharp one."""
    r = uniform(3, 4)[None]
    sizes = torch.tensor([0.02, 1.5, 0.8], dtype=torch.float64)
    anchors = torch.randn(1, 3, 3, generator=rng, dtype=torch.float64)
    parts = Unprojected(sizes[:, None, None] * r, anchors, anchors)
    pose = Rigid(r, anchors - (r @ anchors[..., None])[..., 0])
    score, spread = torch.tensor([[1.0, 0.0, 0.3]]).double(), torch.tensor([[0.3, 0.2, 0.25]]).double()
    found = beliefs(pose, score, parts, spread)[0]
    votes = Unprojected(*(part[:, :, None] for part in (parts.r_hat, parts.source_anchor, anchors)))
    heads = Heads(pose, score, score, votes, torch.arange(3)[None], spread, found[None])
    exact = [
        log_density(heads, Rigid(pose.rotation[:, k], pose.translation[:, k]), torch.ones(1).double())
        for k in range(3)
    ]
    exact = torch.stack([(heads.log_weight + each).logsumexp(1)[0] for each in exact])
    assert found.argsort().tolist() == exact.argsort().tolist() == [0, 2, 1]
    assert heads.best_first().place.tolist() == [[1, 2, 0]]
    sharp = found - exact
    assert abs(float(sharp[1] - sharp[2])) < 0.05  # the constant is common where both are sharp


def test_a_spread_stays_within_bounds_with_a_finite_gradient():
    logit = torch.tensor([-1e3, -50.0, 0.0, 50.0, 1e3]).requires_grad_()
    spread = bounded_spread(logit)
    assert 0.005 < float(spread.min()) < float(spread.max()) < 17
    assert float(spread[2]) == pytest.approx(SPREAD)
    (1 / spread.square()).sum().backward()
    assert logit.grad.isfinite().all()
