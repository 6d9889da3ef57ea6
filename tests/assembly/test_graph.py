"""Synchronisation against known poses, and groups from hypotheses that were made by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from bitr.assembly.align import angles
from bitr.assembly.graph import Edge, Graph, Group, Part, certainty, find_groups, synchronise, synchronised
from bitr.data.poses import inverse, random_pose
from bitr.io import Geometry
from tests.assembly.rows import row_of


def known_poses(count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    poses = np.stack([random_pose(rng, 1.0) for _ in range(count)])
    return inverse(poses[0]) @ poses


def measured(poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array(list(combinations(range(len(poses)), 2)))
    return pairs, inverse(poses[pairs[:, 0]]) @ poses[pairs[:, 1]]


def small_motion(rng: np.random.Generator, degrees: float, length: float) -> np.ndarray:
    motion = np.eye(4)
    motion[:3, :3] = Rotation.from_rotvec(np.radians(degrees) * rng.normal(size=3) / np.sqrt(3)).as_matrix()
    motion[:3, 3] = length * rng.normal(size=3)
    return motion


def naive(pairs: np.ndarray, poses: np.ndarray, count: int) -> np.ndarray:
    """Poses along the first measurement that reaches each piece: exact where all measurements are."""
    found = {0: np.eye(4)}
    while len(found) < count:
        for (i, j), pose in zip(pairs, poses, strict=True):
            if i in found and j not in found:
                found[int(j)] = found[int(i)] @ pose
            elif j in found and i not in found:
                found[int(i)] = found[int(j)] @ inverse(pose)
    return np.stack([found[k] for k in range(count)])


@pytest.mark.parametrize("count", [2, 3, 7])
def test_exact_measurements_give_the_poses_that_a_chain_of_them_gives(count):
    truth = known_poses(count, count)
    pairs, poses = measured(truth)
    found = synchronise(pairs, poses, np.ones(len(pairs)))
    assert_allclose(found, naive(pairs, poses, count), atol=1e-9)
    assert_allclose(found, truth, atol=1e-9)


@pytest.mark.parametrize(("count", "wrong"), [(6, 0.2), (8, 0.3), (10, 0.4)])
def test_wrong_measurements_lose_their_say(count, wrong):
    """All pairs, 4° of noise; the naive chain is far off as soon as it meets a wrong measurement."""
    errors, chained = [], []
    for seed in range(10):
        rng = np.random.default_rng([count, seed])
        truth = known_poses(count, seed)
        pairs, poses = measured(truth)
        noisy = np.stack([pose @ small_motion(rng, 4, 0.02) for pose in poses])
        for k in rng.choice(len(pairs), round(wrong * len(pairs)), replace=False):
            noisy[k] = random_pose(rng, 1.0)
        for found, into in (
            (synchronise(pairs, noisy, np.ones(len(pairs))), errors),
            (naive(pairs, noisy, count), chained),
        ):
            into.append(np.degrees(angles(found[1:, :3, :3] @ truth[1:, :3, :3].swapaxes(1, 2))).mean())
    assert np.median(errors) < 5
    assert np.median(errors) < np.median(chained)


def test_synchronisation_moves_with_the_pieces():
    rng = np.random.default_rng(0)
    truth = known_poses(5, 1)
    pairs, poses = measured(truth)
    noisy = np.stack([pose @ small_motion(rng, 5, 0.05) for pose in poses])
    turns = np.stack([random_pose(rng, 0.0) for _ in truth])
    turned = inverse(turns[pairs[:, 0]]) @ noisy @ turns[pairs[:, 1]]
    found, again = (synchronise(pairs, each, np.ones(len(pairs))) for each in (noisy, turned))
    assert_allclose(again, inverse(turns[0]) @ found @ turns, atol=1e-8)


# groups


def ball_part(number: int, size: float) -> Part:
    rng = np.random.default_rng(number)
    points = rng.normal(size=(80, 3))
    return Part.of(
        Geometry(size * points / np.linalg.norm(points, axis=1, keepdims=True)), {number: np.eye(4)}
    )


def far_poses(count: int, seed: int) -> np.ndarray:
    """Places so far from each other that nothing touches."""
    poses = known_poses(count, seed)
    poses[:, :3, 3] = 20 * np.arange(count)[:, None] * [1.0, 0.3, 0.0]
    return poses


def graph_of(truth: np.ndarray, chances: dict[tuple[int, int], float], wrong: int = 3) -> Graph:
    """Hypotheses are wrong but for pairs with a chance: that of the first, or the second if negative."""
    parts = [ball_part(k, 1.0 - 0.01 * k) for k in range(len(truth))]
    rng, rows = np.random.default_rng(5), {}
    for i, j in combinations(range(len(truth)), 2):
        listed = [random_pose(rng, 30.0) for _ in range(wrong)]
        chance = chances.get((i, j))
        right = inverse(truth[i]) @ truth[j]
        right[:3, 3] += parts[i].center - right[:3, :3] @ parts[j].center  # about the centroids, as truth is
        if chance is not None:
            listed.insert(0 if chance >= 0 else 1, right)
        rows[i, j] = row_of(listed, max(0.02, chance or 0.02))
    return Graph.of(parts, 1.0, rows)


def test_sure_joints_make_a_group_and_the_rest_stays_apart():
    truth = far_poses(4, 3)
    graph = graph_of(truth, {(0, 1): 0.97, (1, 2): 0.95})
    (group,) = find_groups(graph, 0.9)
    assert set(group.places) == {0, 1, 2}
    found = synchronised(graph, group)
    assert_allclose(np.stack([found.places[k] for k in range(3)]), truth[:3], atol=1e-6)
    assert all(certainty(graph, found, k) > 0.9 for k in range(3))


def test_two_objects_make_two_groups():
    groups = find_groups(graph_of(far_poses(4, 3), {(0, 2): 0.97, (1, 3): 0.95}), 0.9)
    assert [set(group.places) for group in groups] == [{0, 2}, {1, 3}]


def test_loops_that_close_are_evidence():
    """A part that three pairs place alike joins, though none of them would convince alone."""
    sure = {(0, 1): 0.97, (1, 2): 0.97}
    doubtful = {(0, 3): 0.15, (1, 3): -1.0, (2, 3): 0.1}
    truth = far_poses(4, 3)
    for name, chances, count in (
        ("one pair", {(0, 3): 0.15}, 3),
        ("three pairs", doubtful, 4),
    ):
        (group,) = find_groups(graph_of(truth, {**sure, **chances}), 0.9)
        assert len(group.places) == count, name
    graph = graph_of(truth, {**sure, **doubtful})
    assert certainty(graph, group, 3) > 0.95
    assert_allclose(synchronised(graph, group).places[3], truth[3], atol=1e-6)


@pytest.mark.slow
def test_doubtful_joints_prove_each_other_where_their_loops_close():
    """A ring of six, each joint as likely wrong as right: none convinces before the last loop closes."""
    truth = far_poses(6, 3)
    chain = {(k, k + 1): 0.5 for k in range(5)}
    loops = {(0, 5): 0.5, (1, 4): 0.3, (0, 3): 0.3}
    (group,) = find_groups(graph_of(truth, chain | loops), 0.9)
    graph = graph_of(truth, chain | loops)
    assert set(group.places) == set(range(6))
    places = synchronised(graph, group).places
    assert_allclose(np.stack([places[k] for k in range(6)]), truth, atol=1e-6)
    assert all(certainty(graph, group, k) > 0.9 for k in range(6))
    assert find_groups(graph_of(truth, chain), 0.9) == []
    assert find_groups(graph_of(truth, chain | {(0, 5): 0.1}), 0.9) == []


@pytest.mark.slow
def test_a_part_that_no_loop_holds_is_not_proven_with_the_others():
    truth = far_poses(7, 4)
    loops = {(k, k + 1): 0.5 for k in range(5)} | {(0, 5): 0.5, (1, 4): 0.3, (0, 3): 0.3}
    (group,) = find_groups(graph_of(truth, loops | {(2, 6): 0.4}), 0.9)
    assert set(group.places) == set(range(6))


@pytest.mark.slow
def test_nothing_is_joined_without_belief():
    assert find_groups(graph_of(far_poses(4, 3), {(0, 1): 0.3}), 0.5) == []


def test_parts_that_cross_are_not_joined():
    """Two of three spheres laid into each other: the hypothesis alone would be believed."""
    parts = [ball_part(0, 1.0), ball_part(1, 0.99), ball_part(2, 0.98)]
    shift = np.eye(4)
    shift[:3, 3] = [0.5, 0.0, 0.0]
    graph = Graph.of(parts, 1.0, {(0, 1): row_of([shift], 0.9)})
    assert graph.fit({0: np.eye(4)}, 1, shift) < 0
    assert find_groups(graph, 0.9) == []
    beside = np.eye(4)
    beside[:3, 3] = [2.2, 0.0, 0.0]
    assert len(find_groups(Graph.of(parts, 1.0, {(0, 1): row_of([beside], 0.95)}), 0.9)) == 1


def test_an_edge_does_not_depend_on_its_direction():
    rng = np.random.default_rng(2)
    first, second = ball_part(0, 1.0), ball_part(1, 0.7)
    poses = [random_pose(rng, 1.0) for _ in range(3)]
    there = Edge.of(first, second, 1.0, row_of(poses, 0.6))
    back = Edge.of(second, first, 1.0, row_of([inverse(pose) for pose in poses], 0.6))
    near = there.poses @ small_motion(rng, 5, 0.05)
    assert_allclose(there.support(near), back.support(inverse(near)), rtol=1e-9)
    assert there.support(near).min() > 0
    assert_allclose(there.support(np.stack([random_pose(rng, 9.0)])), 0)


def test_the_largest_part_is_the_root():
    assert Group({3: np.eye(4), 1: np.eye(4)}).root == 1
