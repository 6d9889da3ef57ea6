"""The loss: worked values, and that it does not change when the pieces are moved, swapped or scaled."""

import math
from dataclasses import replace

import pytest
import torch

from bitr.groups import Cloud, Rigid, map_tensors
from bitr.model import BITR, Solution
from bitr.model.distribution import Heads
from bitr.model.projection import Unprojected
from bitr.training.config import PLAIN, LossConfig
from bitr.training.step import (
    NEAR,
    Objective,
    crowding,
    dense_labels,
    pair_size,
    pose_loss,
    square_displacement,
)
from bitr.training.stream import Batch, collate
from tests.training.cases import MODEL, pair

QUARTER = torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]], dtype=torch.float64)
POSE, PAPER = PLAIN, replace(PLAIN, translation="paper")
UNPROJECTED = replace(PLAIN, compare="unprojected")
LAWFUL = {
    "default": LossConfig(),
    "spread": LossConfig(spread_weight=0.7, spread_reach=2.0),
    "pose": POSE,
    "unprojected": UNPROJECTED,
    "likelihood": LossConfig(compare="likelihood"),
}


def cloud(*rows):
    return Cloud(torch.tensor([rows], dtype=torch.float64))


def solution(pose, source_keypoints=None, reference_keypoints=None, votes=None):
    apart = torch.eye(3, dtype=torch.float64)[None]
    x, y = (k if k is not None else apart for k in (source_keypoints, reference_keypoints))
    return Solution(pose, x, y, torch.ones(1, dtype=torch.float64), votes)


def shifted(*t):
    return Rigid(torch.eye(3, dtype=torch.float64)[None], torch.tensor([t], dtype=torch.float64))


X = cloud((1, 1, 1), (-1, -1, -1), (1, -1, 0), (-1, 1, 0))  # centroid 0, mean square distance 10/4
Y = cloud((3, 0, 0), (1, 0, 0))  # centroid (2, 0, 0), mean square distance 1
SIZE_SQUARED = (2.5 + 1) / 2


def test_the_right_pose_has_no_loss():
    pose = Rigid.random(torch.Generator().manual_seed(0), 1)
    anchor = torch.ones(1, 1, 3, dtype=torch.float64)
    votes = Unprojected(pose.rotation[:, None], anchor, pose.act(anchor))
    for config in (UNPROJECTED, POSE, PAPER):
        assert float(pose_loss(solution(pose, votes=votes), pose, X, Y, config)) == pytest.approx(0)


def test_a_quarter_turn_about_the_centroids_costs_four():
    """‖rᵀr_gt − I‖² = 8 sin²(θ/2); both centroids lie on the axis or at the origin of the turn."""
    truth, turned = Rigid.identity(1), Rigid(QUARTER[None], torch.zeros(1, 3, dtype=torch.float64))
    at_origin = cloud((1, 0, 0), (-1, 0, 0))
    assert float(pose_loss(solution(turned), truth, X, at_origin, POSE)) == pytest.approx(4)
    angle = 0.3
    c, s = math.cos(angle), math.sin(angle)
    small = torch.tensor([[[c, -s, 0], [s, c, 0], [0, 0, 1.0]]], dtype=torch.float64)
    loss = pose_loss(solution(Rigid(small, truth.translation)), truth, X, at_origin, POSE)
    assert float(loss) == pytest.approx(8 * math.sin(angle / 2) ** 2)


def test_a_shift_costs_its_square_in_units_of_the_pairs_size():
    assert float(pair_size(X, Y)) == pytest.approx(math.sqrt(SIZE_SQUARED))
    truth, found = shifted(0, 0, 0), shifted(0, 3, 0)
    assert float(square_displacement(found, truth, X, Y)) == pytest.approx(9 / SIZE_SQUARED)
    half = replace(POSE, translation_weight=0.5)
    assert float(pose_loss(solution(found), truth, X, Y, half)) == pytest.approx(4.5 / SIZE_SQUARED)
    assert float(pose_loss(solution(found), truth, X, Y, PAPER)) == pytest.approx(9)
    assert float(pose_loss(solution(found), truth, X, Y, replace(PAPER, translation_weight=2.0))) == 18


def test_by_default_what_is_projected_is_compared_with_the_truth():
    """‖r̂ − r_gt‖², and how far apart the true pose leaves the anchors, in units of the pair's size."""
    truth, far_off = shifted(0, 3, 0), Rigid.random(torch.Generator().manual_seed(0), 1)
    r_hat = 3 * torch.eye(3, dtype=torch.float64)[None, None]
    x, y = (torch.tensor([[a]], dtype=torch.float64) for a in ((1.0, 0, 0), (1.0, 1, 0)))
    found = solution(far_off, votes=Unprojected(r_hat, x, y))
    config = replace(UNPROJECTED, translation_weight=0.5)
    assert float(pose_loss(found, truth, X, Y, config)) == pytest.approx(3 * 4 + 0.5 * 4 / SIZE_SQUARED)


