r"""Radial functions, with their last linear map apart: φ(r) = Σ_z w_z h_z(r).

A radial module gives the h_z. It also says how many weights w_z a layer keeps (``num_weights``), which of
them trade places when the two sides are swapped (``swap_order``), and what they share (``at_one``).
"""

from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bitr.errors import InputError
from bitr.layers.edges import Edges


class Radial(nn.Module):
    """The interface of radial functions."""

    num_weights: int
    num_functions: int
    """Functions that ``forward`` gives; fewer than the weights where those share one (``at_one``)."""
    swap_order: Int[Tensor, " z"]

    def __init__(self, swap_order: Int[Tensor, " z"]) -> None:
        super().__init__()
        self.num_weights = self.num_functions = len(swap_order)
        self.register_buffer("swap_order", swap_order, persistent=False)

    def at_one(self) -> Float[Tensor, " z"] | None:
        """Factors of the weights where ``forward`` gives one function for all of them."""
        return None


class Chebyshev(Radial):
    """Our default: a fixed smooth basis of lengths in their unit, the same for all layers.

    It has scale degree 0, as a function of a length over a length. The functions come with the edges, so that
    they are computed once.
    """

    def __init__(self, sides: int, functions: int) -> None:
        grid = torch.arange(functions**sides).reshape((functions,) * sides)
        super().__init__(grid.permute(*reversed(range(sides))).flatten())

    def forward(self, edges: Edges) -> Float[Tensor, "N z k"]:
        found = 0 if edges.basis is None else edges.basis.shape[1]
        if edges.basis is None or found != self.num_weights:
            raise InputError(
                f"the edges carry {found} radial functions, the layer expects {self.num_weights}"
            )
        return edges.basis


class Homogeneous(Radial):
    r"""The paper's φ₀ and φ₁ (App. C.4): bias-free networks of scale degree 0 or 1.

    Such a network of a single length is a power times a constant, :math:`\varphi(r) = r^p \varphi(1)`: the
    paper's Φ_E does not see distances. It is evaluated that way, as one function :math:`r^p` with the
    network's value at 1 mixed into the weights. For two lengths, the functions of (r₁, r₂) are followed by
    the same functions of (r₂, r₁), so that swapping the sides permutes them.
    """

    def __init__(self, sides: int, width: int, degree: int) -> None:
        super().__init__(torch.arange(sides * width).roll(width))
        self.degree, self.sides = degree, sides
        if sides == 1:
            self.num_functions = 1
        norm = partial(nn.LayerNorm, width, eps=1e-12)  # a larger ε would break degree 0 for short lengths
        first, second = nn.Linear(sides, width, bias=False), nn.Linear(width, width, bias=False)
        if degree == 0:
            trunk = [first, nn.ReLU(), norm(), second, nn.ReLU(), norm()]
        else:
            trunk = [first, nn.ReLU(), second, nn.ReLU()]
        self.trunk = nn.Sequential(*trunk)

    def forward(self, edges: Edges) -> Float[Tensor, "N z k"]:
        if self.sides == 1:
            return edges.lengths.transpose(0, 1) ** self.degree
        lengths = edges.lengths.movedim(0, -1)
        both_orders = self.trunk(torch.stack([lengths, lengths.flip(-1)], dim=1))
        return both_orders.mT.flatten(1, 2)

    def at_one(self) -> Float[Tensor, " z"] | None:
        return self.trunk(next(self.parameters()).new_ones(1)) if self.sides == 1 else None
