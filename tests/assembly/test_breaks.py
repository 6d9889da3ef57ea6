"""Where a closed piece is broken: found by numbers that follow the piece, beside a literal version."""

import numpy as np
import pytest
import torch

from bitr.assembly import breaks
from bitr.assembly.breaks import REACHES, break_finder, describe
from bitr.evaluation.calibrate import auroc
from bitr.io import farthest_points
from tests.assembly.shapes import even_ball
from tests.assembly.test_mate import pieces
from tests.pieces import motion, moved


@pytest.fixture(scope="module")
def piece():
    x, y, truth = pieces(seed=3)
    there = moved(x[0], truth)
    apart = np.linalg.norm(there[:, None] - y[0], axis=2)
    nearest = apart.argmin(1)
    faces = np.einsum("ni,ni->n", x[1] @ truth[:3, :3].T, y[1][nearest]) < -0.5
    return *x, (apart.min(1) < 0.1) & faces


def test_a_rough_break_is_told_from_smooth_sides(piece):
    points, normals, broken = piece
    chances = break_finder().chances(points, normals)
    assert 0.1 < broken.mean() < 0.6
    assert ((chances > 0) & (chances < 1)).all()
    assert auroc(chances, broken) > 0.8


def test_chances_follow_the_piece(piece):
    points, normals, _ = piece
    g, order = motion(5), np.random.default_rng(0).permutation(len(points))
    chances = break_finder().chances(points, normals)
    there = 1e3 * moved(points, g)
    other = break_finder().chances(there[order], (normals @ g[:3, :3].T)[order])
    np.testing.assert_allclose(other, chances[order], rtol=0, atol=1e-9)


def test_many_points_take_the_chance_of_the_nearest_on_their_sheet(piece, monkeypatch):
    points, normals, _ = piece
    rows = farthest_points(points, 300)
    alone = break_finder().chances(points[rows], normals[rows])
    monkeypatch.setattr(breaks, "POINTS", 300)
    found = break_finder().chances(points, normals)
    np.testing.assert_array_equal(found[rows], alone)
    near = np.linalg.norm(points[:, None] - points[rows], axis=2)
    taken = np.abs(found[:, None] - alone).argmin(1)
    assert near[np.arange(len(points)), taken].max() < 3 * np.sort(near, axis=1)[:, 1].max()
    across = np.einsum("ni,ni->n", normals, normals[rows[taken]]) < 0
    assert across.mean() < 0.02


def test_the_numbers_of_a_point_are_what_they_say(piece, monkeypatch):
    """The first numbers of each point in plain loops, without averages over neighbours."""
    points, normals, _ = piece
    monkeypatch.setattr(breaks, "ROUNDS", (1,))
    monkeypatch.setattr(breaks, "NEIGHBORS", 1)
    monkeypatch.setattr(breaks, "spacing_of", lambda squared: 0.07)
    found = describe(points, normals)
    size = np.sqrt(np.square(points - points.mean(0)).sum(1).mean())
    assert found.shape[0] == len(points)
    for i in range(0, len(points), 97):
        reach = REACHES[0] * 0.07
        near = np.array([np.exp(-2 * np.sum((q - points[i]) ** 2) / reach**2) for q in points])
        cosine = normals @ normals[i]
        own = near * np.clip(cosine, 0, 1)
        mean = (own[:, None] * points).sum(0) / own.sum()
        spread = sum(w * np.outer(q - mean, q - mean) for w, q in zip(own, points, strict=True)) / own.sum()
        scatter = sum(w * np.outer(n, n) for w, n in zip(own, normals, strict=True)) / own.sum()
        height = normals[i] @ (mean - points[i])
        expected = [
            1 - own @ cosine / own.sum(),
            height / reach,
            np.sqrt(normals[i] @ spread @ normals[i]) / reach,
            np.linalg.norm(mean - points[i] - height * normals[i]) / reach,
            near[cosine < 0.5].sum() / near.sum(),
            near[cosine < -0.3].sum() / near.sum(),
        ]
        np.testing.assert_allclose(found[i, :6], expected, atol=1e-9)
        np.testing.assert_allclose(found[i, 7:9], np.linalg.eigvalsh(scatter)[:2], atol=1e-9)
        before = np.mean((points - points[i]) @ normals[i] > 0.05 * size)
        assert found[i, 9 * len(REACHES)] == pytest.approx(before)


def test_the_network_is_that_of_torch(piece):
    finder = break_finder()
    described = describe(*piece[:2])
    seen = torch.from_numpy(np.clip((described - finder.mean) / finder.spread, -4, 4))
    for k, (weight, bias) in enumerate(finder.layers):
        seen = seen @ torch.from_numpy(weight) + torch.from_numpy(bias)
        seen = torch.nn.functional.silu(seen) if k + 1 < len(finder.layers) else seen
    np.testing.assert_allclose(finder.logits(described), seen[:, 0].numpy(), atol=1e-9)


def test_a_round_ball_has_no_place_of_its_own():
    points = even_ball(600)
    chances = break_finder().chances(points, points)
    assert np.ptp(chances) < 0.5
