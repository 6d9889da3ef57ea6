"""Radial functions: scale degrees, and what a swap of the sides does to them."""

import pytest
import torch

from bitr import InputError
from bitr.layers import Chebyshev, Homogeneous
from tests.conftest import random_points
from tests.layers.cases import make_edges


@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("sides", [1, 2])
def test_paper_radial_functions_have_their_scale_degree(rng, sides, degree):
    radial = Homogeneous(sides, 8, degree).double()
    x = random_points(9, 3 * sides, rng)
    h, larger = radial(make_edges(x, 1, "paper")), radial(make_edges(5 * x, 1, "paper"))
    torch.testing.assert_close(larger, 5**degree * h)


def test_paper_radial_function_of_one_distance_is_a_constant():
    """What the paper's Φ_E sees of a distance: LayerNorm(r·w) = LayerNorm(w)."""
    radial = Homogeneous(1, 8, degree=0).double()
    values = radial.trunk(torch.tensor([[0.1], [1.0], [30.0]]).double())
    torch.testing.assert_close(values[0], values[1], atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(values[2], values[1], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(
    "make", [lambda: Chebyshev(2, 3), lambda: Homogeneous(2, 8, 0)], ids=["ours", "paper"]
)
def test_swapping_the_sides_permutes_the_radial_functions(rng, make):
    radial, z = make().double(), random_points(9, 6, rng)
    h = radial(make_edges(z, 1))
    torch.testing.assert_close(radial(make_edges(z.roll(3, dims=-1), 1)), h[:, radial.swap_order])


def test_a_layer_and_its_edges_must_agree_on_the_radial_functions(rng):
    with pytest.raises(InputError, match="the edges carry 3 radial functions, the layer expects 4"):
        Chebyshev(1, 4)(make_edges(random_points(9, 3, rng), 1))
