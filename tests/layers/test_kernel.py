"""The angular part of the kernel: the fast form beside the definition."""

from dataclasses import replace

import pytest
import torch

from bitr.groups import Rep
from bitr.layers.edges import angular_matrices
from bitr.layers.kernel import rows_of_any_degree, rows_of_vectors
from tests.conftest import random_field, random_points
from tests.layers.cases import make_edges, rep_of


@pytest.mark.parametrize("rep", [rep_of(1, 1, 3), Rep({(0, 0): 4, (1, 0): 1}), Rep({(0, 0): 2})], ids=str)
def test_rows_of_vectors_are_the_rows_of_any_degree(rng, rep):
    """Dot, cross and outer products are the angular matrices of degrees 0 and 1."""
    edges, field = make_edges(random_points(9, 3, rng), 1), random_field(rep, 9, rng)
    degrees = [(0, 0), (1, 0)]
    closed = rows_of_vectors(field, edges, degrees)
    with_matrices = replace(edges, angular=angular_matrices(edges.directions, 1))
    for ours, general in zip(closed, rows_of_any_degree(field, with_matrices, degrees), strict=True):
        torch.testing.assert_close(ours, general, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rep", [Rep.two_sided(1, 2), Rep({(0, 0): 3, (1, 0): 1, (0, 1): 2})], ids=str)
def test_rows_of_the_merged_cloud_are_angular_matrices_on_both_sides(rng, rep):
    """T^o holds A_{J₁} f A_{J₂}ᵀ in the order (i₂, J₂, i₁, J₁, channel), also where degrees are missing."""
    edges, field = make_edges(random_points(6, 6, rng), 1), random_field(rep, 6, rng)
    degrees, blocks = [(0, 0), (0, 1), (1, 1)], {0: slice(0, 2), 1: slice(2, 14)}
    paths, column = {0: [(0, 0), (1, 1)], 1: [(0, 1), (1, 0), (1, 1), (1, 2)]}, {0: [0], 1: [1, 2, 3]}

    def matrix(side, u, v, o, row, i):
        block = edges.angular[side, u, v, blocks[o]].unflatten(0, (2 * o + 1, -1))
        return block[:, row][:, column[i]]

    found = rows_of_any_degree(field, edges, degrees)
    for o, rows in zip(degrees, found, strict=True):
        for u, v in ((0, 0), (5, 3)):
            f = {d: value[edges.index[u, v]].unflatten(0, (2 * d[0] + 1, -1)) for d, value in field.items()}
            expected = [
                torch.einsum("ai,ijc,bj->abc", matrix(0, u, v, o[0], r1, i1), f[i1, i2], second).flatten(0, 1)
                for r2, (i2, _) in enumerate(paths[o[1]])
                for second in (matrix(1, u, v, o[1], r2, i2),)
                for r1, (i1, _) in enumerate(paths[o[0]])
                if (i1, i2) in f
            ]
            torch.testing.assert_close(rows[u, :, v], torch.cat(expected, dim=1).flatten())
