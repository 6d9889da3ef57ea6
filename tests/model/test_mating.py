"""The mating head: descriptors that no law changes, and labels that are the truth of a break."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bitr.errors import InputError
from bitr.groups import Cloud, Rigid
from bitr.model import BITR, BITRConfig
from bitr.model.mating import match_labels, match_probabilities, match_scores, mating_loss
from bitr.training.config import LossConfig
from bitr.training.step import pose_loss
from tests.pieces import motion

CONFIG = BITRConfig(width=8, depth=1, num_neighbors=6, normals=True, mating=True, num_modes=1)


def model():
    torch.manual_seed(0)
    return BITR(CONFIG).double()


def grid(n=11, seed=0):
    """A wavy sheet as points and normals: one side of a break."""
    u, v = torch.meshgrid(*[torch.linspace(-1, 1, n, dtype=torch.float64)] * 2, indexing="ij")
    height = 0.2 * torch.sin(3 * u + seed) * torch.cos(2 * v)
    points = torch.stack([u, v, height], -1).reshape(-1, 3)
    du, dv = (
        0.6 * torch.cos(3 * u + seed) * torch.cos(2 * v),
        -0.4 * torch.sin(3 * u + seed) * torch.sin(2 * v),
    )
    normals = torch.nn.functional.normalize(torch.stack([-du, -dv, torch.ones_like(u)], -1), dim=-1)
    return points, normals.reshape(-1, 3)


def pair():
    """Two blocks above and below one sheet, each with another side, apart from each other."""
    points, normals = grid()
    far = points + torch.tensor([0, 0, 1.5])
    lower = Cloud(
        torch.cat([points, points - torch.tensor([0, 0, 1.2])])[None], torch.cat([normals, -normals])[None]
    )
    upper = Cloud(torch.cat([points, far])[None], torch.cat([-normals, normals])[None])
    g = rigid(3)
    return lower, move(upper, g), g


def rigid(seed):
    return Rigid.from_matrix(torch.from_numpy(motion(seed))[None])


def move(cloud, g, c=1.0):
    turned = cloud.normals @ g.rotation.mT
    return replace(cloud, points=c * g.act(cloud.points), normals=turned)


def test_descriptors_do_not_change_with_motions_and_scale_and_directions_turn():
    x, y, _ = pair()
    g1, g2 = (rigid(s) for s in (1, 2))
    plain, other = model().solve(x, y), model().solve(move(x, g1, 3.0), move(y, g2, 3.0))
    for a, b, g in (
        (plain.source_mating, other.source_mating, g1),
        (plain.reference_mating, other.reference_mating, g2),
    ):
        for name in ("contact", "shape", "side"):
            torch.testing.assert_close(getattr(a, name), getattr(b, name), atol=1e-9, rtol=0)
        torch.testing.assert_close(a.along @ g.rotation.mT, b.along, atol=1e-9, rtol=0)


def test_a_swap_transposes_scores_and_chances():
    x, y, _ = pair()
    there, back = model().solve(x, y), model().solve(y, x)
    for table in (match_scores, match_probabilities):
        a = table(there.source_mating, there.reference_mating)
        b = table(back.source_mating, back.reference_mating)
        torch.testing.assert_close(a, b.mT, atol=1e-9, rtol=0)


def test_chances_of_a_row_and_of_a_column_leave_room_for_no_partner():
    x, y, _ = pair()
    solution = model().solve(x, y)
    chance = match_probabilities(solution.source_mating, solution.reference_mating)
    assert float(chance.detach().min()) >= 0
    assert float(torch.maximum(chance.sum(1).max(), chance.sum(2).max()).detach()) < 1


def test_labels_are_those_of_a_loop_over_all_points():
    x, y, g = pair()
    of_x, of_y = match_labels(x, y, g)
    moved, turned = g.act(x.points)[0], (x.normals @ g.rotation.mT)[0]
    spacing = np.mean([np.sqrt(np.pi / 8 * side_square(c.points[0].numpy())) for c in (x, y)])
    for i in range(0, moved.shape[0], 17):
        for j in range(0, moved.shape[0], 13):
            d = float((moved[i] - y.points[0, j]).norm()) / spacing
            facing = max(0.0, -float(turned[i] @ y.normals[0, j]))
            expected = np.exp(-(d**2)) * facing if d < 2 else 0.0
            assert float(of_x.weight[0, i, j]) == pytest.approx(expected, abs=1e-4)
            assert float(of_y.weight[0, j, i]) == pytest.approx(expected, abs=1e-4)
    half = len(grid()[0])
    assert of_x.touches[0, :half].all()  # the sheet
    assert not of_x.touches[0, half:].any()
    assert of_x.is_clear[0, half:].float().mean() > 0.9


def side_square(points):
    """Mean squared distance to the eighth neighbour."""
    apart = np.sort(np.square(points[:, None] - points).sum(2), axis=1)
    return apart[:, 8].mean()


def test_the_loss_keeps_the_laws():
    x, y, g = pair()
    g1, g2 = (rigid(s) for s in (1, 2))

    def loss(source, reference, truth):
        s = model().solve(source, reference)
        return float(mating_loss(s.source_mating, s.reference_mating, source, reference, truth).detach())

    plain = loss(x, y, g)
    moved = Rigid.from_matrix(g2.matrix() @ g.matrix() @ g1.inverse().matrix())
    assert loss(move(x, g1), move(y, g2), moved) == pytest.approx(plain, abs=1e-5)
    assert loss(y, x, g.inverse()) == pytest.approx(plain, abs=1e-5)
    scaled = Rigid(g.rotation, 3 * g.translation)
    still = Rigid(torch.eye(3).double()[None], torch.zeros(1, 3).double())
    assert loss(move(x, still, 3.0), move(y, still, 3.0), scaled) == pytest.approx(plain, abs=1e-5)


def test_padding_changes_nothing():
    x, y, g = pair()
    fill = torch.zeros(1, 5, 3).double()
    mask = torch.cat([torch.ones(1, x.points.shape[1]), torch.zeros(1, 5)], 1).bool()
    padded = Cloud(torch.cat([x.points, fill], 1), torch.cat([x.normals, fill], 1), mask=mask)
    plain, other = model().solve(x, y), model().solve(padded, y)
    a = mating_loss(plain.source_mating, plain.reference_mating, x, y, g)
    b = mating_loss(other.source_mating, other.reference_mating, padded, y, g)
    torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


@pytest.mark.slow
def test_steps_on_one_pair_make_its_matches_likelier():
    x, y, g = pair()
    net, found = model(), []
    optimizer = torch.optim.Adam(net.parameters(), 5e-3)
    for _ in range(30):
        s = net.solve(x, y)
        loss = mating_loss(s.source_mating, s.reference_mating, x, y, g).sum()
        found.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert found[-1] < found[0] - 1


def test_the_training_loss_has_the_term_and_its_weight_turns_it_off():
    x, y, g = pair()
    s = model().solve(x, y)
    each = [pose_loss(s, g, x, y, LossConfig(mating_weight=w)).detach() for w in (0.0, 1.0, 2.0)]
    torch.testing.assert_close(each[2] - each[1], each[1] - each[0])
    assert float(each[1] - each[0]) > 1


def test_a_mating_head_needs_normals():
    with pytest.raises(InputError, match="normals = True"):
        BITRConfig(mating=True)
