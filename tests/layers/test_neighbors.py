from dataclasses import replace

import pytest
import torch
from scipy.spatial import cKDTree

from bitr import BITR, BITRConfig, Rigid
from bitr.errors import InputError
from bitr.groups import Cloud
from bitr.layers import Neighborhoods, nearest_neighbors
from bitr.layers import neighbors as neighbors_module
from tests.conftest import random_points


def test_neighbors_are_those_of_a_kd_tree_nearest_first(rng):
    for d in (3, 6):
        x = random_points(200, d, rng)
        index, valid = nearest_neighbors(x, 8)
        theirs = cKDTree(x[0].numpy()).query(x[0].numpy(), k=9)[1][:, 1:]
        assert torch.equal(index[0], torch.from_numpy(theirs))
        assert valid is None


def test_neighbors_are_the_same_in_chunks(rng, monkeypatch):
    monkeypatch.setattr(neighbors_module, "TREE_FROM", 10**9)
    x = random_points(100, 3, rng, b=2)
    whole, _ = nearest_neighbors(x, 5)
    monkeypatch.setattr(neighbors_module, "ROWS_AT_ONCE", 7)
    assert torch.equal(nearest_neighbors(x, 5)[0], whole)


def test_tree_and_matrix_give_the_same_neighbors(rng, monkeypatch):
    x, mask = random_points(500, 3, rng, b=2), torch.ones(2, 500, dtype=torch.bool)
    mask[1, 450:] = False
    for masked in (None, mask):
        monkeypatch.setattr(neighbors_module, "TREE_FROM", 1)
        by_tree, valid = nearest_neighbors(x, 12, masked)
        monkeypatch.setattr(neighbors_module, "TREE_FROM", 10**9)
        by_matrix, also_valid = nearest_neighbors(x, 12, masked)
        real = slice(None) if masked is None else mask
        assert torch.equal(by_tree[real], by_matrix[real])
        assert (valid is None) == (also_valid is None)
        assert valid is None or torch.equal(valid, also_valid)


def test_tree_and_matrix_find_the_same_distances_among_ties_and_duplicates(monkeypatch):
    side = torch.arange(5.0).double()
    grid = torch.cartesian_prod(side, side, side)
    x = torch.cat([grid, grid[:40], grid[:40]])[None]
    found = []
    for tree_from in (1, 10**9):
        monkeypatch.setattr(neighbors_module, "TREE_FROM", tree_from)
        index, _ = nearest_neighbors(x, 10)
        assert not (index[0] == torch.arange(len(x[0]))[:, None]).any(), "a point is not its own neighbour"
        found.append((x[0][index[0]] - x[0][:, None]).norm(dim=-1))
    torch.testing.assert_close(found[0], found[1])


def test_clouds_searched_side_by_side_are_those_searched_alone(rng, monkeypatch):
    monkeypatch.setattr(neighbors_module, "TREE_FROM", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    clouds = [random_points(60, 3, rng, b=3), random_points(40, 3, rng)]
    around, starts = Neighborhoods.of_all(clouds, [None, None], 8), [0, 60, 120, 180]
    alone = [nearest_neighbors(cloud[None], 8)[0][0] for batch in clouds for cloud in batch]
    expected = [index + start for index, start in zip(alone, starts, strict=True)]
    assert torch.equal(around.index, torch.cat(expected))
    assert around.valid is None


def test_neighbors_do_not_change_far_from_the_origin(rng):
    x = random_points(300, 3, rng)
    far = Rigid.random(rng, size=1e5).act(x)
    assert torch.equal(nearest_neighbors(far, 10)[0], nearest_neighbors(x, 10)[0])


def test_padding_is_never_a_neighbor(rng):
    x, mask = random_points(30, 3, rng, b=2), torch.ones(2, 30, dtype=torch.bool)
    mask[1, 6:] = False
    index, valid = nearest_neighbors(x, 8, mask)
    assert valid[0].all()
    assert (index[1, :6][valid[1, :6]] < 6).all()
    assert (valid[1, :6].sum(-1) == 5).all()
    assert not valid[1, 6:].any()


def test_a_small_cloud_gives_all_its_other_points(rng):
    index, _ = nearest_neighbors(random_points(5, 3, rng), 24)
    assert index.shape == (1, 5, 4)
    for u, row in enumerate(index[0].tolist()):
        assert sorted([u, *row]) == [0, 1, 2, 3, 4]


def test_neighbours_that_are_known_save_the_search_and_change_nothing(monkeypatch):
    model, rng = BITR(BITRConfig(num_keypoints=4)).double(), torch.Generator().manual_seed(1)
    x, y = (Cloud(torch.randn(2, n, 3, generator=rng, dtype=torch.float64)) for n in (70, 20))
    mask = torch.arange(70) < torch.tensor([[70], [50]])
    x = replace(x, mask=mask)
    expected = model(x, y).matrix()
    known = [replace(c, neighbors=nearest_neighbors(c.points, 18, c.mask)[0]) for c in (x, y)]
    monkeypatch.setattr(neighbors_module, "by_tree", None)  # neither may be called for clouds
    turned = [c.moved(Rigid.random(rng)).scaled(3.0) for c in known]
    torch.testing.assert_close(model(*known).matrix(), expected, rtol=0, atol=1e-12)
    assert all(torch.equal(a.neighbors, b.neighbors) for a, b in zip(known, turned, strict=True))
    few = replace(known[0], neighbors=known[0].neighbors[..., :5])
    with pytest.raises(InputError, match="got 5 neighbors a point, expected at least 16"):
        model(few, y)
