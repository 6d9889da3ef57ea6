"""The study of the rotation trick compares what gives the same."""

import pytest
import torch
from benchmarks.so2 import Case, gains, largest_difference
from benchmarks.so2_layer import AXIS, Basis, _turn_axis_to


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("faded", [True, False])
def test_rotated_layers_give_our_features_and_gradients(sides, faded):
    case = Case(sides, max_degree=2, channels=2, points=8, neighbors=4, dtype=torch.float64, faded=faded)
    assert largest_difference(case) < 1e-10


@pytest.mark.parametrize("max_degree", [0, 1, 2, 3])
def test_the_change_from_j_to_m_is_orthogonal_but_for_the_pairs_of_m(max_degree):
    """A number of m > 0 stands at two places of A_J, m and −m, so that its row has length √½."""
    basis = Basis(max_degree)
    rows = [1.0 if m == 0 else 0.5 for m, shape in enumerate(basis.shapes) for _ in range(shape.numel())]
    expected = torch.diag(torch.tensor(rows, dtype=torch.float64))
    torch.testing.assert_close(basis.change @ basis.change.mT, expected)


def test_the_axis_is_turned_to_every_direction_also_to_its_opposite(rng):
    directions = torch.randn(50, 3, generator=rng, dtype=torch.float64)
    directions = torch.cat([directions / directions.norm(dim=1, keepdim=True), AXIS[None], -AXIS[None]])
    turns = _turn_axis_to(directions)
    torch.testing.assert_close(turns @ AXIS, directions)
    torch.testing.assert_close(torch.linalg.det(turns), torch.ones(52, dtype=torch.float64))


def test_gains_count_the_geometry_once_for_three_layers():
    spent = {"geometry": [3.0, 1.0], "forward": [1.0, 2.0, 0.5]}
    assert gains(spent, "forward") == pytest.approx([6 / 7, 6 / 2.5])
