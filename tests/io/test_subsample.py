import numpy as np
import pytest
from bitr.io import even_draw, farthest_points
from hypothesis import given
from hypothesis import strategies as st

from tests.app.cases import motion, moved, two_pieces


def naive(points, count):
    """Farthest-point sampling, word for word."""
    picked = [int(np.linalg.norm(points - points.mean(0), axis=1).argmax())]
    while len(picked) < count:
        distance = np.linalg.norm(points[:, None] - points[picked], axis=2).min(1)
        picked.append(int(distance.argmax()))
    return picked


def test_it_is_farthest_point_sampling():
    points, _ = two_pieces(500)
    assert farthest_points(points, 60).tolist() == naive(points, 60)


@given(
    seed=st.integers(0, 1000), factor=st.sampled_from([1e-6, 1.0, 1000.0]), away=st.sampled_from([1.0, 1e6])
)
def test_the_choice_moves_with_the_cloud(seed, factor, away):
    points, _ = two_pieces(300, seed)
    elsewhere = moved(points, motion(seed, size=away)) * factor
    assert farthest_points(elsewhere, 40).tolist() == farthest_points(points, 40).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_ties_are_decided_by_the_order_of_the_points_and_not_by_rounding(seed):
    axis = np.arange(8.0)
    grid = np.stack(np.meshgrid(axis, axis, axis), -1).reshape(-1, 3)
    assert farthest_points(moved(grid, motion(seed)), 100).tolist() == farthest_points(grid, 100).tolist()


def test_copies_are_not_picked_twice():
    points = np.repeat(np.random.default_rng(0).normal(size=(5, 3)), 20, axis=0)
    picked = farthest_points(points, 50)
    assert len(picked) == 5
    assert len(np.unique(points[picked], axis=0)) == 5


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_very_small_and_very_large_numbers(factor):
    points, _ = two_pieces(200)
    assert farthest_points(points * factor, 20).tolist() == farthest_points(points, 20).tolist()


def test_the_draw_depends_on_the_seed_and_the_number_of_points_alone():
    draw = even_draw(10_000, 500, seed=3)
    assert draw.tolist() == even_draw(10_000, 500, seed=3).tolist()
    assert draw.tolist() != even_draw(10_000, 500, seed=4).tolist()
    assert (np.diff(draw) > 0).all()
    assert len(draw) == 500
    assert even_draw(500, 500, seed=3).tolist() == list(range(500))


def test_the_draw_is_even():
    counts = sum(np.bincount(even_draw(100, 50, seed), minlength=100) for seed in range(400))
    assert abs(counts.mean() - 200) < 1e-9
    assert counts.min() > 150  # five standard deviations
    assert counts.max() < 250
