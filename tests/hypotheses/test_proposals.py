"""Proposals: lawful one by one, and half turns only where r̂ leaves them open."""

import numpy as np
import pytest
import torch

from bitr.groups import Rigid, rotation_angle
from bitr.hypotheses import proposals
from bitr.model import BITR, BITRConfig, Solution
from bitr.model.projection import Unprojected
from bitr.testing import (
    SETTINGS,
    assert_bi_equivariant,
    assert_scale_equivariant,
    assert_swap_equivariant,
    example_pair,
    untrained_model,
)

X, Y = example_pair(0, 60, SETTINGS[0])
TURN = Rigid.random(torch.Generator().manual_seed(3), 2).rotation


def solved(model, x=X, y=Y):
    with torch.inference_mode():
        return model.solve(x, y)


def made_of(*signed):
    """A solution whose r̂ is U diag(signed) Vᵀ, and whose anchors are two given points."""
    r_hat = TURN[0] @ torch.diag(torch.tensor(signed, dtype=torch.float64)) @ TURN[1].T
    anchors = torch.tensor([[1.0, 2, 3], [4.0, 5, 7]], dtype=torch.float64)
    votes = Unprojected(r_hat.expand(1, 4, 3, 3), *(a.expand(1, 4, 3) for a in anchors))
    keys = torch.zeros(1, 4, 3, dtype=torch.float64)
    return Solution(Rigid.identity(1), keys, keys, torch.ones(1, dtype=torch.float64), votes)


def half_turns(solution):
    found = proposals(solution)
    return {k: p for k, p in zip(found.kinds, found.poses, strict=True) if k.startswith("half turn")}


@pytest.mark.parametrize("seed", range(2))
def test_every_proposal_keeps_the_three_laws(seed):
    model = untrained_model("default", seed, torch.float64)
    found = proposals(solved(model))
    assert len(found.kinds) == len(set(found.kinds)) >= 5

    def method(x, y):
        again = proposals(solved(model, x[:1], y[:1]))
        assert again.kinds == found.kinds
        return again.poses

    copies = [cloud.expand(len(found.kinds), -1, -1) for cloud in (X, Y)]  # one for each proposal
    assert_bi_equivariant(method, *copies, trials=1)
    assert_swap_equivariant(method, *copies)
    assert_scale_equivariant(method, *copies, factors=(30.0,))


def test_the_first_is_the_models_own_and_the_last_weights_come_last():
    one, other = (solved(untrained_model("default", seed, torch.float64)) for seed in range(2))
    found = proposals(one, last=other)
    np.testing.assert_array_equal(found.poses[0], one.pose.matrix()[0].numpy())
    np.testing.assert_array_equal(found.poses[-1], other.pose.matrix()[0].numpy())
    assert (found.kinds[0], found.kinds[-1]) == ("model", "last weights")
    assert "last weights" not in proposals(one).kinds


def test_a_sure_rotation_leaves_no_half_turn_open():
    assert not half_turns(made_of(1.0, 0.9, 0.8))


@pytest.mark.parametrize("signed", [(1.0, 0.2, -0.19), (5.0, 0.1, 0.05), (1.0, 0.5, -0.45)])
def test_a_closed_gap_gives_the_half_turn_about_the_first_direction(signed):
    solution = made_of(*signed)
    (kind, turned), *others = half_turns(solution).items()
    assert kind == "half turn about the first singular direction"
    assert not others
    own = TURN[0] @ TURN[1].T  # the nearest rotation, also where the third sign is negative
    between = torch.from_numpy(turned[:3, :3]) @ own.T
    assert float(rotation_angle(between)) == pytest.approx(torch.pi)
    axis = TURN[0][:, 0]  # the reference's first singular direction stays
    torch.testing.assert_close(between @ axis, axis)


def test_the_weights_of_four_half_turns_are_told_by_their_mean():
    """Weights 0.4, 0.39, 0.2, 0.01 give s = (0.58, 0.2, −0.18): only the second comes near the first."""
    weights = np.array([0.4, 0.39, 0.2, 0.01])
    flips = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    assert list(half_turns(made_of(*(weights @ flips)))) == ["half turn about the first singular direction"]


def test_directions_that_are_not_determined_are_not_turned_about():
    assert not half_turns(made_of(1.0, 1.0, -1.0))
    assert not half_turns(made_of(0.0, 0.0, 0.0))


def test_every_proposal_of_agreeing_votes_puts_the_anchors_on_each_other():
    for pose in proposals(made_of(1.0, 0.3, -0.25)).poses[1:]:
        np.testing.assert_allclose(pose @ [1, 2, 3, 1], [4, 5, 7, 1])


def test_halves_of_the_key_points_are_means_over_their_votes():
    model = BITR(BITRConfig(num_keypoints=6, channels=2, cloud_channels=2, num_layers=1)).double().eval()
    solution = solved(model)
    found = proposals(solution)
    pose = found.poses[found.kinds.index("every other key point, from the second")]
    votes = solution.votes
    np.testing.assert_allclose(
        pose[:3, :3] @ votes.source_anchor[0, [1, 3, 5]].mean(0).numpy() + pose[:3, 3],
        votes.reference_anchor[0, [1, 3, 5]].mean(0).numpy(),
    )


def test_a_model_without_votes_has_its_own_pose_alone():
    keys = torch.zeros(1, 0, 3)
    found = proposals(Solution(Rigid.identity(1), keys, keys, torch.zeros(1)))
    assert found.kinds == ("model",)
    np.testing.assert_array_equal(found.poses, np.eye(4)[None])