def test_the_displacement_is_the_mean_over_both_pieces():
    """A turn about the source's centroid leaves the source in place; the reference's goes 2√2."""
    found = Rigid(QUARTER[None], torch.zeros(1, 3, dtype=torch.float64))
    assert float(square_displacement(found, Rigid.identity(1), X, Y)) == pytest.approx(8 / 2 / SIZE_SQUARED)


def test_crowding_counts_what_is_closer_than_its_reach():
    points = torch.tensor([[[0.0, 0, 0], [0.3, 0, 0], [0, 4, 0]]], dtype=torch.float64)
    assert float(crowding(points, 0.5)) == pytest.approx(0.2 / 3)
    assert float(crowding(points, 0.29)) == 0
    assert float(crowding(torch.zeros_like(points), 0.5)) == pytest.approx(0.5, abs=1e-5)


def test_the_spread_term_is_in_units_of_the_pairs_size_and_of_both_sides():
    size = math.sqrt(SIZE_SQUARED)
    close = size * torch.tensor([[[0.0, 0, 0], [0.1, 0, 0]]], dtype=torch.float64)
    apart = 10 * close
    config = replace(POSE, spread_weight=2.0, spread_reach=0.5)
    truth = Rigid.identity(1)
    for x, y, expected in ((close, apart, 0.8), (apart, close, 0.8), (close, close, 1.6), (apart, apart, 0)):
        found = float(pose_loss(solution(truth, x, y), truth, X, Y, config))
        assert found == pytest.approx(expected, abs=1e-9)


def test_key_points_that_fall_together_have_a_finite_gradient():
    points = torch.zeros(1, 3, 3, dtype=torch.float64, requires_grad=True)
    crowding(points, 0.5).sum().backward()
    assert points.grad is not None
    assert points.grad.isfinite().all()


def moved(batch: Batch, g1: Rigid, g2: Rigid) -> Batch:
    truth = g2 @ batch.truth @ g1.inverse()
    return replace(batch, source=batch.source.moved(g1), reference=batch.reference.moved(g2), truth=truth)


def swapped(batch: Batch) -> Batch:
    truth = batch.truth.inverse()
    return replace(batch, source=batch.reference, reference=batch.source, truth=truth)


def scaled(batch: Batch, factor: float) -> Batch:
    source, reference = batch.source.scaled(factor), batch.reference.scaled(factor)
    return replace(batch, source=source, reference=reference, truth=batch.truth.scaled(factor))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return BITR(MODEL).double()


@pytest.fixture
def batch():
    """Padded, as the sizes of the pairs differ."""
    made = collate([pair(0), pair(3)])
    assert made.source.mask is not None
    return made


def losses_and_gradient(model, batch, config):
    model.zero_grad()
    errors = Objective(model, config)(batch)
    errors.loss.sum().backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    return errors.table().detach(), gradient


