"""The kernel, eq. (8), in two parts that meet only after the sum over the neighbours: it never exists.

The angular part acts on a degree-(i₁, i₂) feature F as F ↦ A_{J₁}(ẑ¹) F A_{J₂}(ẑ²)ᵀ. For an output degree o,
the results for all i, J₁, J₂ and channels are the rows (m, q) of T^o_uv: components m by
q = (i₂, J₂, i₁, J₁, channel). The learned part, a weight for each (o, i, J₁, J₂), radial function and pair of
channels, does not depend on the edge.
"""

from __future__ import annotations

from itertools import product
from math import prod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bitr.groups import Degree, Field, Rep, components, mirror
from bitr.layers.edges import Edges, Radial
from bitr.layers.neighbors import gather_neighbors

Rows = list[Float[Tensor, "n _ k"]]  # t^o of each output degree, for some nodes: (n, m q, k)


def num_j(o: int, i: int) -> int:
    """Number of J that couple the degrees o and i of one side: |o − i| … o + i."""
    return 2 * min(o, i) + 1


# The angular part


def angular_rows(field: Field, edges: Edges, degrees: list[Degree]) -> Rows:
    """T^o of each output degree; ``field`` is at all points, ``edges`` may be those of some."""
    return (rows_of_vectors if edges.angular is None else rows_of_any_degree)(field, edges, degrees)


def rows_of_any_degree(field: Field, edges: Edges, degrees: list[Degree]) -> Rows:
    """Both sides' angular matrices, of all (o, i, J) at once, times each neighbour's features as a matrix."""
    assert edges.angular is not None
    side, sides = edges.max_degree + 1, edges.sides
    square = _as_square(field, side, sides)
    c = square.shape[3]
    at_neighbors = square.index_select(0, edges.index.flatten())
    sizes = [(2 * o + 1) * sum(num_j(o, i) for i in range(side)) for o in range(side)]
    angular = edges.angular.flatten(1, 2)
    rows = (angular[0] @ at_neighbors.flatten(2)).unflatten(2, (-1, c)).transpose(1, 2)
    if sides == 2:
        rows = (angular[1] @ rows.flatten(2)).unflatten(2, (-1, c))  # (E, r₂, r₁, c)
    lines = [line.split(sizes, dim=2) for line in rows.split(sizes if sides == 2 else 1, dim=1)]
    result = []
    for o in degrees:
        part = lines[o[1]][o[0]].unflatten(2, (2 * o[0] + 1, -1)).unflatten(1, (2 * o[1] + 1, -1))
        part = part.permute(0, 3, 1, 2, 4, 5).flatten(3).flatten(1, 2)  # (E, m₁ m₂, J₂ J₁ c)
        part = part[:, :, _kept_rows(field, o, side, sides, c)]
        result.append(part.flatten(1).unflatten(0, edges.index.shape).mT)
    return result


def _as_square(field: Field, side: int, sides: int) -> Float[Tensor, "N _ _ c"]:
    """All features of a point as one matrix, x components by y components; zero where a degree is missing."""
    some, c = field[0, 0], max(value.shape[2] for value in field.values())

    def block(p: int, q: int) -> Float[Tensor, "N _ _ c"]:
        value = field.get((p, q), some.new_zeros(len(some), components((p, q)), 0))
        value = nn.functional.pad(value, (0, c - value.shape[2])) if value.shape[2] < c else value
        return value.unflatten(1, (2 * p + 1, 2 * q + 1))

    columns = range(side if sides == 2 else 1)
    return torch.cat([torch.cat([block(p, q) for q in columns], dim=2) for p in range(side)], dim=1)


def _kept_rows(field: Field, o: Degree, side: int, sides: int, c: int) -> slice | Int[Tensor, " q"]:
    """Those (i₂, J₂, i₁, J₁, channel) that exist, where degrees have different numbers of channels."""
    columns = range(side if sides == 2 else 1)
    channels = {(p, q): field[p, q].shape[2] if (p, q) in field else 0 for q in columns for p in range(side)}
    if all(number == c for number in channels.values()):
        return slice(None)
    exists = [
        [channel < channels[p, q] for channel in range(c)]
        for q in columns
        for _ in range(num_j(o[1], q))
        for p in range(side)
        for _ in range(num_j(o[0], p))
    ]
    return torch.tensor(exists, device=field[0, 0].device).flatten().nonzero()[:, 0]


# Give û × v, v and û(û·v) − v|û|²/3 the size of A_J v, whose matrix has Frobenius norm 1, for J = 1, 0 and 2.
CROSS, SAME, SECOND, TRACE = 2**-0.5, 3**-0.5, 1.5**0.5, 6**-0.5


