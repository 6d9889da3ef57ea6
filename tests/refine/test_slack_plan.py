"""The transport plan with slack, beside its naive twin and POT."""

import numpy as np
import pytest

from bitr.refine.ot import slack_plan
from tests.reference.sinkhorn import log_slack_plan

TO_THE_END = 2000


@pytest.fixture(params=[0.05, 0.2, 1.0], ids=lambda width: f"width {width}")
def affinity(request):
    rng = np.random.default_rng(0)
    x, y = rng.random((30, 3)), rng.random((20, 3))
    squared = np.square(x[:, None] - y).sum(2)
    return np.exp((0.1**2 - squared) / (2 * request.param**2))


def test_the_plan_is_that_of_the_naive_twin(affinity):
    expected = log_slack_plan(affinity)[:-1, :-1]
    np.testing.assert_allclose(slack_plan(affinity, TO_THE_END), expected, atol=1e-12)


def test_the_plan_is_that_of_pot(affinity):
    """POT wants to know what the slack takes; the rest follows from rows and columns that sum to 1."""
    ot = pytest.importorskip("ot")
    plan = slack_plan(affinity, TO_THE_END)
    n, m = plan.shape
    cost = np.zeros((n + 1, m + 1))
    cost[:n, :m] = -np.log(affinity)
    rows = np.append(np.ones(n), m - plan.sum() + 1)
    columns = np.append(np.ones(m), n - plan.sum() + 1)
    theirs = ot.sinkhorn(rows, columns, cost, 1.0, method="sinkhorn_log", numItermax=5000, stopThr=1e-13)
    np.testing.assert_allclose(plan, theirs[:n, :m], atol=1e-9)


def test_as_many_rounds_as_are_made_nearly_suffice(affinity):
    """The rest makes no difference to where a search ends; more rounds would only take longer."""
    at_last = slack_plan(affinity, TO_THE_END)
    assert np.abs(slack_plan(affinity) - at_last).max() < 0.05 * at_last.max()


@pytest.mark.parametrize("rounds", [0, 1, 7])
def test_the_transposed_affinity_gives_the_transposed_plan(affinity, rounds):
    np.testing.assert_allclose(slack_plan(affinity.T, rounds), slack_plan(affinity, rounds).T, atol=1e-15)


def test_a_batch_is_its_members(affinity):
    batch = np.stack([affinity, affinity**2])
    for member, alone in zip(slack_plan(batch), batch, strict=True):
        np.testing.assert_allclose(member, slack_plan(alone), atol=1e-15)


def test_nothing_is_transported_where_nothing_is_near():
    assert slack_plan(np.zeros((4, 5))).sum() == 0


def test_no_point_gives_or_gets_more_than_it_has(affinity):
    plan = slack_plan(100 * affinity, TO_THE_END)
    assert plan.sum(0).max() < 1
    assert plan.sum(1).max() < 1
