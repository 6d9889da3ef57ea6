r"""The geometry of the edges, computed once and used by every layer, and the radial functions of it.

A radial function is a sum φ(r) = Σ_z w_z h_z(r). A radial module gives the h_z. It also says how many weights
w_z a layer keeps (``num_weights``), which of them trade places when the two sides are swapped
(``swap_order``), and what they share (``at_one``).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bitr.errors import require
from bitr.groups import angular_table, solid_harmonics
from bitr.layers.neighbors import SHORTEST, Neighborhoods, root

SOFTNESS = 0.25
"""Lengths below this part of the unit count as short: there a direction fades instead of jumping."""


@dataclass(frozen=True)
class Edges:
    """Geometry of the pairs (u, v): 3-D clouds have one side, the merged 6-D cloud has two."""

    index: Int[Tensor, "N k"]
    valid: Bool[Tensor, "N k"] | None
    lengths: Float[Tensor, "sides N k"]
    directions: Float[Tensor, "sides 3 N k"]
    envelope: Float[Tensor, "N k"] | None
    basis: Float[Tensor, "N z k"] | None  # the radial functions of ``Chebyshev``, where it is used
    angular: Float[Tensor, "sides N k r m"] | None
    """The matrices A_J(z_vu) of all (o, i, J): rows (o, m_o, i, J) by columns (i, m_i).
    Not needed for vectors of one cloud, where they are dot, cross and outer products."""
    max_degree: int

    @property
    def sides(self) -> int:
        return len(self.directions)

    def of(self, nodes: slice) -> Edges:
        """The edges of some nodes u; their neighbours v may be any."""
        first = {name: getattr(self, name) for name in ("index", "valid", "envelope", "basis")}
        second = {name: getattr(self, name) for name in ("lengths", "angular")}
        parts = {name: part[nodes] for name, part in first.items() if part is not None}
        parts |= {name: part[:, nodes] for name, part in second.items() if part is not None}
        return replace(self, directions=self.directions[:, :, nodes], **parts)


def edges_of(
    around: Neighborhoods, max_degree: int, unit: Float[Tensor, " C"] | None, functions: int = 0
) -> Edges:
    r"""Lengths and directions of the offsets, side by side, and ``functions`` functions of each length.

    With a ``unit`` the geometry is smooth in the points: lengths are in that unit, directions are
    :math:`z/\sqrt{\|z\|^2 + \delta^2}`, which only multiplies the radial function of each J by a power of
    :math:`\|z\|/\sqrt{\|z\|^2 + \delta^2}`, and the envelope :math:`(1 - \|z\|^2/d^2)^2` falls to 0 at the
    distance d of the farthest neighbour, where points enter and leave. Without, all is as in the paper.
    """
    sides, envelope = around.offset.unflatten(0, (-1, 3)), None
    if unit is not None:
        farthest = around.farthest_square()[:, None] + SHORTEST**2
        envelope = (1 - around.offset.square().sum(0) / farthest).square()
        if around.valid is not None:
            envelope = envelope.masked_fill(~around.valid, 0)
        sides = sides / around.clouds.spread(unit)[:, None]
    squares = sides.square().sum(1)
    lengths = root(squares) if unit is None else (squares + SOFTNESS**2).sqrt()
    directions = sides / lengths[:, None]
    basis = chebyshev(lengths, functions) if functions else None
    angular = angular_matrices(directions, max_degree) if len(sides) == 2 or max_degree > 1 else None
    return Edges(around.index, around.valid, lengths, directions, envelope, basis, angular, max_degree)


def angular_matrices(
    directions: Float[Tensor, "sides 3 N k"], max_degree: int
) -> Float[Tensor, "sides N k r m"]:
    """A_J of every direction."""
    with full_precision(directions.device):
        harmonics = solid_harmonics(directions.movedim(1, -1), 2 * max_degree)
        table = angular_table(max_degree).to(directions)
        return torch.einsum("rmy,snky->snkrm", table, torch.cat(harmonics, dim=-1))


def chebyshev(lengths: Float[Tensor, "sides N k"], functions: int) -> Float[Tensor, "N z k"]:
    r"""Chebyshev polynomials :math:`T_z(2\tau - 1)` of :math:`\tau = r/(1+r)`; of two sides, all products."""
    t = 1 - 2 / (1 + lengths)
    ladder = [torch.ones_like(t), t]
    while len(ladder) < functions:
        ladder.append(2 * t * ladder[-1] - ladder[-2])
    basis = torch.stack(ladder[:functions], dim=2)
    if len(lengths) == 1:
        return basis[0]
    return (basis[0, :, :, None] * basis[1, :, None]).flatten(1, 2)


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Keep geometry, attention and key points in the precision of the points, also under autocast."""
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


# radial functions


class Radial(nn.Module):
    """The interface of radial functions."""

    swap_order: Int[Tensor, " z"]

    def __init__(self, swap_order: Int[Tensor, " z"]) -> None:
        super().__init__()
        self.num_weights = len(swap_order)
        self.num_functions = self.num_weights  # of ``forward``; one where all weights share it (``at_one``)
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
        wanted = f"the edges carry {found} radial functions, the layer expects {self.num_weights}"
        require(found == self.num_weights, wanted)
        assert edges.basis is not None
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
        norms = [norm()] if degree == 0 else []
        self.trunk = nn.Sequential(first, nn.ReLU(), *norms, second, nn.ReLU(), *(norm() for _ in norms))

    def forward(self, edges: Edges) -> Float[Tensor, "N z k"]:
        if self.sides == 1:
            return edges.lengths.transpose(0, 1) ** self.degree
        lengths = edges.lengths.movedim(0, -1)
        both_orders = self.trunk(torch.stack([lengths, lengths.flip(-1)], dim=1))
        return both_orders.mT.flatten(1, 2)

    def at_one(self) -> Float[Tensor, " z"] | None:
        return self.trunk(next(self.parameters()).new_ones(1)) if self.sides == 1 else None
