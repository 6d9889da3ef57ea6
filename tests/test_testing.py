"""The law checks themselves: each passes a lawful method and fails one with just that law broken."""

import numpy as np
import pytest
import torch

from bitr import BITR, BITRConfig, Cloud, Rigid
from bitr.io import Geometry
from bitr.testing import (
    SETTINGS,
    Laws,
    assert_bi_equivariant,
    assert_permutation_invariant,
    assert_scale_equivariant,
    assert_swap_equivariant,
    example_pair,
    pose_gap,
    worst,
)

X, Y = example_pair(0, 40, SETTINGS[0])
CHECKS = {
    "bi": assert_bi_equivariant,
    "swap": assert_swap_equivariant,
    "scale": assert_scale_equivariant,
    "permutation": assert_permutation_invariant,
}
MODEL = BITR(BITRConfig(num_keypoints=8, num_layers=1)).double().eval()


def in_grid(points):
    """A voxel grid: it does not turn with the cloud."""
    return (points * 4).round() / 4 + 1e-3 * points


BROKEN = {
    "bi": lambda x, y: MODEL(in_grid(x - x.mean(1, keepdim=True)), y),
    "swap": lambda x, y: MODEL(x, y) @ turn_about_source(x),
    "scale": lambda x, y: (lambda g: Rigid(g.rotation, g.translation + unit_offset(g, x, y)))(MODEL(x, y)),
    "permutation": lambda x, y: MODEL(x[:, :-10], y),
}


def turn_about_source(x):
    """A motion that moves with the source and scales with it, but knows nothing of the reference."""
    center, far = x.mean(1), x[:, (x - x.mean(1, keepdim=True)).norm(dim=-1).argmax()]
    return Rigid(torch.eye(3).double()[None], 0.1 * (far - center))


def unit_offset(g, x, y):
    """One unit of length, from one centroid towards the other as they stand after assembly."""
    gap = y.mean(1) - g.act(x)[:, :5].mean(1)
    return 0.1 * gap / gap.norm()


@torch.no_grad()
@pytest.mark.parametrize("law", CHECKS)
def test_a_lawful_model_passes(law):
    CHECKS[law](MODEL, X, Y, tol=1e-8)


@torch.no_grad()
@pytest.mark.parametrize("law", CHECKS)
def test_a_model_with_the_law_broken_is_caught_by_name(law):
    with pytest.raises(AssertionError, match=f"{law}.* is broken: error .*, allowed 1.00e-06"):
        CHECKS[law](BROKEN[law], X, Y)


@torch.no_grad()
@pytest.mark.parametrize("law", CHECKS)
def test_an_answer_that_is_not_a_number_is_a_broken_law(law):
    with pytest.raises(AssertionError, match="is broken"):
        CHECKS[law](lambda x, y: torch.full((1, 4, 4), float("nan")), X, Y)


@torch.no_grad()
@pytest.mark.parametrize("law", CHECKS)
def test_arrays_matrices_and_clouds_will_do(law):
    def on_arrays(x, y):
        assert isinstance(x, np.ndarray)
        return MODEL(torch.from_numpy(x)[None], torch.from_numpy(y)[None]).matrix()[0].numpy()

    CHECKS[law](on_arrays, X[0].numpy(), Y[0].numpy(), tol=1e-8)
    mask = torch.ones(1, 60, dtype=torch.bool)
    mask[:, 40:] = False
    padded = Cloud(torch.cat([X, X[:, :20] + 9], dim=1), normals=torch.ones(1, 60, 3).double(), mask=mask)
    CHECKS[law](MODEL, padded, Y, tol=1e-8)


@torch.no_grad()
@pytest.mark.parametrize("law", CHECKS)
def test_meshes_will_do_and_their_faces_follow_the_points(law):
    corners = {tuple(np.sort(X[0, [i, i + 1, i + 2], 0].numpy()).round(9)) for i in range(0, 30, 3)}

    def on_meshes(x, y):
        if law == "permutation":
            assert {tuple(np.sort(x.points[face, 0]).round(9)) for face in x.faces} == corners
        return MODEL(torch.from_numpy(x.points)[None], torch.from_numpy(y.points)[None])[0]

    mesh = Geometry(X[0].numpy(), faces=np.arange(30).reshape(10, 3))
    CHECKS[law](on_meshes, mesh, Geometry(Y[0].numpy()), tol=1e-8)


def test_the_worst_of_errors_with_one_that_is_no_number_is_no_number():
    found = worst([Laws(1.0, float("nan"), 0.0), Laws(2.0, 1.0, 3.0)])
    assert (found.bi, found.scale) == (2.0, 3.0)
    assert np.isnan(found.swap)


def test_pose_gap_does_not_depend_on_the_origin_or_the_unit(rng):
    a = Rigid.random(rng, 1)
    b = Rigid(a.rotation, a.translation + 0.01)
    gap = pose_gap(a, b, X)
    move = Rigid.random(rng, size=1e3)
    assert pose_gap(a @ move.inverse(), b @ move.inverse(), move.act(X)) == pytest.approx(gap, rel=1e-6)
    assert pose_gap(a.scaled(1e3), b.scaled(1e3), X * 1e3) == pytest.approx(gap, rel=1e-6)