@pytest.mark.parametrize("config", LAWFUL.values(), ids=LAWFUL)
@pytest.mark.parametrize("change", ["moved", "swapped", "scaled", "all"])
def test_the_loss_and_its_gradient_do_not_change_when_pieces_are(model, batch, rng, change, config):
    """So no augmentation by motions, swaps or scales is needed: it would teach nothing."""
    g1, g2 = Rigid.random(rng, 2, size=3.0), Rigid.random(rng, 2, size=3.0)
    other = {
        "moved": lambda: moved(batch, g1, g2),
        "swapped": lambda: swapped(batch),
        "scaled": lambda: scaled(batch, 40.0),
        "all": lambda: scaled(swapped(moved(batch, g1, g2)), 0.01),
    }[change]()
    errors, gradient = losses_and_gradient(model, batch, config)
    assert errors[:, 0].min() > 0.1  # there is something to learn
    assert gradient.norm() > 0.01
    again, gradient_again = losses_and_gradient(model, other, config)
    torch.testing.assert_close(again, errors, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(gradient_again, gradient, rtol=1e-6, atol=1e-8)


def test_the_papers_translation_term_depends_on_where_the_sources_origin_lies(model, batch):
    away = Rigid(torch.eye(3, dtype=torch.float64).expand(2, 3, 3), torch.full((2, 3), 5.0).double())
    at_home = Rigid.identity(2)
    before, after = (Objective(model, PAPER)(b).loss for b in (batch, moved(batch, away, at_home)))
    assert (after - before).abs().min() > 0.1
    before, after = (Objective(model, POSE)(b).loss for b in (batch, moved(batch, away, at_home)))
    torch.testing.assert_close(after, before, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("config", [*LAWFUL.values(), PAPER], ids=[*LAWFUL, "paper"])
def test_padding_changes_nothing(model, config):
    """The losses of a padded batch are those of its pairs, and the gradient their sum."""
    pairs = [pair(0), pair(3), pair(1)]
    together = losses_and_gradient(model, collate(pairs), config)
    alone = [losses_and_gradient(model, collate([p]), config) for p in pairs]
    torch.testing.assert_close(together[0], torch.cat([a[0] for a in alone]), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(together[1], sum(a[1] for a in alone), rtol=1e-6, atol=1e-8)


def test_what_stands_in_the_padding_does_not_matter():
    padded = Cloud(torch.cat([X.points, torch.full((1, 2, 3), 77.0)], 1), mask=torch.arange(6)[None] < 4)
    assert float(pair_size(padded, Y)) == pytest.approx(math.sqrt(SIZE_SQUARED))
    found = shifted(0, 3, 0)
    assert float(square_displacement(found, Rigid.identity(1), padded, Y)) == pytest.approx(9 / SIZE_SQUARED)


def test_the_errors_shown_beside_the_loss_are_angle_and_displacement():
    class Fixed(torch.nn.Module):
        def solve(self, source, reference):
            return solution(Rigid(QUARTER[None], torch.tensor([[0.0, 3, 0]], dtype=torch.float64)))

    batch = Batch(X, cloud((1, 0, 0), (-1, 0, 0)), Rigid.identity(1), ("a",))
    errors = Objective(Fixed(), POSE)(batch)
    size = math.sqrt((2.5 + 1) / 2)
    assert float(errors.rotation_deg) == pytest.approx(90)
    assert float(errors.displacement) == pytest.approx(3 / size)
    assert float(errors.loss) == pytest.approx(4 + 9 / size**2)


def heads_of(truth: Rigid, turns: list[Rigid]) -> Solution:
    """A solution whose heads are the truth turned, with r̂ as long as rotations are."""
    poses = [turn @ truth for turn in turns]
    rotation = torch.stack([p.rotation for p in poses], dim=1)
    translation = torch.stack([p.translation for p in poses], dim=1)
    anchor = torch.zeros(1, len(turns), 1, 3, dtype=torch.float64)
    votes = Unprojected(rotation[:, :, None], anchor, anchor + translation[:, :, None])
    best = map_tensors(lambda part: part[:, 0], votes)
    zeros = torch.zeros(1, len(turns), dtype=torch.float64)
    heads = Heads(
        Rigid(rotation, translation), zeros, zeros, votes, torch.arange(len(turns))[None], zeros + 0.3, zeros
    )
    return replace(solution(poses[0], votes=best), heads=heads)


def test_one_head_is_compared_unprojected_and_several_by_their_likelihood():
    truth = Rigid.identity(1)
    quarter = Rigid(QUARTER[None], torch.zeros(1, 3, dtype=torch.float64))
    one, several = heads_of(truth, [quarter]), heads_of(truth, [quarter, truth])
    assert float(pose_loss(one, truth, X, Y, UNPROJECTED)) == pytest.approx(4)
    likelihood = replace(UNPROJECTED, compare="likelihood")
    losses = [pose_loss(several, truth, X, Y, config) for config in (UNPROJECTED, likelihood)]
    assert losses[0] == losses[1]
    sure = replace(several.heads, score=torch.tensor([[-50.0, 0]], dtype=torch.float64))
    assert pose_loss(replace(several, heads=sure), truth, X, Y, likelihood) < losses[1]


def test_labels_at_the_points_say_contact_nearest_point_and_center():
    """A point and one at distance 1 from it, the source shifted by 3 along y before."""
    x, y = cloud((0, 3, 0), (-2, 3, 0)), cloud((1, 0, 0), (3, 0, 0))
    of_x, of_y = dense_labels(x, y, shifted(0, -3, 0))
    size = float(pair_size(x, y))
    assert of_x.contact[0].tolist() == pytest.approx([math.exp(-((d / NEAR / size) ** 2)) for d in (1, 3)])
    assert of_x.to_other[0].tolist() == [[1, 0, 0], [3, 0, 0]]
    assert of_y.to_other[0].tolist() == [[-1, 0, 0], [-3, 0, 0]]
    center = torch.tensor([0.5, 0, 0], dtype=torch.float64)  # of the four points
    torch.testing.assert_close(y.points + of_y.to_center, center.expand(1, 2, 3))
    torch.testing.assert_close(shifted(0, -3, 0).act(x.points + of_x.to_center), center.expand(1, 2, 3))


def test_labels_of_a_turned_source_turn_with_it(rng):
    x, y, truth = X, Y, Rigid.random(rng, 1)
    g = Rigid.random(rng, 1)
    before = dense_labels(x, y, truth)[0]
    after = dense_labels(x.moved(g), y, truth @ g.inverse())[0]
    torch.testing.assert_close(after.contact, before.contact)
    for one, other in zip(after.vectors, before.vectors, strict=True):
        torch.testing.assert_close(one, other @ g.rotation.mT)


def test_key_points_that_name_the_same_place_cost_nothing():
    truth = Rigid.random(torch.Generator().manual_seed(0), 1)
    keys = torch.eye(3, dtype=torch.float64)[None]
    config = replace(POSE, keypoint_weight=2.0)
    assert float(pose_loss(solution(truth, keys, truth.act(keys)), truth, X, Y, config)) == pytest.approx(0)
    away = truth.act(keys) + torch.tensor([0, 0, 3.0], dtype=torch.float64)
    found = float(pose_loss(solution(truth, keys, away), truth, X, Y, config))
    assert found == pytest.approx(2 * 9 / SIZE_SQUARED)