def rows_of_vectors(field: Field, edges: Edges, degrees: list[Degree]) -> Rows:
    """The same for one side and degrees 0 and 1, where A_J is a dot, cross or outer product: much faster."""
    scalars = field[0, 0].flatten(1)
    packed = torch.cat([scalars, field[1, 0].flatten(1)], dim=1) if (1, 0) in field else scalars
    at_neighbors = gather_neighbors(packed.mT.contiguous(), edges.index)
    s, v = at_neighbors[: scalars.shape[1]], at_neighbors[scalars.shape[1] :].unflatten(0, (3, -1))
    u = edges.directions[0]
    dot = (u[:, None] * v).sum(0)
    rows = []
    for o in degrees:
        if o == (0, 0):
            t = torch.cat([s, dot])
        else:
            turned = [CROSS * (v[i] * u[j] - v[j] * u[i]) for i, j in ((1, 2), (2, 0), (0, 1))]
            second = u[:, None] * (SECOND * dot) - (TRACE * u.square().sum(0)) * v
            t = torch.cat([u[:, None] * s, SAME * v, torch.stack(turned), second], dim=1).flatten(0, 1)
        rows.append(t.transpose(0, 1))
    return rows


# The learned part


class KernelWeights(nn.Module):
    """The learned part of a kernel: w for every (o, i, J₁, J₂), radial function and pair of channels.

    With ``tied``, the weights of (õ, ĩ, J₂, J₁) are those of (o, i, J₁, J₂) with the radial functions of the
    other side (Prop. 5.2). The free weights are one vector, which ``forward`` lays out for products.
    """

    index: Tensor

    def __init__(
        self, rep_in: Rep, rep_out: Rep, radial: Radial, *, heads: int, tied: bool, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.scale = scale
        names, count = {}, 0  # a number for every weight (z, J₁, J₂, c_i, c_o), before any are tied
        for o, i in product(rep_out, rep_in):
            shape = (radial.num_weights, num_j(o[0], i[0]), num_j(o[1], i[1]), rep_in[i], rep_out[o])
            names[o, i] = count + torch.arange(prod(shape)).reshape(shape)
            count += prod(shape)
        if tied:
            for (o, i), own in list(names.items()):
                mirrored = names[mirror(o), mirror(i)].transpose(1, 2)[radial.swap_order]
                names[o, i] = torch.minimum(own, mirrored)
        free = torch.cat([name.flatten() for name in names.values()]).unique()
        self.places = {degrees: torch.searchsorted(free, name) for degrees, name in names.items()}
        std, by_head, self.shapes = torch.empty(len(free)), [], {}
        for o in rep_out:
            place = _in_order({i: self.places[o, i] for i in rep_in})
            # A_J has Frobenius norm 1, so what it gives has variance 1/(2o+1) per component
            std[place] = (components(o) / (place.shape[0] * place.shape[1])) ** 0.5
            by_head.append(_split_heads(place, heads, nowhere=len(free)))
            self.shapes[o] = by_head[-1].shape
        self.free = nn.Parameter(torch.randn(len(free)) * std)
        self.register_buffer("index", torch.cat([place.flatten() for place in by_head]), persistent=False)

    def forward(self, radial: Radial) -> dict[Degree, Float[Tensor, "qzh c"]]:
        """For each output degree a matrix from (q, z, head) to channels, zero for other heads' channels."""
        free = torch.cat([self.free, self.free.new_zeros(1)])
        weights = free.index_select(0, self.index) * self.scale
        parts = weights.split([shape.numel() for shape in self.shapes.values()])
        at_one, matrices = radial.at_one(), {}
        for (o, shape), part in zip(self.shapes.items(), parts, strict=True):
            matrix = part.view(shape)
            if at_one is not None:
                matrix = torch.einsum("z,qzhc->qhc", at_one, matrix)
            matrices[o] = matrix.reshape(-1, matrix.shape[-1])
        return matrices

    def of_degrees(self, o: Degree, i: Degree) -> Float[Tensor, "z j1 j2 i o"]:
        """The weights between two degrees, as the paper's equations name them."""
        return self.free[self.places[o, i]]


def _in_order(of_i: dict[Degree, Int[Tensor, "z _ _ _ o"]]) -> Int[Tensor, "z q o"]:
    """Weights of all input degrees in the order of the rows: (i₂, J₂, i₁, J₁, channel)."""
    lines = []
    for second in sorted({i[1] for i in of_i}):
        line = [of_i[i].transpose(1, 2).flatten(2, 3) for i in sorted(of_i) if i[1] == second]
        lines.append(torch.cat(line, dim=2).flatten(1, 2))
    return torch.cat(lines, dim=1)


def _split_heads(place: Int[Tensor, "z q c"], heads: int, nowhere: int) -> Int[Tensor, "q z h c"]:
    z, q, c = place.shape
    own = torch.eye(heads, dtype=torch.bool)[:, :, None]
    split = place.transpose(0, 1).reshape(q, z, 1, heads, c // heads)
    return torch.where(own, split, nowhere).flatten(3)
